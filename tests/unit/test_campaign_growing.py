"""Pools that grow: new rows beside the old ones, their clusters, pairs, predictions and their share of the holdout."""

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import Campaign, CampaignError, HedgerowWarning, InputError, Pairs
from hedgerow.campaign.answers import Answer
from hedgerow.campaign.growing import stack_centroids
from shell import Run, one_line

N = 40
_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str | None:
    """None for SQLite."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("server").create(f"grow{next(_numbers)}"))


class Ground:
    """A folder with a pool of 40 points around four corners, and campaigns on it."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder, self.url, self.opened = folder, url, list[Campaign]()

    def begin(self, **options: Any) -> Campaign:
        write_table(self.folder / "pool.csv", range(N))
        np.save(self.folder / "embeddings.npy", points(N))
        given = {"classes": ["cat", "dog", "fox"], "embeddings": self.folder / "embeddings.npy", "average_size": 10}
        path = self.folder / "campaign"
        self.opened.append(Campaign.init(path, self.folder / "pool.csv", **{**given, "database": self.url, **options}))
        return self.opened[-1]

    def more(self, rows: Any, vectors: Any = None) -> dict[str, Any]:
        """The arguments of `grow` for rows of these numbers."""
        write_table(self.folder / "more.csv", rows)
        path = self.folder / f"more-{next(_numbers)}.npy"
        np.save(path, points(len(rows), 1) if vectors is None else vectors.astype(np.float32))
        return {"pool": self.folder / "more.csv", "embeddings": path}


@pytest.fixture
def ground(tmp_path: Path, url: str | None) -> Iterator[Ground]:
    made = Ground(tmp_path, url)
    yield made
    for campaign in made.opened:
        campaign.close_files()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Ground]:
    """The same on SQLite only, for what does not touch the database."""
    made = Ground(tmp_path, None)
    yield made
    for campaign in made.opened:
        campaign.close_files()


def write_table(path: Path, rows: Any) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *((f"r{row}", f"text {row}") for row in rows)])


def points(n: int, seed: int = 0) -> Any:
    """Points near four directions, in turn; those with another seed than 0 are nearer."""
    corners = np.eye(4, dtype=np.float32)[np.arange(n) % 4]
    return corners + np.random.default_rng(seed).normal(0, 0.001 if seed else 0.01, (n, 4)).astype(np.float32)


def rows_of(campaign: Campaign, batch: int) -> set[int]:
    return set(campaign.batch(batch)["row"].tolist())


def test_new_rows_join_the_clusters_or_make_new_ones(ground: Ground) -> None:
    campaign = ground.begin()
    far = np.concatenate([points(4, 1), -points(8, 2)])  # four known directions, then their opposites, each twice
    done = campaign.grow(**ground.more(range(N, N + 12), far))
    assert vars(done) == {"first": N, "rows": 12, "new_clusters": 4, "holdout": 0}
    labels = campaign._holdings.labels
    assert labels is not None
    assert labels[N : N + 4].tolist() == labels[:4].tolist()
    assert labels[N + 4 :].tolist() == [4, 5, 6, 7] * 2
    again = campaign.grow(**ground.more(range(100, 104), -points(4, 3)))  # later rows join the new clusters
    assert again.new_clusters == 0
    labels = campaign._holdings.labels
    assert labels is not None
    assert labels[52:].tolist() == [4, 5, 6, 7]
    status = campaign.status()
    assert (status.rows, status.clusters) == (56, 8)
    assert [entry.command for entry in campaign.log()] == ["init", "grow", "grow"]


def test_a_grown_pool_is_asked_about_and_labeled_like_any_other(ground: Ground) -> None:
    campaign = ground.begin()
    campaign.grow(**ground.more(range(100, 120)))
    batch = campaign.next(60, strategy="random")
    columns = campaign.batch(batch)
    names = [f"r{row}" for row in [*range(40), *range(100, 120)]]
    assert [names[row] for row in columns["row"].tolist()] == columns["id"].tolist()
    assert columns["text"].tolist() == [f"text {id_[1:]}" for id_ in columns["id"].tolist()]
    assert campaign.ingest([Answer("r119", "answer", "fox", "ana"), Answer("r1", "answer", "cat", "ana")]).rows == 2
    assert campaign.labels()["row"].tolist() == [1, 59]
    with Campaign.open(ground.folder / "campaign", database=ground.url, verify=True) as opened:
        assert opened.status().rows == 60


