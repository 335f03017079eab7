"""Batches: what they hold, what they look like, and that files give them back."""

import dataclasses
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr

SUFFIXES = [".parquet", ".csv", ".jsonl"]
STRING_IDS = np.array(["007", "a,b", 'say "hi"', "ünï\ncode"], object)
INT_IDS = np.array([2**62 + 1, -3, 0, 7])
FIELDS = ("rows", "ids", "margins", "clusters")


def make_batch(ids=STRING_IDS):
    return hr.Batch(
        np.array([5, 0, 9, 2]), "margin", 3, ids, np.array([0.1, 0.2, 0.3, 1 / 3], np.float32), np.array([1, 1, 0, 7]),
        {"k": 4, "n": 10, "options": {"power": None}, "inputs": {"predictions": "p.npy"}},
    )  # fmt: skip


def make_pair_batch(classes=(1, 0, 1, 2)):
    return hr.PairBatch(
        np.array([5, 0, 5, 2]), np.array(classes), np.array([8, 1, 3, 0]), "cluster-margin-pairs", 1,
        margins=np.array([0.5, 0.25, 0.125, 0.1]), settings={"k": 4},
    )  # fmt: skip


def same(one, other, names):
    for name in names:
        mine, its = getattr(one, name), getattr(other, name)
        assert (mine is None) == (its is None), name
        if mine is not None:
            assert mine.dtype == its.dtype, name
            assert mine.tolist() == its.tolist(), name


def test_a_batch_is_an_array_where_one_is_expected():
    batch, features = make_batch(), np.arange(20).reshape(10, 2)
    assert len(batch) == 4
    assert list(batch) == [5, 0, 9, 2]
    assert all(type(row) is int for row in batch)
    assert np.asarray(batch).dtype == np.int64
    assert np.asarray(batch, np.int32).dtype == np.int32
    assert np.array_equal(features[batch], features[[5, 0, 9, 2]])
    mask = np.zeros(10, bool)
    mask[batch] = True
    assert np.flatnonzero(mask).tolist() == [0, 2, 5, 9]
    assert hr.select("random", 6, labeled=batch, clusters=np.zeros(10, int), seed=1).rows.tolist() != []
    copied = np.array(batch)
    copied[0] = 7
    assert batch.rows[0] == 5


def test_a_pair_batch_is_the_index_of_its_pairs():
    batch, answers = make_pair_batch(), np.arange(10) * 10
    assert list(batch) == [(5, 1), (0, 0), (5, 1), (2, 2)]
    assert np.asarray(batch).tolist() == [8, 1, 3, 0]
    assert answers[batch].tolist() == [80, 10, 30, 0]


def test_batches_cannot_be_changed():
    batch = make_batch()
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.seed = 1
    for name in FIELDS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(batch, name)[0] = 1
    rows = np.array([1, 2])
    hr.Batch(rows)
    assert rows.flags.writeable


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("ids", [STRING_IDS, INT_IDS, None], ids=["strings", "numbers", "none"])
def test_files_give_batches_back(tmp_path, suffix, ids):
    batch, path = make_batch(ids), tmp_path / f"batch{suffix}"
    batch.save(path)
    found = hr.Batch.load(path)
    same(found, batch, FIELDS)
    if suffix == ".parquet":
        assert (found.strategy, found.seed, found.settings) == (batch.strategy, batch.seed, batch.settings)
    else:
        assert (found.strategy, found.seed, found.settings) == ("", None, {})
    with pytest.raises(hr.StoreError, match="exists: pass --force"):
        batch.save(path)
    batch.take(2).save(path, force=True)
    assert list(hr.Batch.load(path)) == [5, 0]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("classes", [(1, 0, 1, 2), ("de", "en", "de", "fr")], ids=["numbers", "names"])
def test_files_give_pair_batches_back(tmp_path, suffix, classes):
    batch, path = make_pair_batch(classes), tmp_path / f"batch{suffix}"
    batch.save(path)
    found = hr.PairBatch.load(path)
    same(found, batch, ("rows", "index", "ids", "margins", "clusters"))
    assert found.classes.tolist() == list(classes)
    make_batch().save(tmp_path / f"rows{suffix}")
    with pytest.raises(hr.InputError, match="needs a column 'class'"):
        hr.PairBatch.load(tmp_path / f"rows{suffix}")


