"""The strategies for low budgets against their authors' definitions, as plain loops over small pools."""

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine
from hedgerow.clustering import layout
from hedgerow.strategies import coverage, groups, herding, typiclust
from hedgerow.strategies.points import open_points


def make_pool(seed, most=70):
    """Points in a few groups, some of them labeled."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, most)), int(rng.integers(2, 12))
    centers = 2 * rng.normal(size=(int(rng.integers(1, 6)), d))
    points = (centers[rng.integers(0, len(centers), n)] + rng.normal(size=(n, d))).astype(np.float32)
    labeled = rng.random(n) < rng.choice([0, 0.05, 0.4])
    labeled[0] = False
    return points, labeled, int(rng.integers(1, (~labeled).sum() + 1)), rng


def scale(points, metric):
    wide = points.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True) if metric == "cosine" else wide


# TypiClust.


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_typiclust_visits_groups_as_its_authors_do(metric, monkeypatch):
    for seed in range(150):
        points, labeled, k, rng = make_pool(seed)
        made = rng.integers(0, rng.integers(1, 9), len(points))  # groups of any size, also empty ones
        order = np.concatenate([np.flatnonzero(labeled), np.flatnonzero(~labeled)])
        monkeypatch.setattr(groups, "group_rows", lambda *_, made=made, order=order: made[order].astype(np.int32))
        strategy = hr.TypiClust(neighbors=int(rng.integers(1, 8)), metric=metric)
        found = hr.select(strategy, k, embeddings=points, labeled=labeled).rows
        expected = reference.typiclust(scale(points, metric), made, labeled, k, strategy.neighbors)
        assert found.tolist() == expected


def test_there_are_as_many_groups_as_labels_up_to_the_limit(monkeypatch):
    asked = []
    found = groups.group_rows
    monkeypatch.setattr(groups, "group_rows", lambda *given: asked.append(given[2]) or found(*given))
    points = np.random.default_rng(0).normal(size=(100, 3))
    for k, most in ((5, 500), (20, 12), (90, 500)):
        hr.select(hr.TypiClust(most_groups=most), k, embeddings=points, labeled=np.arange(10))
    assert asked == [15, 12, 100]


def test_turns_are_those_of_a_round_robin():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        free = rng.integers(0, 6, rng.integers(1, 8))
        k = int(rng.integers(0, free.sum() + 1))
        plain = [group for turn in range(6) for group in range(len(free)) if free[group] > turn]
        assert typiclust.take_turns(free, k).tolist() == plain[:k]


def test_lists_by_cells_hold_nearly_all_neighbors_in_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    points = (rng.normal(size=(60, 16))[rng.integers(0, 60, 6000)] + 0.3 * rng.normal(size=(6000, 16))).astype("f4")
    with machine.team(2) as team:
        exact = layout.search_rows(points, 10, team, exact_up_to=6000)
        by_cells = layout.search_rows(points, 10, team, exact_up_to=100)
    distances = ((points[:50, None] - points[None]) ** 2).sum(axis=2)
    distances[np.arange(50), np.arange(50)] = np.inf
    assert np.array_equal(np.sort(exact.ids[:50]), np.sort(np.argpartition(distances, 10, axis=1)[:, :10]))
    shared = [len(np.intersect1d(a, b)) for a, b in zip(exact.ids, by_cells.ids, strict=True)]
    assert np.mean(shared) > 9
    gaps = (points.astype(float) ** 2).sum(axis=1) / 2
    for row in range(0, 6000, 500):
        held = by_cells.ids[row][by_cells.ids[row] >= 0]
        exactly = gaps[row] + gaps[held] - points[held].astype(float) @ points[row].astype(float)
        assert by_cells.gaps[row, : len(held)] == pytest.approx(exactly, rel=1e-3, abs=1e-4)


# Coverage: ProbCover, MaxHerding, UHerding.


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_probcover_picks_as_its_authors_do_and_goes_on_with_smaller_balls(metric):
    for seed in range(150):
        points, labeled, k, rng = make_pool(seed)
        delta = float(rng.uniform(0.05, 0.8) * (1 if metric == "cosine" else 4))
        found = hr.select(hr.ProbCover(delta, metric=metric), k, embeddings=points, labeled=labeled).rows
        assert found.tolist() == reference.probcover(scale(points, metric), labeled, k, delta)


def assert_greedy(covers, labeled, picked):
    """Each pick adds as much to the coverage as any row would. Two rows that are each other's gain tie exactly, so that
    rounding decides: sequences cannot be compared."""
    centers = np.flatnonzero(labeled).tolist()
    for row in picked:
        gains = np.maximum(covers - covers[centers].max(axis=0, initial=0.0), 0).sum(axis=1)
        gains[centers] = 0
        assert row not in centers
        assert gains[row] >= gains.max() * (1 - 1e-5) - 1e-6
        centers.append(int(row))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_maxherding_picks_as_its_authors_do(metric):
    for seed in range(150):
        points, labeled, k, rng = make_pool(seed)
        sigma = float(rng.uniform(0.3, 1.5) * (1 if metric == "cosine" else 4))
        found = hr.select(hr.MaxHerding(sigma, metric=metric), k, embeddings=points, labeled=labeled).rows
        wide = scale(points, metric)
        covers = np.exp(-((np.linalg.norm(wide[:, None] - wide[None], axis=2) / sigma) ** 2))
        assert_greedy(covers, labeled, found)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_uherding_weights_rows_and_takes_the_smallest_distance_of_labels(metric):
    for seed in range(150):
        points, labeled, k, rng = make_pool(seed)
        k = min(k, 10)
        margins = rng.random(len(points)).astype(np.float32)
        wide = scale(points, metric)
        held = wide[labeled]
        apart = np.linalg.norm(held[:, None] - held[None], axis=2)
        sigma = apart[apart > 0].min() if labeled.sum() > 1 else 1.0
        found = hr.select(hr.UHerding(metric=metric), k, embeddings=points, margins=margins, labeled=labeled).rows
        expected = reference.most_covering(
            wide,
            labeled,
            k,
            lambda distances, sigma=sigma: np.exp(-((distances / sigma) ** 2)),
            1 - margins.astype(float),
        )
        assert found.tolist() == expected


def test_sure_rows_have_no_weight_and_come_last_by_coverage_alone():
    points = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    margins = np.ones(30, np.float32)
    by_weight = hr.select("uherding", 12, embeddings=points, margins=margins).rows
    assert by_weight.tolist() == hr.select("maxherding", 12, embeddings=points).rows.tolist()
    margins[4] = 3
    with pytest.raises(hr.InputError, match=r"margins holds 3 in row 4: a draw by margin needs margins of prob"):
        hr.select("uherding", 2, embeddings=points, margins=margins)


def open_cover(points, threads=1):
    with machine.team(threads) as team:
        return coverage.open_cover(points, 0.0, 1.0, team)


def test_delta_by_purity_is_the_largest_radius_with_so_many_pure_balls(monkeypatch):
    for seed in range(60):
        points, _, _, rng = make_pool(seed)
        made = rng.integers(0, 2, len(points))
        made[:2] = 0, 1
        monkeypatch.setattr(groups, "train_centers", lambda sample, *_: sample[:2])
        monkeypatch.setattr("hedgerow.clustering.cells.spread_nearest", lambda *_, made=made: made)
        purity = float(rng.uniform(0.3, 1))
        with machine.team(1) as team:
            cover = coverage.open_cover(points, 0.0, 1.0, team)
            found = hr.ProbCover(classes=2, purity=purity).find_radius(cover, 5, rng)
        assert found == pytest.approx(reference.purest_radius(points.astype(float), made, purity), rel=1e-5)


def test_delta_without_classes_is_the_median_distance_of_the_neighbor_of_that_place():
    points = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    distances = np.sort(np.linalg.norm(points[:, None].astype(float) - points[None], axis=2), axis=1)
    for labels, place in ((1, 59), (7, 9), (60, 1), (100, 1)):
        found = hr.ProbCover().find_radius(open_cover(points), labels, np.random.default_rng(0))
        assert found == pytest.approx(np.median(distances[:, place]), rel=1e-5)


def test_copies_are_covered_and_drawn_last():
    points = np.repeat(np.random.default_rng(0).normal(size=(6, 3)), 5, axis=0)
    for strategy in (hr.ProbCover(), hr.ProbCover(classes=3), hr.MaxHerding(), hr.UHerding()):
        given = {"embeddings": points, "margins": np.full(30, 0.5)}
        with pytest.warns(hr.HedgerowWarning, match="found 6 distinct points for a batch of 9"):
            rows = hr.select(strategy, 9, **given).rows
        assert len(set(rows // 5)) == len(set(rows[:6] // 5)) == 6
        assert len(set(rows)) == 9


COVERING = [hr.ProbCover, hr.MaxHerding, hr.UHerding]


@pytest.mark.parametrize("kind", COVERING)
def test_large_pools_are_sampled_and_later_samples_know_earlier_picks(kind):
    rng = np.random.default_rng(0)
    points = (10 * rng.normal(size=(40, 8))[rng.integers(0, 40, 4000)] + 0.1 * rng.normal(size=(4000, 8))).astype("f4")
    given = {"embeddings": points, "margins": rng.random(4000)}
    rows = hr.select(kind(sample=100), 40, **given).rows  # two samples
    assert len(np.unique(rows)) == 40
    _, nearest = np.unique(np.round(points[rows] / 10, 0), axis=0, return_counts=True)
    assert len(nearest) > 30  # without that knowledge the two would pick from the same groups
    assert len(np.unique(hr.select(kind(sample=100), 3900, **given).rows)) == 3900


def test_samples_are_disjoint_and_large_enough_for_their_shares():
    rows = np.arange(3, 1003)
    for k, sample, count in ((5, 2000, 1), (5, 1000, 1), (5, 100, 1), (50, 100, 2), (900, 100, 10), (1000, 300, 4)):
        parts = coverage.draw_samples(rows, k, sample, np.random.default_rng(0))
        drawn = np.concatenate([part for part, _ in parts])
        assert (len(parts), sum(share for _, share in parts)) == (count, k)
        assert len(np.unique(drawn)) == len(drawn)
        assert all(len(part) >= share and (np.diff(part) > 0).all() for part, share in parts)
        assert set(drawn) <= set(rows)


@pytest.mark.parametrize("kind", [*COVERING, hr.TypiClust])
def test_threads_change_nothing(kind, monkeypatch):
    rng = np.random.default_rng(0)
    given = {"embeddings": rng.normal(size=(9000, 6)).astype("f4"), "margins": rng.random(9000)}
    found = []
    for count in (1, 3):
        for module in (coverage, herding, typiclust):
            monkeypatch.setattr(module, "team", lambda count=count: machine.team(count))
        found.append(hr.select(kind(), 30, labeled=np.arange(7), **given).rows.tolist())
    assert found[0] == found[1]


# k-means.


def group(points, count, seed=0, threads=1, metric="euclidean"):
    with machine.team(threads) as team:
        vectors = open_points(points, metric, team)
        return groups.group_rows(vectors, np.arange(len(points)), count, np.random.default_rng(seed), team)


def sum_squares(points, labels):
    return sum(((points[labels == g] - points[labels == g].mean(axis=0)) ** 2).sum() for g in np.unique(labels))


def test_separate_groups_are_found():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 12, 600)
    points = (20 * rng.normal(size=(12, 5))[truth] + rng.normal(size=(600, 5))).astype(np.float32)
    labels = group(points, 12)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 12


@pytest.mark.parametrize(("count", "name"), [(3, "KMeans"), (60, "MiniBatchKMeans")])
def test_k_means_is_about_as_good_as_what_the_authors_use(count, name):
    cluster = pytest.importorskip("sklearn.cluster")
    points = np.random.default_rng(1).normal(size=(900, 4)).astype(np.float32)
    theirs = getattr(cluster, name)(count, n_init=10, random_state=0).fit(points)
    assert sum_squares(points, group(points, count)) < 1.05 * sum_squares(points, theirs.labels_)


def test_more_groups_than_distinct_points():
    points = np.repeat(np.eye(4, dtype=np.float32), 5, axis=0)
    assert len(np.unique(group(points, 15))) == 4


def test_large_pools_train_on_a_sample_and_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(groups, "SAMPLE", 2)
    monkeypatch.setattr(groups, "LEAST_SAMPLE", 100)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 40_000)
    points = (20 * rng.normal(size=(4, 5))[truth] + rng.normal(size=(40_000, 5))).astype(np.float32)
    labels = group(points, 4)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 4
    assert np.array_equal(labels, group(points, 4, threads=3))