def test_predictions_from_before_do_not_cover_new_rows(ground: Ground) -> None:
    campaign = ground.begin()
    chances = np.random.default_rng(0).dirichlet(np.ones(3), N + 10)
    campaign.predict(chances[:N])
    campaign.grow(**ground.more(range(N, N + 10)))
    for strategy in ("margin", "cluster-margin", "entropy", "badge", "coreset"):
        assert max(rows_of(campaign, campaign.next(5, strategy=strategy))) < N
    with pytest.raises(InputError, match="the predictions have 40 rows, the pool 50"):
        campaign.predict(chances[:N])
    ids = np.array([f"r{row}" for row in range(N)], np.object_)
    table = {"id": ids, **{f"p{place}": chances[:N, place] for place in range(3)}}
    import pyarrow as pa

    with pytest.raises(InputError, match=r"lacks 10 of the 50 ids.*--partial"):
        campaign.predict(pa.table(table))
    assert campaign.predict(pa.table(table), partial=True).rows == N
    campaign.predict(chances)
    rest = rows_of(campaign, campaign.next(25, strategy="badge"))
    assert rest == set(range(N + 10)) - set().union(*(rows_of(campaign, batch) for batch in range(1, 6)))


def test_the_share_of_the_holdout_is_the_same_in_every_segment(ground: Ground) -> None:
    campaign = ground.begin(holdout=8)
    assert campaign.grow(**ground.more(range(N, N + 20))).holdout == 4
    drawn = rows_of(campaign, 2)
    assert len(drawn) == 4
    assert min(drawn) >= N
    assert campaign.status().holdout == 12
    assert not rows_of(campaign, campaign.next(48, strategy="random")) & (drawn | rows_of(campaign, 1))
    with pytest.warns(HedgerowWarning, match="the share of the earlier rows would be 4"):
        assert campaign.grow(**ground.more(range(100, 120)), holdout=0).holdout == 0
    with (
        pytest.warns(HedgerowWarning, match="share of the earlier rows"),
        pytest.raises(InputError, match="a holdout of 20 leaves nothing of 20 new rows"),
    ):
        campaign.grow(**ground.more(range(200, 220)), holdout=20)


def test_many_small_segments_are_drawn_from_as_often_as_a_large_one(small: Ground) -> None:
    campaign = small.begin(holdout=10, embeddings=None, clusters=None)
    drawn = []
    for number in range(40):
        write_table(small.folder / "more.csv", [100 + number])
        drawn.append(campaign.grow(small.folder / "more.csv", seed=number, holdout=None).holdout)
    assert set(drawn) == {0, 1}
    assert 4 <= sum(drawn) <= 16  # a quarter of each, rounded at random


def test_pairs_of_new_rows(ground: Ground) -> None:
    campaign = ground.begin(kind="pairs", holdout=4)
    campaign.predict(np.random.default_rng(0).random((N, 3)))
    done = campaign.grow(**ground.more(range(N, N + 10)))
    assert done.holdout == 1
    assert len(campaign.batch(2)["row"]) == 3
    assert max(rows_of(campaign, campaign.next(10))) < N
    assert len(campaign.batch(campaign.next(135 - 10, strategy="random"))["row"]) == 125
    campaign.predict(np.random.default_rng(0).random((N + 10, 3)))
    with pytest.raises(InputError, match="pairs are listed only where"):
        campaign.grow(**ground.more(range(90, 92)), pairs=Pairs([50], [0]))


def test_listed_pairs_of_new_and_of_earlier_rows(ground: Ground) -> None:
    pairs = Pairs(np.arange(20), np.zeros(20, np.int32))
    campaign = ground.begin(kind="pairs", pairs=pairs, holdout=4)
    campaign.predict(np.random.default_rng(0).random((N, 3)))
    with pytest.raises(InputError, match="list those of the new rows"):
        campaign.grow(**ground.more(range(N, N + 10)))
    held = sorted(rows_of(campaign, 1))
    listed = ground.folder / "pairs.csv"
    listed.write_text(f"id,class\nr40,fox\nr41,cat\nr30,dog\nr{held[0]},fox\n")
    done = campaign.grow(**ground.more(range(N, N + 10)), pairs=listed, holdout=0)
    assert done.holdout == 0
    assert campaign.batch(2)["row"].tolist() == [held[0]]  # a new pair of a row in the holdout
    assert max(rows_of(campaign, campaign.next(10))) < 20
    rest = campaign.batch(campaign.next(9, strategy="random"))
    assert {(30, "dog"), (40, "fox"), (41, "cat")} < set(zip(rest["row"].tolist(), rest["class"].tolist(), strict=True))
    listed.write_text("id,class\nr60,fox\nr41,cat\n")
    with pytest.raises(InputError, match="1 of the 2 pairs are there already, the first is row 41, class 'cat'"):
        campaign.grow(**ground.more(range(60, 62)), pairs=listed)


def test_what_cannot_be_added_is_refused(small: Ground) -> None:
    campaign = small.begin()
    with pytest.raises(InputError, match=r"2 of the 4 new ids are in the pool already, the first is r38 \(row 38\)"):
        campaign.grow(**small.more(range(38, 42)))
    with pytest.raises(InputError, match="r50"):
        campaign.grow(**small.more([50, 50]))
    given = small.more(range(50, 54))
    with pytest.raises(InputError, match="give those of the new rows"):
        campaign.grow(given["pool"])
    with pytest.raises(InputError, match="the embeddings have 3 columns, those of the campaign 4"):
        campaign.grow(**small.more(range(50, 54), np.ones((4, 3))))
    with pytest.raises(InputError, match="embeddings"):
        campaign.grow(**small.more(range(50, 54), np.ones((3, 4))))
    with pytest.raises(InputError, match="no ids, but the campaign has"):
        campaign.grow(np.ones((4, 4), np.float32))
    (small.folder / "bare.csv").write_text("id\nr50\n")
    with pytest.raises(InputError, match="name their column text"):
        campaign.grow(small.folder / "bare.csv", embeddings=given["embeddings"])
    assert campaign.status().rows == N
    assert [entry.command for entry in campaign.log()] == ["init"]


