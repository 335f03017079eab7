"""Inputs with ids are joined by id, whatever their order; the batch is the same by id."""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr

N, CLASSES, K = 120, 4, 25
IDS = np.array([f"id-{row * 7919 % 1000:03}" for row in range(N)], object)  # distinct, in no order
NUMBERS = np.arange(N) * 7919 % 100_003
KEYS = ("embeddings", "clusters", "predictions")


def make_pool():
    rng = np.random.default_rng(0)
    return {
        "embeddings": rng.normal(size=(N, 5)).astype(np.float32),
        "clusters": rng.integers(0, 30, N).astype(np.int32),
        "probabilities": rng.dirichlet(np.ones(CLASSES), N).astype(np.float32),
    }


def as_table(key, values, ids, order):
    names = {"embeddings": "embedding", "clusters": "cluster", "probabilities": "probabilities", "logits": "logits"}
    column = [list(values[row]) for row in order] if values.ndim == 2 else values[order]
    return pa.table({"id": ids[order], names.get(key, key): column})


def shuffled(seed):
    return np.random.default_rng(seed).permutation(N)


@pytest.mark.parametrize("name", list(hr.STRATEGIES))
@pytest.mark.parametrize("turned", [some for count in (1, 2) for some in combinations(KEYS, count)], ids="+".join)
def test_any_order_of_any_input(name, turned):
    """Against arrays in the order that the rule gives the pool: that of the embeddings, if they are given."""
    pool = make_pool()
    orders = {key: shuffled(at) if key in turned else np.arange(N) for at, key in enumerate(KEYS)}
    base = orders["embeddings"]
    labeled = np.arange(0, N, 9)
    expected = hr.select(name, K, **{key: values[base] for key, values in pool.items()}, labeled=labeled, seed=4)
    given = {
        "embeddings": as_table("embeddings", pool["embeddings"], IDS, base),
        "clusters": as_table("clusters", pool["clusters"], IDS, orders["clusters"]),
        "predictions": as_table("probabilities", pool["probabilities"], IDS, orders["predictions"]),
    }
    batch = hr.select(name, K, **given, labeled=labeled, seed=4)
    assert batch.rows.tolist() == expected.rows.tolist()
    assert batch.ids.tolist() == IDS[base][expected.rows].tolist()
    assert batch.clusters.tolist() == expected.clusters.tolist()
    if expected.margins is not None:
        assert batch.margins.tolist() == expected.margins.tolist()
    assert batch.settings["without_predictions"] == 0


def test_a_batch_has_the_numbers_of_clusters_that_were_given():
    """Clusters of a large pool, used on a part of it, have numbers that strategies cannot count with."""
    pool, ends = make_pool(), np.arange(N)[::-1]
    numbers = pool["clusters"] * 50_000_000
    table = as_table("clusters", numbers, IDS, ends)
    probabilities = as_table("probabilities", pool["probabilities"], IDS, np.arange(N))
    batch = hr.select("cluster-margin", K, probabilities=probabilities, clusters=table)
    assert batch.clusters.tolist() == numbers[ends][batch.rows].tolist()
    pairs = hr.Pairs(np.arange(N), np.zeros(N, np.int64))
    asked = hr.select_pairs("cluster-margin-pairs", K, pairs=pairs, probabilities=np.full(N, 0.5), clusters=numbers)
    assert asked.clusters.tolist() == numbers[asked.rows].tolist()
    beyond = pool["clusters"] * np.int64(2**40)  # no int32
    batch = hr.select("cluster-margin", K, margins=np.zeros(N), clusters=beyond)
    same = beyond[batch.rows, None] == beyond[batch.rows]
    assert np.array_equal(batch.clusters[:, None] == batch.clusters, same)


@pytest.mark.parametrize("form", ["probabilities", "margins", "logits"])
@pytest.mark.parametrize("ids", [IDS, NUMBERS], ids=["strings", "numbers"])
def test_any_form_of_predictions_is_joined_to_clusters(form, ids, tmp_path):
    pool = make_pool()
    logits = np.log(pool["probabilities"])
    values = {"probabilities": pool["probabilities"], "margins": hr.margins(pool["probabilities"]), "logits": logits}
    order = shuffled(5)
    pq.write_table(as_table(form, values[form], ids, order), tmp_path / "predictions.parquet")
    pq.write_table(as_table("clusters", pool["clusters"], ids, np.arange(N)), tmp_path / "clusters.parquet")
    expected = hr.select("cluster-margin", K, clusters=pool["clusters"], **{form: values[form]})
    files = {form: tmp_path / "predictions.parquet", "clusters": tmp_path / "clusters.parquet"}
    batch = hr.select("cluster-margin", K, **files)
    assert batch.rows.tolist() == expected.rows.tolist()
    assert batch.ids.tolist() == ids[expected.rows].tolist()
    # Without clusters, the predictions have the order of the pool.
    alone = hr.select("margin", K, **{form: files[form]})
    assert sorted(alone.ids) == sorted(ids[order][alone.rows])


