"""Pairs on the command line: ids and classes in, ids and classes out, every mistake in one line."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow import cli

N, CLASSES, M = 80, 4, 150
IDS = np.array([f"word-{row:02}" for row in range(N)], object)
NAMES = np.array(["de", "en", "fr", "it"], object)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main puts its own in place

    def call(*arguments: Any) -> tuple[int, str, str]:
        command = ["hedgerow", "select", "-k", 20, "-o", "batch.parquet", *arguments]
        monkeypatch.setattr(sys, "argv", [str(word) for word in command])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert isinstance(exit_.value.code, int)
        return exit_.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hr.Pairs:
    """A folder with the files of a multi-label pool, the current one; its pairs."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    cells = rng.permutation(N * CLASSES)[:M]
    pairs = hr.Pairs(cells // CLASSES, cells % CLASSES)
    matrix = rng.random((N, CLASSES)).astype(np.float32)
    each = matrix[pairs.rows, pairs.classes]
    points = rng.normal(size=(N, 5)).astype(np.float32)
    ids, names = IDS[pairs.rows], NAMES[pairs.classes]
    write("matrix", id=IDS, probabilities=list(matrix))
    write("clusters", id=IDS, cluster=np.arange(N) // 6)
    write("embeddings", id=IDS, embedding=list(points))
    write("pairs", id=ids, **{"class": pairs.classes})
    write("named", id=ids, probability=each, **{"class": names})
    write("rows", row=pairs.rows, probability=each, **{"class": pairs.classes})
    write("labeled", id=ids[:40], **{"class": pairs.classes[:40]})
    write("labeled_named", id=ids[:40], **{"class": names[:40]})
    np.save("matrix.npy", matrix)
    np.save("each.npy", each)
    np.save("mask.npy", np.arange(M) < 40)
    np.save("places.npy", np.arange(40))
    return pairs


def write(name: str, **columns: Any) -> None:
    pq.write_table(pa.table(columns), f"{name}.parquet")


def given(asked: hr.Pairs) -> dict[str, Any]:
    points = np.array(pq.read_table("embeddings.parquet")["embedding"].to_pylist(), np.float32)
    matrix = np.load("matrix.npy")
    return {"pairs": asked, "probabilities": matrix, "clusters": np.arange(N) // 6, "embeddings": points}


def test_the_default_is_stochastic_margin(asked: hr.Pairs, run: Run) -> None:
    code, _, error = run("matrix.parquet", "--pairs", "pairs.parquet", "--labeled", "labeled.parquet")
    assert (code, error) == (0, "")
    expected = hr.select_pairs(
        "stochastic-margin", 20, pairs=asked, probabilities=np.load("matrix.npy"), labeled=np.arange(40)
    )
    assert hr.PairBatch.load("batch.parquet").index.tolist() == expected.index.tolist()


@pytest.mark.parametrize("strategy", list(hr.PAIR_STRATEGIES))
def test_ids_and_classes_in_and_out(asked: hr.Pairs, run: Run, strategy: str) -> None:
    files = ["--clusters", "clusters.parquet", "--embeddings", "embeddings.parquet", "--labeled", "labeled.parquet"]
    code, out, error = run("matrix.parquet", "--pairs", "pairs.parquet", "--strategy", strategy, *files, "--seed", 3)
    assert (code, error) == (0, "")
    assert out == f"20 of {M} pairs by {strategy} (seed 3) -> batch.parquet\n"
    batch = hr.select_pairs(strategy, 20, **given(asked), labeled=np.arange(40), seed=3)
    table = pq.read_table("batch.parquet")
    margin = [] if strategy in ("coreset", "random") else ["margin"]  # where the margins of pairs are not needed
    weight = ["weight"] if strategy.startswith("hedge") else []
    assert table.column_names == ["id", "row", "class", "pair", *margin, "cluster", *weight, "pick"]
    assert table["pair"].to_pylist() == batch.index.tolist()
    assert table["row"].to_pylist() == batch.rows.tolist()
    assert table["id"].to_pylist() == IDS[batch.rows].tolist()
    assert table["class"].to_pylist() == batch.classes.tolist()
    assert table["cluster"].to_pylist() == (batch.rows // 6).tolist()
    settings = json.loads(table.schema.metadata[b"hedgerow.batch"])
    assert (settings["n"], settings["labeled"], settings["selected"]) == (M, 40, 20)
    assert settings["inputs"]["pairs"] == "pairs.parquet"


def test_one_file_is_enough_where_rows_do_not_matter(asked: hr.Pairs, run: Run) -> None:
    """Ids and class names are numbered by the file itself, and a batch serves as what is labeled next time."""
    files = ["named.parquet", "--pairs", "named.parquet", "--strategy", "margin", "--labeled", "labeled_named.parquet"]
    code, _, error = run(*files)
    assert (code, error) == (0, "")
    each = np.load("each.npy")
    expected = hr.select_pairs("margin", 20, pairs=asked, probabilities=each, labeled=np.arange(40))
    table = pq.read_table("batch.parquet")
    assert table.column_names == ["id", "row", "class", "pair", "margin", "pick"]
    assert table["pair"].to_pylist() == expected.index.tolist()
    assert table["id"].to_pylist() == IDS[expected.rows].tolist()
    assert table["class"].to_pylist() == NAMES[expected.classes].tolist()
    assert table["margin"].to_pylist() == np.abs(2 * each[expected.index] - 1).tolist()
    code, _, error = run(*files[:-1], "batch.parquet", "-o", "next.parquet", "-k", M - 20)
    assert (code, error) == (0, "")
    rest = pq.read_table("next.parquet")["pair"].to_pylist()
    assert sorted(rest + table["pair"].to_pylist()) == list(range(M))


@pytest.mark.parametrize("labeled", ["labeled.parquet", "mask.npy", "places.npy"])
@pytest.mark.parametrize("predictions", ["matrix.npy", "each.npy", "rows.parquet", "named.parquet"])
def test_any_form_of_the_same_pairs(asked: hr.Pairs, run: Run, predictions: str, labeled: str) -> None:
    pairs = "rows.parquet" if predictions in ("matrix.npy", "rows.parquet") else "named.parquet"
    if pairs == "rows.parquet":
        write("labeled", row=asked.rows[:40], **{"class": asked.classes[:40]})
    else:
        labeled = labeled.replace("labeled.", "labeled_named.")
    more = ["--strategy", "stochastic-margin", "--power", 2, "--labeled", labeled, "--json"]
    code, out, error = run(predictions, "--pairs", pairs, *more)
    assert (code, error) == (0, "")
    assert json.loads(out)["options"] == {"power": 2}
    expected = hr.select_pairs(hr.StochasticMargin(2), 20, **given(asked), labeled=np.arange(40))
    assert pq.read_table("batch.parquet")["pair"].to_pylist() == expected.index.tolist()


def test_options_of_cluster_margin_over_pairs(asked: hr.Pairs, run: Run) -> None:
    options = ["--by-class", "--per-row", 1, "--class-quota", 6, "--margin-factor", 2, "--power", 1]
    files = ["matrix.parquet", "--pairs", "pairs.parquet", "--clusters", "clusters.parquet"]
    code, out, error = run(*files, "--strategy", "cluster-margin-pairs", *options, "--json")
    assert (code, error) == (0, "")
    strategy = hr.ClusterMarginPairs(2, 1, by_class=True, per_row=1, class_quota=6)
    assert json.loads(out)["options"]["class_quota"] == 6
    assert (
        pq.read_table("batch.parquet")["pair"].to_pylist()
        == hr.select_pairs(strategy, 20, **given(asked)).index.tolist()
    )


def test_columns_by_name(asked: hr.Pairs, run: Run) -> None:
    write("odd", word=IDS[asked.rows], language=NAMES[asked.classes], guess=np.load("each.npy"))
    names = ["--id-column", "word", "--class-column", "language", "--column", "guess"]
    code, _, error = run("odd.parquet", "--pairs", "odd.parquet", "--strategy", "random", *names)
    assert (code, error) == (0, "")
    table = pq.read_table("batch.parquet")
    assert table.column_names == ["id", "row", "class", "pair", "margin", "pick"]
    assert table["class"].to_pylist() == NAMES[asked.classes[table["pair"].to_numpy()]].tolist()


def write_bad_files(asked: hr.Pairs) -> None:
    ids, classes = IDS[asked.rows], asked.classes
    write("twice", id=np.append(ids, ids[3]), **{"class": np.append(classes, classes[3])})
    write("strangers", id=np.append(ids[1:], "word-99"), **{"class": classes})
    write("high", id=ids, **{"class": classes + 1})
    write("float", id=ids, **{"class": classes + 0.5})
    write("classless", id=ids, language=NAMES[classes])
    write("rowless", word=ids, **{"class": classes})
    write("far", row=asked.rows + 9, **{"class": classes})
    again = np.append(np.arange(M), 5)
    write("twins", id=ids[again], probability=np.load("each.npy")[again], **{"class": NAMES[classes][again]})
    write("outside", id=["word-99", *ids[1:]], probability=np.load("each.npy"), **{"class": NAMES[classes]})
    write("unasked", id=[IDS[0]] * CLASSES, **{"class": np.arange(CLASSES)})
    write("numbered", row=asked.rows[:40], **{"class": NAMES[classes[:40]]})
    write("halves", id=asked.rows + 0.5, **{"class": classes})
    np.save("short.npy", np.load("each.npy")[:-1])
    np.save("wild.npy", np.load("each.npy") * 3)
    np.save("all.npy", np.ones(M, bool))
    np.save("shortmask.npy", np.ones(M - 1, bool))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["matrix.parquet", "--pairs", "missing.parquet"], ["missing.parquet does not exist"]),
        (["matrix.parquet", "--pairs", "matrix.npy"], ["no named columns"]),
        (["matrix.parquet", "--pairs", "twice.parquet"], ["1 pairs occur more than once: row "]),
        (["matrix.parquet", "--pairs", "strangers.parquet"], ["ids are not in the pool", "word-99"]),
        (["matrix.parquet", "--pairs", "high.parquet"], ["pairs have classes that are not in 0 to 3", "class 4"]),
        (["matrix.parquet", "--pairs", "float.parquet"], ["'class'", "whole numbers"]),
        (["matrix.parquet", "--pairs", "classless.parquet"], ["no column of classes (class): it has id, language"]),
        (["matrix.parquet", "--pairs", "rowless.parquet"], ["no column of ids (id) or rows (row)"]),
        (["matrix.npy", "--pairs", "pairs.parquet"], ["no column of rows (row), and the pool has no ids"]),
        (["matrix.npy", "--pairs", "far.parquet"], ["rows that are not in the pool, whose rows are 0 to 79"]),
        (["matrix.parquet", "--pairs", "named.parquet"], ["class", "numbers of the columns"]),
        (["short.npy", "--pairs", "named.parquet"], ["149 numbers, but there are 150 pairs"]),
        (["wild.npy", "--pairs", "named.parquet"], ["between 0 and 1"]),
        (["twins.parquet", "--pairs", "named.parquet"], ["twins.parquet has 2 rows for pair 5", "one per pair"]),
        (["outside.parquet", "--pairs", "named.parquet"], ["word-99, which is not among the pairs'"]),
        (["each.npy", "--pairs", "named.parquet", "--labeled", "all.npy"], ["20 pairs", "only 0 are unlabeled"]),
        (["each.npy", "--pairs", "named.parquet", "--labeled", "shortmask.npy"], ["149", "150"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--labeled", "unasked.parquet"], ["are not among the pool's"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--labeled", "labeled.csv"], ["no column of classes (class)"]),
        (
            ["each.npy", "--pairs", "named.parquet", "--labeled", "numbered.parquet"],
            ["'row'", "give a column of ids there too"],
        ),
        (["each.npy", "--pairs", "halves.parquet"], ["'id'", "ids must be whole numbers or strings"]),
        (["each.npy", "--pairs", "named.parquet", "--id-column", "wrod"], ["has no column 'wrod'"]),
        (["matrix.parquet", "--class-column", "class"], ["--class-column needs --pairs"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--logits"], ["--logits cannot be used with --pairs"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--strategy", "entropy"], ["unknown strategy 'entropy'"]),
        (["matrix.parquet", "--strategy", "cluster-margin-pairs"], ["unknown strategy 'cluster-margin-pairs'"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--per-row", 1], ["'margin' has no option 'per_row'"]),
        (["matrix.parquet", "--pairs", "pairs.parquet", "--by-class"], ["'margin' has no option 'by_class'"]),
        (
            ["matrix.parquet", "--pairs", "pairs.parquet", "--strategy", "badge"],
            ["needs embeddings", "--embeddings FILE"],
        ),
        (
            ["matrix.parquet", "--pairs", "pairs.parquet", "--strategy", "cluster-margin"],
            ["needs clusters", "--clusters FILE"],
        ),
    ],
)
def test_refused_in_one_line_and_nothing_is_written(
    asked: hr.Pairs, run: Run, arguments: list[Any], parts: list[str]
) -> None:
    write_bad_files(asked)
    Path("labeled.csv").write_text("id,language\nword-00,0\n")
    before = sorted(Path().iterdir())
    if "--strategy" not in arguments:
        arguments = [*arguments, "--strategy", "margin"]
    code, out, error = run(*arguments)
    assert (code, out) == (1, "")
    assert error.startswith("hedgerow: ")
    assert error.count("\n") == 1
    for part in parts:
        assert part in error
    assert sorted(Path().iterdir()) == before