def test_clusters_without_centroids_cannot_take_new_rows(small: Ground) -> None:
    campaign = small.begin(clusters=np.arange(N) % 5)
    with pytest.raises(CampaignError, match="have no centroids"):
        campaign.grow(**small.more(range(50, 54)))


def test_given_clusters_keep_their_centroids(small: Ground) -> None:
    made = hedgerow.cluster(points(N), threshold=0.5, metric="sqeuclidean")
    campaign = small.begin(clusters=made)
    done = campaign.grow(**small.more(range(50, 60), np.concatenate([points(4, 1), 9 + points(6, 2)])))
    labels = campaign._holdings.labels
    assert labels is not None
    assert labels[N : N + 4].tolist() == labels[:4].tolist()
    assert done.new_clusters == 4
    assert campaign.grow(**small.more(range(70, 74), 9 + points(4, 3))).new_clusters == 0


def test_centroids_are_stacked_in_the_coordinates_of_the_first() -> None:
    one = hedgerow.cluster(points(8), threshold=0.5, metric="sqeuclidean").centroids
    two = hedgerow.cluster(5 + points(8), threshold=0.5, metric="sqeuclidean").centroids
    assert one is not None
    assert two is not None
    stacked = stack_centroids([one, two])
    there = stacked.means / stacked.factor + stacked.center
    assert np.allclose(there[4:], there[:4] + 5, atol=1e-4)
    assert np.allclose(stacked.spread[4:], stacked.spread[:4], atol=1e-4)


def test_rows_of_zeros_are_clusters_of_their_own(small: Ground) -> None:
    campaign = small.begin()
    vectors = points(6, 1)
    vectors[[1, 4]] = 0
    assert campaign.grow(**small.more(range(50, 56), vectors)).new_clusters == 2


def test_row_numbers_go_on_and_other_types_are_copied(small: Ground) -> None:
    np.save(small.folder / "embeddings.npy", points(N))
    path = small.folder / "numbered"
    with Campaign.init(path, small.folder / "embeddings.npy", classes=["a", "b"]) as campaign:
        done = campaign.grow(points(6, 1).astype(np.float64))
        assert done.first == N
        assert sorted(campaign.batch(campaign.next(46, strategy="random"))["id"].tolist()) == list(range(46))
        embeddings = campaign._holdings.embeddings
        assert embeddings is not None
        assert (embeddings.n, embeddings.dtype) == (46, np.float32)
        assert campaign.grow(points(6, 1).astype(np.float64)).first == 46  # the same points are other rows


def test_an_ingest_that_is_half_done_is_finished_first(small: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgerow.campaign import ingesting

    campaign = small.begin()
    answers = [Answer(f"r{row}", "answer", "cat", "ana") for row in range(10)] + [Answer("r50", "answer", "cat", "ana")]
    real, calls = ingesting.apply, itertools.count()

    def stop(*arguments: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(ingesting, "apply", stop)
    monkeypatch.setattr(ingesting, "CHUNK", 4)
    with pytest.raises(KeyboardInterrupt):
        campaign.ingest(answers)
    with pytest.raises(CampaignError, match=r"the ingest of python \(source 1\) is not finished"):
        campaign.grow(**small.more(range(50, 54)))
    done = campaign.ingest(answers)
    assert (done.counts["unsolicited"], done.counts["unknown id"]) == (10, 1)
    campaign.grow(**small.more(range(50, 54)))
    assert campaign.ingest(answers, again=True).counts["unsolicited"] == 1


def test_a_campaign_that_is_open_elsewhere_sees_the_new_rows(small: Ground) -> None:
    campaign = small.begin()
    with Campaign.open(small.folder / "campaign") as other:
        assert other.status().rows == N
        campaign.grow(**small.more(range(50, 54)))
        assert other.status().rows == N + 4
        assert len(rows_of(other, other.next(N + 4))) == N + 4


def test_the_command(run: Run, small: Ground) -> None:
    small.begin().close_files()
    given = small.more(range(50, 54))
    done = run("campaign", "grow", small.folder / "campaign", given["pool"], "--embeddings", given["embeddings"])
    assert done.out == "4 rows from row 40 on: 0 new clusters, 0 of them in the holdout\n"
    again = run("campaign", "grow", small.folder / "campaign", given["pool"], "--embeddings", given["embeddings"])
    one_line(again, 1, "4 of the 4 new ids are in the pool already, the first is r50 (row 40)")