def test_clusters_carry_their_ids(tmp_path):
    pool, order = make_pool(), shuffled(6)
    clusters = hr.cluster(as_table("embeddings", pool["embeddings"], IDS, np.arange(N)), average_size=4)
    clusters.save(tmp_path / "clusters.parquet")
    predictions = as_table("probabilities", pool["probabilities"], IDS, order)
    expected = hr.select("cluster-margin", K, clusters=clusters.labels, probabilities=pool["probabilities"])
    for given in (clusters, hr.Clusters.load(tmp_path / "clusters.parquet"), tmp_path / "clusters.parquet"):
        batch = hr.select("cluster-margin", K, clusters=given, probabilities=predictions)
        assert batch.rows.tolist() == expected.rows.tolist()


@pytest.mark.parametrize("name", list(hr.STRATEGIES))
@pytest.mark.parametrize("form", ["probabilities", "logits"])
def test_rows_without_predictions_are_not_candidates(name, form):
    pool = make_pool()
    known = shuffled(7)[: N // 2]
    labeled = np.arange(0, N, 5)
    values = pool["probabilities"] if form == "probabilities" else np.log(pool["probabilities"])
    given = {
        "embeddings": as_table("embeddings", pool["embeddings"], IDS, np.arange(N)),
        "clusters": as_table("clusters", pool["clusters"], IDS, shuffled(8)),
        form: as_table(form, values, IDS, known),
    }
    candidates = np.setdiff1d(known, labeled)
    batch = hr.select(name, len(candidates), **given, labeled=labeled)
    assert sorted(batch.rows) == candidates.tolist()
    assert batch.settings["without_predictions"] == len(np.setdiff1d(np.arange(N), np.union1d(known, labeled)))
    assert batch.settings["labeled"] == len(labeled)
    with pytest.raises(hr.PoolExhaustedError, match="examples with predictions were asked for"):
        hr.select(name, len(candidates) + 1, **given, labeled=labeled)


@pytest.mark.parametrize("name", ["margin", "stochastic-margin", "cluster-margin", "badge", "entropy", "random"])
def test_a_partial_pool_selects_as_if_the_others_were_labeled(name):
    pool = make_pool()
    known = np.sort(shuffled(9)[:70])
    others = np.setdiff1d(np.arange(N), known)
    given = {
        "embeddings": as_table("embeddings", pool["embeddings"], IDS, np.arange(N)),
        "clusters": pool["clusters"],
        "probabilities": as_table("probabilities", pool["probabilities"], IDS, known[::-1]),
    }
    batch = hr.select(name, K, **given, seed=2)
    assert batch.rows.tolist() == hr.select(name, K, **pool, labeled=others, seed=2).rows.tolist()


def test_coreset_does_not_take_rows_without_predictions_for_labeled():
    points = np.array([[0, 0], [0, 1], [0, 10], [0, 9.5]], np.float32)
    ids = np.array(["a", "b", "c", "d"], object)
    embeddings = pa.table({"id": ids, "embedding": points.tolist()})
    predictions = pa.table({"id": ["b", "d"], "margin": [0.5, 0.5]})
    # c is neither a candidate nor a center: otherwise d, beside it, would come last.
    batch = hr.select("coreset", 1, embeddings=embeddings, margins=predictions, labeled=[0])
    assert batch.ids.tolist() == ["d"]
    # a is a center although it has no predictions: otherwise the first pick would be random.
    firsts = {
        hr.select("coreset", 1, embeddings=embeddings, margins=predictions, labeled=[0], seed=s).ids[0]
        for s in range(9)
    }
    assert firsts == {"d"}
    pairs = hr.Pairs([0, 1, 2, 3], [0, 0, 0, 0])
    each = pa.table({"id": ["b", "d"], "class": [0, 0], "p": [0.5, 0.5]})
    batch = hr.select_pairs("coreset", 1, pairs=pairs, embeddings=embeddings, probabilities=each, labeled=[0])
    assert batch.ids.tolist() == ["d"]


def test_what_cannot_be_joined_is_refused(tmp_path):
    pool, order = make_pool(), shuffled(3)
    embeddings = as_table("embeddings", pool["embeddings"], IDS, np.arange(N))
    clusters = as_table("clusters", pool["clusters"], IDS, order)
    refused = [
        ({"embeddings": embeddings, "clusters": clusters, "probabilities": pool["probabilities"]},
         "embeddings and clusters have their ids in different orders, and probabilities has no ids"),
        ({"embeddings": embeddings, "clusters": clusters.slice(1), "margins": np.zeros(N)},
         "lacks 1 of the 120 ids of"),
        ({"clusters": clusters.slice(1), "probabilities": as_table("probabilities", pool["probabilities"], IDS, order)},
         "probabilities: 1 of 120 ids are not in the pool .clusters., the first is"),
        ({"clusters": clusters, "probabilities": as_table("probabilities", pool["probabilities"], NUMBERS, order)},
         "holds strings, but .* holds whole numbers"),
        ({"clusters": pa.concat_tables([clusters, clusters.slice(0, 1)]), "margins": np.zeros(N + 1)},
         "more than once"),
        ({"clusters": clusters, "probabilities": pool["probabilities"][1:]}, "probabilities has 119"),
    ]  # fmt: skip
    for given, message in refused:
        with pytest.raises(hr.InputError, match=message):
            hr.select("cluster-margin", K, **given)


def test_ids_outside_of_the_pool_can_be_ignored():
    pool, order = make_pool(), shuffled(3)
    clusters = as_table("clusters", pool["clusters"], IDS, np.arange(N)).slice(20)
    predictions = as_table("probabilities", pool["probabilities"], IDS, order)
    batch = hr.select("cluster-margin", K, clusters=clusters, probabilities=predictions, ignore_unknown=True)
    assert batch.settings["ignored"] == 20
    assert batch.settings["n"] == N - 20
    part = {key: pool[key][20:] for key in ("clusters", "probabilities")}
    assert batch.rows.tolist() == hr.select("cluster-margin", K, **part).rows.tolist()


def test_labeled_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pool = make_pool()
    predictions = as_table("probabilities", pool["probabilities"], IDS, np.arange(N))
    first = hr.select("margin", 10, probabilities=predictions)
    first.save("a.csv")
    second = hr.select("margin", 10, probabilities=predictions, labeled="a.csv")
    second.save("b.parquet")
    third = hr.select("margin", 10, probabilities=predictions, labeled=[Path("a.csv"), "b.parquet"])
    third.save("c.jsonl")
    fourth = hr.select("margin", 10, probabilities=predictions, labeled=["?.csv", "b.parquet", "c.jsonl"])
    picked = [*first, *second, *third, *fourth]
    assert len(set(picked)) == 40
    assert picked == hr.select("margin", 40, probabilities=predictions).rows.tolist()
    assert fourth.settings["labeled"] == 30
    assert fourth.settings["inputs"]["labeled"] == ["?.csv", "b.parquet", "c.jsonl"]
    for ids in (first.ids, first.ids.tolist()):
        batch = hr.select("margin", 10, probabilities=predictions, labeled=ids)
        assert batch.rows.tolist() == second.rows.tolist()
        assert len(batch.settings["inputs"]["labeled"]) < 10  # not the ids themselves
    listed = pa.table({"id": [*IDS[:3], "stranger"]})
    with pytest.raises(hr.InputError, match=r"1 of 4 ids are not in the pool, the first is stranger.*ignore_unknown"):
        hr.select("margin", 5, probabilities=predictions, labeled=listed)
    batch = hr.select("margin", 5, probabilities=predictions, labeled=listed, ignore_unknown=True)
    assert (batch.settings["labeled"], batch.settings["ignored"]) == (3, 1)
    assert not set(batch.ids) & set(IDS[:3])


@pytest.mark.parametrize("library", ["pyarrow", "polars", "pandas"])
def test_labeled_as_a_column(library):
    """A mask, rows or ids in a Series or an Arrow column, as in an array."""
    make = getattr(pytest.importorskip(library), "Series", lambda values: pa.chunked_array([values]))
    predictions = as_table("probabilities", make_pool()["probabilities"], IDS, np.arange(N))
    expected = hr.select("margin", 10, probabilities=predictions, labeled=np.arange(N) < 60)
    for labeled in (np.arange(N) < 60, np.arange(60)[::-1].copy(), IDS[:60]):
        batch = hr.select("margin", 10, probabilities=predictions, labeled=make(labeled))
        assert batch.rows.tolist() == expected.rows.tolist()
        assert batch.settings["labeled"] == 60


class Stream:
    """A table of which nothing is known but that it can be streamed once."""

    def __init__(self, columns):
        self.table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        table, self.table = self.table, None
        return table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    ("labeled", "count"),
    [
        (Stream({"id": IDS[:2].tolist(), "label": [1, 2]}), 2),
        (Stream({"row": [0, 1], "note": ["q", "r"]}), 2),
        (pa.array(IDS[:2].tolist()), 2),
        (pa.array([], pa.string()), 0),
    ],
)
def test_labeled_as_a_stream_or_an_arrow_array(labeled, count):
    predictions = as_table("probabilities", make_pool()["probabilities"], IDS, np.arange(N))
    batch = hr.select("margin", 10, probabilities=predictions, labeled=labeled)
    expected = hr.select("margin", 10, probabilities=predictions, labeled=np.arange(count))
    assert batch.rows.tolist() == expected.rows.tolist()
    assert batch.settings["labeled"] == count