def test_columns_and_metadata_of_the_file(tmp_path):
    make_batch().save(tmp_path / "batch.parquet")
    table = pq.read_table(tmp_path / "batch.parquet")
    assert table.column_names == ["id", "row", "margin", "cluster", "pick"]
    settings = json.loads(table.schema.metadata[b"hedgerow.batch"])
    assert (settings["strategy"], settings["seed"], settings["selected"], settings["k"]) == ("margin", 3, 4, 4)
    make_batch().save(tmp_path / "batch.csv")
    assert (tmp_path / "batch.csv").read_text().startswith("id,row,margin,cluster,pick\n007,5,0.1,1,0\n")
    make_batch(None).take(1).save(tmp_path / "batch.jsonl")
    assert (tmp_path / "batch.jsonl").read_text() == '{"row": 5, "margin": 0.1, "cluster": 1, "pick": 0}\n'


def test_a_file_is_read_in_pick_order(tmp_path):
    pq.write_table(pa.table({"row": [4, 2, 8], "pick": [2, 0, 1]}), tmp_path / "turned.parquet")
    found = hr.Batch.load(tmp_path / "turned.parquet")
    assert list(found) == [2, 8, 4]
    assert (found.strategy, found.ids) == ("", None)


def test_an_empty_batch(tmp_path):
    empty = make_batch().take(0)
    empty.save(tmp_path / "empty.parquet")
    assert len(hr.Batch.load(tmp_path / "empty.parquet")) == 0
    assert repr(empty) == "Batch(0 rows by margin, seed 3)"


def test_take_is_a_prefix():
    same(make_batch().take(2), hr.Batch([5, 0], ids=STRING_IDS[:2], margins=[0.1, 0.2], clusters=[1, 1]), FIELDS)
    assert len(make_batch().take(99)) == 4
    assert list(make_pair_batch().take(1)) == [(5, 1)]
    with pytest.raises(hr.InputError, match="n must be at least 0"):
        make_batch().take(-1)


def test_how_batches_look():
    assert repr(make_batch()) == "Batch(4 rows by margin, seed 3: 5, 0, 9, ...)"
    assert repr(hr.Batch([1])) == "Batch(1 rows: 1)"
    assert repr(make_pair_batch()) == "PairBatch(4 pairs by cluster-margin-pairs, seed 1: (5, 1), (0, 0), (5, 1), ...)"
    shown = hr.Batch(np.arange(100), "<b>", 0, [f"<{row}>" for row in range(100)])._repr_html_()
    assert shown.count("<tr>") == 11
    assert "&lt;9&gt;" in shown
    assert "<b>" not in shown
    assert "and 90 more" in shown


def test_pandas():
    frame = pytest.importorskip("pandas") and make_batch().to_pandas()
    assert list(frame.columns) == ["id", "row", "margin", "cluster", "pick"]
    assert frame["row"].tolist() == [5, 0, 9, 2]
    assert list(frame["id"]) == STRING_IDS.tolist()


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(hr.InputError, match="pip install pandas"):
        make_batch().to_pandas()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows": [1, 2], "ids": ["a"]}, "rows has 2, ids has 1"),
        ({"rows": [[1, 2]]}, "rows must have one dimension"),
    ],
)
def test_batches_refuse(fields, message):
    with pytest.raises(hr.InputError, match=message):
        hr.Batch(**fields)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("batch.csv", "id,pick\na,0\n", "needs a column 'row'"),
        ("batch.csv", "row,pick\n1\n", "cannot be read as CSV: .*Expected 2 columns, got 1"),
        ("batch.jsonl", '{"row": 1}\n{"pick": 1}\n', "has a null in row 1"),
        ("batch.jsonl", "row\n", "cannot be read as JSON lines"),
        ("batch.parquet", "row\n", "cannot be read as Parquet"),
        ("batch.txt", "row\n", "is not a .parquet"),
    ],
)
def test_files_that_are_no_batches(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(hr.InputError, match=message):
        hr.Batch.load(tmp_path / name)
    with pytest.raises(hr.InputError, match="does not exist"):
        hr.Batch.load(tmp_path / "missing.parquet")


def test_damaged_metadata(tmp_path):
    table = pa.table({"row": [1]}).replace_schema_metadata({"hedgerow.batch": "{}"})
    pq.write_table(table, tmp_path / "batch.parquet")
    with pytest.raises(hr.StoreError, match="damaged metadata"):
        hr.Batch.load(tmp_path / "batch.parquet")
    with pytest.raises(hr.StoreError, match=r"the suffix must be .parquet, .csv or .jsonl"):
        make_batch().save(tmp_path / "batch.xlsx")
