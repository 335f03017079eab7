"""Columns of a table beside a campaign: copied once, found by id."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow import InputError, StoreError, pool
from hedgerow.desk import columns
from hedgerow.desk.columns import as_number, hash_text, open_columns
from hedgerow.pool import copies, texts


def write(path: Path, ids: Any, **options: Any) -> Path:
    table = pa.table({"id": ids, "title": [f"title of {one}" for one in ids]})
    pq.write_table(table, path, **options)
    return path


@pytest.mark.parametrize("are_texts", [True, False])
def test_every_id_is_found(tmp_path: Path, are_texts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "BATCH_ROWS", 300)
    numbers = np.random.default_rng(0).permutation(np.arange(-500, 1500)).tolist()
    source = write(tmp_path / "table.parquet", [f"t{one}" for one in numbers] if are_texts else numbers)
    found = open_columns(source, tmp_path / "kept")
    wanted = [f"t{one}" for one in numbers] if are_texts else numbers
    read = found.read(wanted[::7], ["title"])
    assert read == [{"title": f"title of {one}"} for one in wanted[::7]]
    strangers = ["t9999", "", "\ud800", "t"] if are_texts else [9999, "x", "", "9" * 30, 2**70, "²"]
    assert found.read(strangers, ["title"]) == [None] * len(strangers)
    assert found.read([], ["title"]) == []


def test_ids_of_tables_that_are_numbers_are_found_by_texts(tmp_path: Path) -> None:
    found = open_columns(write(tmp_path / "table.parquet", [10, -1, 7]), tmp_path / "kept")
    assert found.read(["7", 10, "-1", "x"], ["title"]) == [
        {"title": "title of 7"},
        {"title": "title of 10"},
        None,
        None,
    ]


def test_a_copy_is_used_again_until_the_table_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "table.parquet", ["a", "b"])
    other = write(tmp_path / "other.parquet", ["a"])
    open_columns(source, tmp_path / "kept")
    open_columns(other, tmp_path / "kept")
    before = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert len(before) == 4
    opened: list[str] = []
    real = pool.open_source
    monkeypatch.setattr(pool, "open_source", lambda one, name: opened.append(str(one)) or real(one, name))
    assert open_columns(source, tmp_path / "kept").read(["b"], ["title"]) == [{"title": "title of b"}]
    assert opened
    assert not any(str(source) in one for one in opened)
    write(source, ["b", "c", "d"])
    os.utime(source, ns=(1, 1))
    assert open_columns(source, tmp_path / "kept").read(["a", "c"], ["title"]) == [None, {"title": "title of c"}]
    after = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert len(after) == 4  # the old copy is gone, and that of the other table is not
    assert len({*before} & {*after}) == 2


def test_an_interrupted_copy_is_made_again(tmp_path: Path) -> None:
    source = write(tmp_path / "table.parquet", ["a", "b"])
    open_columns(source, tmp_path / "kept")
    (index,) = (tmp_path / "kept").glob("*.npy")
    index.unlink()
    assert open_columns(source, tmp_path / "kept").read(["b"], ["title"]) == [{"title": "title of b"}]


def test_only_a_few_rows_are_read(tmp_path: Path) -> None:
    source = write(tmp_path / "table.parquet", list(range(20_000)), row_group_size=20_000)
    found = open_columns(source, tmp_path / "kept")
    assert isinstance(found.index, np.memmap)
    (kept,) = (tmp_path / "kept").glob("*.parquet")
    footer = pq.read_metadata(kept)
    assert max(footer.row_group(at).num_rows for at in range(footer.num_row_groups)) == columns.GROUP_ROWS


def test_records_lists_and_other_values_are_kept_as_text(tmp_path: Path) -> None:
    source = tmp_path / "table.jsonl"
    source.write_text('{"id": 1, "a": {}, "b": [1, 2], "c": true}\n{"id": 2, "a": {}, "b": null, "c": null}\n')
    found = open_columns(source, tmp_path / "kept")
    assert found.read([1, 2], ["a", "b", "c"]) == [
        {"a": "{}", "b": "[1, 2]", "c": "true"},
        {"a": "{}", "b": "", "c": ""},
    ]


def test_tables_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than once"):
        open_columns(write(tmp_path / "twice.parquet", ["a", "b", "a"]), tmp_path / "kept")
    with pytest.raises(InputError, match="has no rows"):
        open_columns(write(tmp_path / "empty.parquet", pa.array([], pa.string())), tmp_path / "kept")
    np.save(tmp_path / "array.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match="has no named columns"):
        open_columns(tmp_path / "array.npy", tmp_path / "kept")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be made"):
        open_columns(write(tmp_path / "table.parquet", ["a"]), tmp_path / "file")


def test_csv_files_are_read_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "BLOCK_BYTES", 200)  # several batches
    folder = tmp_path / "tables"
    folder.mkdir()
    for part in range(2):
        lines = [f'{part * 50 + row},1.50,"two\nlines, {row}"\n' for row in range(50)]
        (folder / f"{part}.csv").write_text("id,price,body\n" + "".join(lines))
    found = open_columns(folder, tmp_path / "kept")
    assert found.table.n == 100
    assert found.read([7, "57"], ["price", "body"]) == [{"price": "1.50", "body": "two\nlines, 7"}] * 2
    (folder / "2.csv").write_text("id,price\n200,1\n")
    with pytest.raises(InputError, match="different columns"):
        open_columns(folder, tmp_path / "kept")
    (tmp_path / "bad.csv").write_text("id,title\n1\n")
    with pytest.raises(InputError, match=r"bad\.csv cannot be read as CSV"):
        open_columns(tmp_path / "bad.csv", tmp_path / "kept")
    (tmp_path / "no id.csv").write_text("id,title\n,x\n")
    with pytest.raises(InputError, match=r"no id\.csv has a null in row 0"):
        open_columns(tmp_path / "no id.csv", tmp_path / "kept")
    left = {path.name for path in (tmp_path / "kept").iterdir()}
    assert len(left) == 2  # the copy from before the third file


def test_hashes_are_the_same_in_every_process() -> None:
    assert hash_text("ticket-1") == -8605024399713413371
    assert [as_number(one) for one in (3, "3", "03", "x", "", "-3", 2**63)] == [3, 3, 3, None, None, None, None]