def test_clusters_beyond_int32_have_the_same_numbers_in_every_batch():
    numbers = np.array([0, 0, 2**40, 2**40, 5, 5, 3_000_000, 3_000_000])
    found = {}
    for seed in range(4):
        batch = hr.select("cluster-margin", 3, margins=np.zeros(8), clusters=numbers, seed=seed)
        for row, cluster in zip(batch.rows, batch.clusters, strict=True):
            assert found.setdefault(numbers[row], cluster) == cluster
    assert len(found) == len(set(found.values())) == 4


@pytest.mark.parametrize("name", list(hr.STRATEGIES))
def test_logits_select_as_their_softmax(name):
    pool = make_pool()
    logits = np.log(pool["probabilities"].astype(np.float64)) * 3 + 7
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    pool["probabilities"] = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    pool["labeled"] = np.arange(8)
    expected = hr.select(name, K, **pool, seed=1).rows
    del pool["probabilities"]
    assert hr.select(name, K, **pool, logits=logits, seed=1).rows.tolist() == expected.tolist()
    with pytest.raises(hr.InputError, match="exactly one of probabilities, logits"):
        hr.select(name, K, **pool, logits=logits, probabilities=logits)


def test_id_columns_by_name():
    pool = make_pool()
    clusters = pa.table({"word": IDS, "cluster": pool["clusters"]})
    order = shuffled(1)
    margins = pa.table({"word": IDS[order], "id": np.zeros(N, int), "margin": hr.margins(pool["probabilities"])[order]})
    batch = hr.select("cluster-margin", K, clusters=clusters, margins=margins, id_column="word")
    assert batch.rows.tolist() == hr.select("cluster-margin", K, **pool).rows.tolist()
    with pytest.raises(hr.InputError, match="has no column 'wrod'"):
        hr.select("cluster-margin", K, clusters=clusters, margins=margins, id_column="wrod")
    with pytest.raises(hr.InputError, match="no named columns"):
        hr.select("margin", K, margins=np.zeros(N), id_column="word")


