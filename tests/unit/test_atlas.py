"""The map of a pool: projection, windows, layers and polygons, against versions that look at every row by itself."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Campaign, CampaignError, InputError, pool
from hedgerow.campaign import atlas, layouts, placing
from hedgerow.campaign.atlas import BINS, MOST_MARKED, MOST_POINTS, Window
from hedgerow.campaign.layouts import AXES, NEIGHBORS, SIDE, Layout, find_axes, find_frame, make_layout
from hedgerow.kernels import freeze, maps
from hedgerow.kernels import placing as kernels
from hedgerow.progress import ignore

CLASSES = ["cat", "dog", "fox"]
RNG = np.random.default_rng


def begin(folder: Path, n: int, **options: Any) -> Campaign:
    lines = "".join(f"r{row},text {row}\n" for row in range(n))
    (folder / "pool.csv").write_text(f"id,text\n{lines}")
    return Campaign.init(folder / "campaign", folder / "pool.csv", classes=CLASSES, **options)


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    """Two hundred rows around three places, with their map."""
    rows = np.eye(3)[np.arange(200) % 3] + 0.1 * RNG(0).normal(size=(200, 3))
    with begin(tmp_path, 200, embeddings=rows.astype(np.float32)) as made:
        made.atlas().draw()
        yield made


def locate(campaign: Campaign) -> Layout:
    """All rows of a small map."""
    found = campaign.atlas().view().points
    assert found is not None
    return Layout(found.x, found.y, NEIGHBORS, 0.0)


# Places by axes.


def place_by_axes(rows: Any) -> Any:
    """The places (2, n) of rows by their principal components."""
    along = find_axes(rows).project(rows)[:, :2]
    return find_frame(along).place(along)


def project_slowly(rows: Any) -> Any:
    """The two leading principal components by the singular values of the centered rows of length 1."""
    unit = np.array([row / np.linalg.norm(row) if row.any() else row for row in rows])
    centered = unit - unit.mean(axis=0)
    right = np.linalg.svd(centered)[2][:2]
    return centered @ np.array([axis if axis[np.abs(axis).argmax()] > 0 else -axis for axis in right]).T


@pytest.mark.parametrize("seed", range(5))
def test_places_are_principal_components(seed: int) -> None:
    rows = RNG(seed).normal(size=(60, 5)) * [5, 3, 1, 1, 1]
    rows[7] = 0
    places = place_by_axes(rows).astype(np.float64).T
    expected = project_slowly(rows)
    inside = ((places > 0) & (places < SIDE - 1)).all(axis=1)
    assert inside.sum() > 50
    # One scale for both axes, and places are rounded.
    gaps, spans = places[inside] - places[inside][0], expected[inside] - expected[inside][0]
    scale = np.abs(gaps).max() / np.abs(spans).max()
    np.testing.assert_allclose(gaps, spans * scale, atol=2.5)


def test_the_share_of_variance_is_known() -> None:
    angles = RNG(0).normal(size=50) / 10
    flat = np.c_[np.cos(angles), np.sin(angles), np.zeros(50), np.zeros(50)]
    assert find_axes(flat).share == pytest.approx(1.0)
    assert find_axes(RNG(0).normal(size=(500, 10))).share == pytest.approx(0.2, abs=0.06)


def test_a_few_rows_far_away_do_not_shrink_the_rest() -> None:
    rows = np.c_[np.ones(5000), RNG(0).normal(size=(5000, 2)) / 1000]
    rows[:3, 1] = 50
    places = place_by_axes(rows)
    assert np.ptp(places[0, 3:]) > SIDE // 2
    assert (places[0, :3] == places[0, 0]).all()
    assert places[0, 0] in (0, SIDE - 1)


@pytest.mark.parametrize("rows", [np.ones((9, 4)), np.zeros((9, 4)), np.ones((1, 1)), np.arange(1.0, 6)[:, None]])
def test_rows_that_do_not_differ_are_at_one_place(rows: Any) -> None:
    assert len(np.unique(place_by_axes(rows), axis=1).T) == 1


@pytest.mark.parametrize(
    "rows", [np.tile(np.eye(4), (100, 1)), RNG(0).normal(size=(49, 4)), np.ones((100, 3)), np.ones((1, 1))]
)
def test_few_different_rows_are_placed_by_axes(rows: Any) -> None:
    found = make_layout(open_matrix(rows), ignore)
    assert found.way == AXES
    assert found.x.tolist() == place_by_axes(rows)[0].tolist()
    assert found.share == pytest.approx(find_axes(rows).share)


# Places by neighbors.


def open_matrix(rows: Any) -> pool.Matrix:
    return pool.open_matrix(rows.astype(np.float32), "embeddings")


def make_groups(n: int, groups: int, width: int = 24, seed: int = 0) -> tuple[Any, Any]:
    """Rows around so many places, and the group of each."""
    rng = RNG(seed)
    group = rng.integers(0, groups, n)
    return rng.normal(size=(groups, width))[group] + 0.4 * rng.normal(size=(n, width)), group


def find_nearest(rows: Any, k: int) -> Any:
    """The k nearest rows of every row, but itself, by all distances."""
    gaps = np.square(rows).sum(axis=1) - 2 * rows @ rows.T
    np.fill_diagonal(gaps, np.inf)
    return gaps.argsort(axis=1, kind="stable")[:, :k]


def measure_kept(rows: Any, x: Any, y: Any, k: int = 10) -> float:
    """Of the k nearest of a row, the share that is among its k nearest on a map."""
    there = find_nearest(np.stack([x, y], axis=1).astype(float), k)
    here = find_nearest(rows / np.linalg.norm(rows, axis=1)[:, None], k)
    return float(np.mean([len({*one} & {*other}) / k for one, other in zip(here, there, strict=True)]))


@pytest.mark.parametrize("sample", [2000, 500])
def test_neighbors_stay_together(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "SAMPLE", sample)
    rows, group = make_groups(2000, 60)
    found = make_layout(open_matrix(rows), ignore)
    assert found.way == NEIGHBORS
    kept = measure_kept(rows, found.x, found.y)
    assert kept > 2.5 * measure_kept(rows, *place_by_axes(rows))
    nearest = find_nearest(np.stack([found.x, found.y], axis=1).astype(float), 1)[:, 0]
    assert (group[nearest] == group).mean() > 0.95
    if sample == len(rows):
        assert found.share == pytest.approx(kept, abs=0.02)  # places are rounded


@pytest.mark.parametrize("sample", [5000, 1000])
def test_one_pool_has_one_map(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "SAMPLE", sample)
    rows = open_matrix(make_groups(5000, 30)[0])
    shares: list[float] = []
    first = make_layout(rows, lambda _, share: shares.append(share))
    again = make_layout(rows, ignore)
    assert (first.x == again.x).all()
    assert (first.y == again.y).all()
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    # Rounding may depend on the blocks that rows are read in, and nothing else.
    monkeypatch.setattr(layouts, "BLOCK", 700)
    parts = make_layout(rows, ignore)
    apart = np.hypot(*(one.astype(float) - other for one, other in ((first.x, parts.x), (first.y, parts.y))))
    assert np.quantile(apart, 0.99) <= 1.5


def test_copies_are_at_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.repeat(make_groups(300, 5)[0], 4, axis=0)
    for sample in (1200, 400):
        monkeypatch.setattr(layouts, "SAMPLE", sample)
        found = make_layout(open_matrix(rows), ignore)
        places = np.stack([found.x, found.y]).astype(int).reshape(2, 300, 4)
        assert np.ptp(places, axis=2).max() <= 1
        assert len(np.unique(places[:, :, 0], axis=1).T) > 200


def test_wide_rows_are_placed_by_their_leading_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "MOST_AXES", 8)
    rows, group = make_groups(600, 6, width=40)
    axes = find_axes(rows)
    assert axes.project(rows).shape == (600, 8)
    np.testing.assert_allclose(axes.project(rows)[:, :2], project_slowly(rows), atol=1e-5)
    found = make_layout(open_matrix(rows), ignore)
    nearest = find_nearest(np.stack([found.x, found.y], axis=1).astype(float), 1)[:, 0]
    assert (group[nearest] == group).mean() > 0.9


def lose(places: Any, pairs: Any, strength: float, near: float) -> float:
    """The loss of some pairs, as in the paper."""
    gaps = 1 + np.square(places[:, None] - places[pairs]).sum(axis=2)
    return float(strength * (gaps / (near + gaps)).sum())


@pytest.mark.parametrize("seed", range(5))
def test_forces_are_minus_the_gradient_of_the_losses(seed: int) -> None:
    rng = RNG(seed)
    places = rng.normal(size=(12, 2)) * rng.choice([0.1, 5, 50])
    near, middle, far = (rng.integers(0, 12, (12, k), np.int32) for k in (3, 2, 4))
    strengths = np.array([2.0, rng.choice([0.0, 700.0]), 1.0])

    def total(at: Any) -> float:
        repelled = (1 / (2 + np.square(at[:, None] - at[far]).sum(axis=2))).sum()
        return lose(at, near, 2.0, 10.0) + lose(at, middle, strengths[1], 10_000.0) + strengths[2] * repelled

    forces = np.empty_like(places)
    kernels.add_forces(places, near, middle, far, strengths, forces)
    step = 1e-5
    for row, axis in ((0, 0), (5, 1), (11, 0)):
        moved = np.zeros_like(places)
        moved[row, axis] = step
        slope = (total(places + moved) - total(places - moved)) / (2 * step)
        assert forces[row, axis] == pytest.approx(-slope, rel=1e-4, abs=1e-6)


def test_rows_are_placed_in_the_middle_of_their_nearest_landmarks() -> None:
    rng = RNG(0)
    points, places = rng.normal(size=(80, 5)).astype(np.float32), rng.normal(size=(80, 2)) * 10
    rows = rng.normal(size=(40, 5)).astype(np.float32)
    landmarks = placing.Landmarks(points, places, points[:1].copy(), np.array([0, 80]))
    for row, found in zip(rows, landmarks.place(rows), strict=True):
        near = places[np.square(points - row).sum(axis=1).argsort()[: placing.NEIGHBORS]]

        def spread(at: Any, near: Any = near) -> float:
            return float(np.sqrt(np.square(near - at).sum(axis=1)).sum())

        least = min(spread(found + move) for move in rng.normal(size=(500, 2)))
        assert spread(found) < least + 0.3
    # In cells, nearly all of the nearest are found.
    sorted_ = placing.Landmarks.of(points, places, 0)
    same = np.abs(sorted_.place(rows) - landmarks.place(rows)).max(axis=1) < 1e-5
    assert same.mean() > 0.4
    assert np.diff(sorted_.starts).sum() == 80


# Kernels.


def make_places(seed: int, n: int = 400) -> tuple[Any, Any, Any]:
    rng = RNG(seed)
    side = int(rng.choice([20, 1000, SIDE]))
    x, y = rng.integers(0, side, (2, n)).astype(np.uint16)
    return freeze(x), freeze(y), freeze(rng.random(n) < 0.2)


@pytest.mark.parametrize("seed", range(20))
def test_windows_are_counted_row_by_row(seed: int) -> None:
    x, y, hidden = make_places(seed)
    rng = RNG(seed + 1000)
    left, top = (int(one) for one in rng.integers(-500, int(x.max()) + 1, 2))
    right, bottom = left + int(rng.integers(1, 2 * SIDE)), top + int(rng.integers(1, 2 * SIDE))
    lines, columns = (int(one) for one in rng.integers(1, 600, 2))
    expected: dict[tuple[int, int], list[int]] = {}
    for row in range(len(x)):
        if not hidden[row] and left <= x[row] < right and top <= y[row] < bottom:
            place = (int(y[row]) - top) * lines // (bottom - top), (int(x[row]) - left) * columns // (right - left)
            expected.setdefault(place, []).append(row)
    column, line = atlas.cut_axis(left, right, columns), atlas.cut_axis(top, bottom, lines)
    counts, first = np.zeros((lines, columns), np.int64), np.full((lines, columns), -1, np.int64)
    maps.count_window(x, y, hidden, column, line, counts, first)
    assert {place: (counts[place], first[place]) for place in zip(*np.nonzero(counts), strict=True)} == {
        place: (len(rows), rows[0]) for place, rows in expected.items()
    }
    assert ((first >= 0) == (counts > 0)).all()
    listed = np.empty(len(x), np.int64)
    found = maps.list_window(x, y, hidden, column, line, listed)
    assert listed[:found].tolist() == sorted(row for rows in expected.values() for row in rows)


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_row_is_found(seed: int) -> None:
    x, y, hidden = make_places(seed)
    rng = RNG(seed)
    at_x, at_y, reach = int(rng.integers(0, x.max() + 1)), int(rng.integers(0, y.max() + 1)), int(rng.integers(0, 60))
    near = [((int(x[row]) - at_x) ** 2 + (int(y[row]) - at_y) ** 2, row) for row in range(len(x)) if not hidden[row]]
    distance, row = min(near)
    assert maps.find_nearest(x, y, hidden, at_x, at_y, reach) == (row if distance <= reach**2 else -1)


def is_inside(x: int, y: int, corners: Any) -> bool:
    """Whether a line to the right crosses the border an odd number of times, in fractions."""
    crossings = 0
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        ax, ay, bx, by = map(int, (ax, ay, bx, by))
        if min(ay, by) <= y < max(ay, by) and x < ax + Fraction((bx - ax) * (y - ay), by - ay):
            crossings += 1
    return crossings % 2 == 1


@pytest.mark.parametrize("seed", range(30))
def test_rows_inside_a_polygon_are_found(seed: int) -> None:
    x, y, hidden = make_places(seed)
    rng = RNG(seed + 1000)
    corners = rng.integers(-5, int(x.max()) + 6, (int(rng.integers(3, 12)), 2))
    expected = [row for row in range(len(x)) if not hidden[row] and is_inside(int(x[row]), int(y[row]), corners)]
    rows = np.empty(len(x), np.int64)
    assert maps.list_inside(x, y, hidden, freeze(corners), rows) == len(expected)
    assert rows[: len(expected)].tolist() == expected
    few = np.empty(3, np.int64)
    assert maps.list_inside(x, y, hidden, freeze(corners), few) == len(expected)
    assert few[: len(expected)].tolist() == expected[:3]


@pytest.mark.parametrize(("wide", "high", "bins"), [(9, 9, (256, 256)), (18, 8, (168, 384)), (1, 99, (512, 128))])
def test_bins_are_about_square(wide: int, high: int, bins: tuple[int, int]) -> None:
    assert atlas.choose_bins(Window(0, 0, wide, high)) == bins


def test_examples_come_from_the_fullest_parts() -> None:
    counts, first = np.zeros((BINS, BINS), np.int64), np.full((BINS, BINS), -1, np.int64)
    for row, (place, many) in enumerate({(0, 0): 5, (1, 1): 9, (40, 0): 3, (200, 200): 20}.items()):
        counts[place], first[place] = many, row
    assert atlas.find_examples(counts, first).tolist() == [3, 1, 2]


# Campaigns.


def test_the_map_shows_every_row(campaign: Campaign) -> None:
    view = campaign.atlas().view()
    assert view.total == view.within == view.counts.sum() == 200
    assert view.points is not None
    assert view.points.row.tolist() == list(range(200))
    # Rows around one place are together.
    places = np.stack([view.points.x, view.points.y]).astype(float)
    middles = np.stack([places[:, one::3].mean(axis=1) for one in range(3)])
    near = np.square(places.T[:, None] - middles).sum(axis=2).argmin(axis=1)
    assert (near == np.arange(200) % 3).mean() > 0.98
    assert {name: one.total for name, one in view.layers.items()} == {"picked": 0, "labeled": 0, "disputed": 0}


def test_many_rows_are_a_density(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atlas, "MOST_POINTS", 50)
    assert MOST_POINTS > 200
    view = campaign.atlas().view()
    assert view.points is None
    x, y = int(view.examples.x[0]), int(view.examples.y[0])
    close = campaign.atlas().view(Window(x - 300, y - 300, x + 300, y + 300))
    assert close.points is not None
    assert view.examples.row[0] in close.points.row
    assert close.within == len(close.points.row) < 50


def test_layers_follow_what_people_say(campaign: Campaign) -> None:
    campaign.next(4, strategy="random", answers=2)
    tasks = campaign.batch(1)
    rows, numbers = tasks["row"].tolist(), tasks["task"].tolist()

    def list_layers() -> dict[str, list[int]]:
        return {name: one.points.row.tolist() for name, one in campaign.atlas().view().layers.items()}

    assert list_layers() == {"picked": sorted(rows), "labeled": [], "disputed": []}
    for who, second in (("ana", "cat"), ("ben", "dog")):
        campaign.answer(who, numbers[0], "cat")
        campaign.answer(who, numbers[1], second)
    assert list_layers() == {"picked": sorted(rows[2:]), "labeled": [rows[0]], "disputed": [rows[1]]}
    campaign.retire([f"r{rows[0]}", f"r{rows[2]}"])
    assert list_layers() == {"picked": [rows[3]], "labeled": [], "disputed": [rows[1]]}
    assert campaign.atlas().view().total == 198
    campaign.close(1)
    assert list_layers()["picked"] == []


def test_of_a_large_layer_an_even_part_is_listed(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_MARKED > 100
    monkeypatch.setattr(atlas, "MOST_MARKED", 10)
    campaign.next(100, strategy="random")
    layer = campaign.atlas().view().layers["picked"]
    assert (layer.total, layer.within, len(layer.points.row)) == (100, 100, 10)
    assert layer.points.row.tolist() == sorted(campaign.batch(1)["row"].tolist())[::10]


def test_rows_inside_a_polygon_are_browsed(campaign: Campaign) -> None:
    places = locate(campaign)
    x, y = int(places.x[5]), int(places.y[5])
    corners = [(x - 900, y - 900), (x + 900, y - 900), (x, y + 900)]
    page = campaign.browse_polygon(corners, n=3)
    expected = [row for row in range(200) if is_inside(int(places.x[row]), int(places.y[row]), np.array(corners))]
    assert page.total == len(expected) > 0
    assert 5 in expected
    everything = campaign.browse_polygon(corners, n=100).rows
    assert sorted(one.row for one in everything) == expected
    assert everything[:3] == page.rows
    clusters = [one.cluster for one in everything]
    assert len({*clusters}) == 1 + sum(one != other for one, other in pairwise(clusters))
    assert campaign.atlas().find_near(x, y, 0).tolist() == [min(np.flatnonzero((places.x == x) & (places.y == y)))]
    assert campaign.atlas().find_near(SIDE * 3, 0, 5).tolist() == []
    assert [one.id for one in campaign.browse_rows([7, 3]).rows] == ["r7", "r3"]


@pytest.mark.parametrize("corners", [[], [(0, 0), (1, 1)], [(0, 0)] * 501, [(0, 0), (1, 1), (2**40, 0)], [1, 2, 3]])
def test_other_polygons_are_refused(campaign: Campaign, corners: Any) -> None:
    with pytest.raises(InputError, match="a polygon has 3 to 500 corners"):
        campaign.browse_polygon(corners)


@pytest.mark.parametrize("window", [Window(5, 0, 5, 9), Window(0, 9, 9, 0), Window(-(2**40), 0, 9, 9)])
def test_other_windows_are_refused(campaign: Campaign, window: Window) -> None:
    with pytest.raises(InputError, match="a window is"):
        campaign.atlas().view(window)


def test_the_map_is_kept_and_made_again_when_it_must_be(campaign: Campaign, tmp_path: Path) -> None:
    before = locate(campaign)
    (kept,) = (tmp_path / "campaign" / "maps").iterdir()
    with Campaign.open(tmp_path / "campaign") as again:
        assert again.atlas().is_drawn()
        assert (locate(again).x == before.x).all()
    kept.write_bytes(b"damaged")
    with Campaign.open(tmp_path / "campaign") as again:
        assert not again.atlas().is_drawn()
        with pytest.raises(CampaignError, match="not drawn yet"):
            again.atlas().view()
        shares: list[float] = []
        again.atlas().draw(lambda _, share: shares.append(share))
        assert shares[-1] == 1.0
        assert (locate(again).y == before.y).all()
    (tmp_path / "more.csv").write_text("id,text\na,text a\nb,text b\n")
    campaign.grow(tmp_path / "more.csv", embeddings=np.eye(3, dtype=np.float32)[:2])
    assert not campaign.atlas().is_drawn()
    campaign.atlas().draw()
    assert campaign.atlas().view().total == 202
    assert len(list((tmp_path / "campaign" / "maps").iterdir())) == 1


def test_without_embeddings_there_is_no_map(tmp_path: Path) -> None:
    with (
        begin(tmp_path, 9) as made,
        pytest.raises(CampaignError, match="a map needs embeddings"),
    ):
        made.atlas().is_drawn()