@pytest.mark.parametrize("name", ["cluster-margin", "margin", "stochastic-margin"])
def test_shards_select_as_arrays(tmp_path, name):
    """Margins and clusters in folders of files, with ties at the threshold that fall in several shards."""
    rng = np.random.default_rng(3)
    n, edges = 50_000, [0, 1, 12_345, 12_345, 30_000, 50_000]
    given = {"margins": rng.integers(0, 500, n).astype(np.float32) / 500, "clusters": rng.integers(0, 5000, n)}
    columns = {"margins": "margin", "clusters": "cluster"}
    for shard, (lo, hi) in enumerate(pairwise(edges)):
        for key, values in given.items():
            for form in ("npy", "parquet"):
                (tmp_path / form / key).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / "npy" / key / f"{shard}.npy", values[lo:hi])
            table = pa.table({columns[key]: values[lo:hi]})
            pq.write_table(table, tmp_path / "parquet" / key / f"{shard}.parquet")
    labeled = np.arange(0, n, 9)
    expected = hr.select(name, 1000, **given, labeled=labeled, seed=4)
    for form in ("npy", "parquet"):
        paths = {key: str(tmp_path / form / key) for key in given}
        found = hr.select(name, 1000, **paths, labeled=labeled, seed=4)
        assert found.rows.tolist() == expected.rows.tolist()


# Pairs


def make_pairs():
    rng = np.random.default_rng(1)
    cells = rng.permutation(N * CLASSES)[:200]
    return hr.Pairs(cells // CLASSES, cells % CLASSES), rng.random((N, CLASSES)).astype(np.float32)


@pytest.mark.parametrize("name", list(hr.PAIR_STRATEGIES))
def test_inputs_of_pairs_in_any_order(name):
    pool, (pairs, matrix) = make_pool(), make_pairs()
    rows = {key: pool[key] for key in ("embeddings", "clusters")}
    labeled = np.arange(20)
    expected = hr.select_pairs(name, K, pairs=pairs, probabilities=matrix, **rows, labeled=labeled, seed=3)
    named = pa.table({"id": IDS[pairs.rows], "class": pairs.classes})
    given = {
        "embeddings": as_table("embeddings", pool["embeddings"], IDS, np.arange(N)),
        "clusters": as_table("clusters", pool["clusters"], IDS, shuffled(1)),
        "probabilities": as_table("probabilities", matrix, IDS, shuffled(2)),
    }
    for asked in (pairs, named):
        batch = hr.select_pairs(name, K, pairs=asked, **given, labeled=labeled, seed=3)
        assert batch.index.tolist() == expected.index.tolist()
        assert batch.ids.tolist() == IDS[expected.rows].tolist()
        assert batch.classes.tolist() == expected.classes.tolist()


@pytest.mark.parametrize("name", list(hr.PAIR_STRATEGIES))
def test_pairs_without_predictions_are_not_candidates(name):
    pool, (pairs, matrix) = make_pool(), make_pairs()
    known = shuffled(3)[: N // 2]
    given = {
        "pairs": pairs,
        "embeddings": as_table("embeddings", pool["embeddings"], IDS, np.arange(N)),
        "clusters": as_table("clusters", pool["clusters"], IDS, shuffled(1)),
        "probabilities": as_table("probabilities", matrix, IDS, known),
    }
    predicted = np.flatnonzero(np.isin(pairs.rows, known))
    labeled, candidates = predicted[:10], predicted[10:]
    batch = hr.select_pairs(name, len(candidates), **given, labeled=labeled)
    assert sorted(batch.index) == candidates.tolist()
    assert batch.settings["without_predictions"] == len(pairs) - len(predicted)


def test_probabilities_per_pair_are_joined_by_pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs, matrix = make_pairs()
    each, order = matrix[pairs.rows, pairs.classes], np.random.default_rng(5).permutation(200)
    expected = hr.select_pairs("margin", K, pairs=pairs, probabilities=each)
    names = np.array(["de", "en", "fr", "it"], object)[pairs.classes]
    table = pa.table({"id": IDS[pairs.rows], "class": names, "p": each})
    batch = hr.select_pairs("margin", K, pairs=table.select(["id", "class"]), probabilities=table.take(order))
    assert batch.index.tolist() == expected.index.tolist()
    assert batch.classes.tolist() == names[expected.index].tolist()
    assert batch.ids.tolist() == IDS[expected.rows].tolist()
    assert batch.margins.tolist() == expected.margins.tolist()
    part = hr.select_pairs("margin", 50, pairs=table.select(["id", "class"]), probabilities=table.take(order[:50]))
    assert sorted(part.index) == sorted(order[:50])
    assert part.settings["without_predictions"] == 150
    few = {"pairs": table.slice(10).select(["id", "class"]), "probabilities": table}
    with pytest.raises(hr.InputError, match="not among the p"):
        hr.select_pairs("margin", K, **few)
    assert hr.select_pairs("margin", K, **few, ignore_unknown=True).settings["ignored"] == 10
    batch.save("batch.csv")
    expected.take(5).save("numbers.jsonl")
    after = hr.select_pairs("margin", K, pairs=table, probabilities=each, labeled=["batch.csv"])
    assert not set(after.index) & set(batch.index)
    both = hr.select_pairs("margin", 200 - 5, pairs=pairs, probabilities=each, labeled="numbers.jsonl")
    assert not set(both.index) & set(expected.index[:5])
