"""The command line as a user meets it: real files, every mistake in one line, nothing half-written."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow import store
from hedgerow.cli.app import print_rows, print_transposed
from hedgerow.cli.selection import PAIR_STRATEGY_NAMES, STRATEGY_NAMES
from shell import QUIET, Answer, Run, one_line

N, CLASSES = 400, 4
IDS = [f"image-{row:03}" for row in range(N)]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pool and its predictions in several forms; the current one."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(N, 8)).astype(np.float32)
    chances = rng.dirichlet(np.ones(CLASSES), N).astype(np.float32)
    np.save(tmp_path / "pool.npy", points)
    np.save(tmp_path / "predictions.npy", chances)
    np.save(tmp_path / "logits.npy", np.log(chances))
    np.save(tmp_path / "margins.npy", hr.margins(chances))
    np.save(tmp_path / "labels.npy", np.arange(N) // 5)
    pq.write_table(pa.table({"id": IDS, "embedding": list(points)}), tmp_path / "pool.parquet")
    pq.write_table(pa.table({"id": IDS, "probabilities": list(chances)}), tmp_path / "predictions.parquet")
    pq.write_table(pa.table({"id": IDS, "margin": hr.margins(chances)}), tmp_path / "margins.parquet")
    pq.write_table(pa.table({"id": IDS, "cluster": np.arange(N) // 5}), tmp_path / "clusters.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def select(*more: Any, clusters: str | None = "clusters.parquet", k: int = 20) -> list[Any]:
    """A selection by cluster-margin, unless `more` names another strategy."""
    shared = ["select", "--strategy", "cluster-margin", "-k", k, "-o", "batch.parquet"]
    return [*shared, *(["--clusters", clusters] if clusters else []), *more]


# hedgerow cluster


@pytest.mark.parametrize("pool", ["pool.npy", "pool.parquet"])
def test_cluster_writes_what_the_function_gives(files: Path, run: Run, pool: str) -> None:
    answer = run("cluster", pool, "-o", "out.parquet", "--average-size", 4)
    assert answer.code == 0
    assert answer.error == ""
    assert answer.out.count("\n") == 1
    assert "-> out.parquet" in answer.out
    expected = hr.cluster(files / pool, average_size=4)
    table = pq.read_table("out.parquet")
    assert table.column_names == (["id", "cluster"] if pool == "pool.parquet" else ["cluster"])
    assert table["cluster"].to_pylist() == expected.labels.tolist()
    if pool == "pool.parquet":
        assert table["id"].to_pylist() == IDS
    assert table.schema.metadata[b"hedgerow.version"].decode() == hr.__version__
    kept = hr.Clusters.load("out.parquet")
    assert (kept.threshold, kept.metric, kept.method) == (expected.threshold, expected.metric, expected.method)


def test_cluster_takes_the_options_of_its_method(files: Path, run: Run) -> None:
    options = ("--neighbors", 3, "--rounds", 2, "--average-size", 4)
    assert run("cluster", "pool.npy", "-o", "out.parquet", "--method", "multiround", *options).code == 0
    expected = hr.cluster(files / "pool.npy", method=hr.Multiround(neighbors=3, rounds=2), average_size=4)
    assert hr.Clusters.load("out.parquet").labels.tolist() == expected.labels.tolist()
    other = hr.cluster(files / "pool.npy", method=hr.Multiround(), average_size=4)
    assert expected.labels.tolist() != other.labels.tolist()
    answer = run("cluster", "pool.npy", "-o", "other.parquet", "--method", "certified", "--slack", 0.5)
    one_line(answer, 1, "slack must be at least 1, got 0.5")


def test_cluster_tells_a_program(files: Path, run: Run) -> None:
    answer = run("cluster", "pool.npy", "-o", "out.parquet", "--threshold", 0.4, "--metric", "sqeuclidean", "--json")
    facts = json.loads(answer.out)
    assert facts["threshold"] == 0.4
    assert facts["metric"] == "sqeuclidean"
    assert facts["n"] == N
    assert facts["n_clusters"] == hr.Clusters.load("out.parquet").n_clusters
    assert facts["out"] == "out.parquet"
    assert answer.error == ""


@pytest.mark.parametrize("subset", ["0.25", "part.txt", "mask.npy"])
def test_cluster_of_a_subset(files: Path, run: Run, subset: str) -> None:
    Path("part.txt").write_text("\n".join(IDS[::4]))
    np.save("mask.npy", np.arange(N) % 4 == 0)
    run_ = run("cluster", "pool.parquet", "-o", "out.parquet", "--method", "assign", "--subset", subset, "--json")
    given = 0.25 if subset == "0.25" else np.arange(0, N, 4)
    expected = hr.cluster(files / "pool.parquet", method="assign", subset=given)
    assert json.loads(run_.out)["method"] == "assign"
    assert pq.read_table("out.parquet")["cluster"].to_pylist() == expected.labels.tolist()


def test_cluster_of_a_subset_by_the_distance_to_the_centroid(files: Path, run: Run) -> None:
    more = ["--method", "assign", "--subset", 0.25, "--join-by", "centroid", "--centroids"]
    answer = run("cluster", "pool.parquet", "-o", "out.parquet", *more, "--json")
    expected = hr.cluster(files / "pool.parquet", method=hr.Assign(0.25, join_by="centroid"))
    assert json.loads(answer.out)["join_by"] == "centroid"
    kept = hr.Clusters.load("out.parquet")
    np.testing.assert_array_equal(kept.labels, expected.labels)
    new = np.load("pool.npy")[50:90] + 0.1
    np.testing.assert_array_equal(kept.assign(new), expected.assign(new))


def test_cluster_in_rounds_with_zeros_and_centroids(files: Path, run: Run) -> None:
    points = np.load("pool.npy")
    points[[3, 9]] = 0
    np.save("zeros.npy", points)
    more = ["--method", "multiround", "--rounds", 2, "--zeros", "singletons", "--centroids"]
    assert run("cluster", "zeros.npy", "-o", "out.parquet", *more).code == 0
    kept = hr.Clusters.load("out.parquet")
    expected = hr.cluster(points, method="multiround", rounds=2, zeros="singletons")
    np.testing.assert_array_equal(kept.labels, expected.labels)
    np.testing.assert_array_equal(kept.assign(points[50:90]), expected.assign(points[50:90]))
    Path("out.parquet").unlink()
    one_line(run("cluster", "zeros.npy", "-o", "out.parquet", *more), 1, "out.centroids.npz exists")


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["missing.npy"], 1, ["missing.npy does not exist"]),
        (["pool.npy", "--column", "x"], 1, ["no named columns"]),
        (["pool.parquet", "--column", "x"], 1, ["no column 'x': it has id, embedding"]),
        (["pool.parquet", "--id-column", "x"], 1, ["no column 'x'"]),
        (["predictions.parquet"], 1, ["no column that looks like embeddings: name one of id, probabilities"]),
        (["pool.npy", "--metric", "cosin"], 1, ["did you mean 'cosine'?"]),
        (["pool.npy", "--method", "exakt"], 1, ["did you mean 'exact'?"]),
        (["pool.npy", "--average-size", 4, "--threshold", 1], 1, ["exactly one of threshold, average_size"]),
        (["pool.npy", "--average-size", 0.5], 1, ["average_size must be at least 1"]),
        (["pool.npy", "--average-size", "many"], 2, ["--average-size", "hedgerow cluster --help"]),
        (["pool.npy", "--subset", 0.5], 1, ["subset goes with method='assign'"]),
        (["pool.npy", "--method", "assign", "--subset", "none.txt"], 1, ["none.txt does not exist"]),
        (["pool.npy", "--method", "assign", "--subset", 2], 1, ["at most 1"]),
        (["pool.npy", "--method", "assign", "--join-by", "center"], 1, ["unknown join_by", "centroid"]),
        (["pool.npy", "--join-by", "centroid"], 1, ["join_by goes with method='assign'"]),
        (["pool.npy", "--metric", "euclidean", "--centroids"], 1, ["--centroids needs the metric"]),
        (["pool.npy", "--bogus"], 2, ["--bogus"]),
        ([], 2, ["POOL"]),
        (["twice.parquet"], 1, ["'a' more than once"]),
        (["nan.npy"], 1, ["row 7"]),
        (["text.parquet"], 1, ["text.parquet cannot be read as Parquet"]),
        (["empty.npy"], 1, ["empty.npy is empty"]),
        (["pickle.npy"], 1, ["pickle.npy cannot be read as npy"]),
    ],
)
def test_cluster_refuses_in_one_line_and_writes_nothing(
    files: Path, run: Run, arguments: list[Any], code: int, parts: list[str]
) -> None:
    points = np.load("pool.npy")
    points[7, 2] = np.nan
    np.save("nan.npy", points)
    np.save("pickle.npy", np.array([{}], object))
    pq.write_table(pa.table({"id": ["a", "b", "a"], "embedding": [[0.0, 1.0]] * 3}), "twice.parquet")
    Path("text.parquet").write_text("id,embedding")
    Path("empty.npy").touch()
    before = sorted(files.iterdir())
    one_line(run("cluster", *arguments, "-o", "out.parquet"), code, *parts)
    assert sorted(files.iterdir()) == before


# hedgerow select


def test_select_writes_what_the_function_gives(files: Path, run: Run) -> None:
    answer = run(*select("predictions.parquet", "--seed", 3, "--margin-factor", 5))
    assert (answer.code, answer.error) == (0, "")
    chances = np.load("predictions.npy")
    batch = hr.select(
        hr.ClusterMargin(margin_factor=5), 20, probabilities=chances, clusters=np.load("labels.npy"), seed=3
    )
    table = pq.read_table("batch.parquet")
    assert table.column_names == ["id", "row", "margin", "cluster", "pick"]
    assert table["row"].to_pylist() == batch.rows.tolist()
    assert table["id"].to_pylist() == [IDS[row] for row in batch.rows]
    assert table["margin"].to_pylist() == hr.margins(chances)[batch.rows].tolist()
    assert table["cluster"].to_pylist() == (batch.rows // 5).tolist()
    assert table["pick"].to_pylist() == list(range(20))
    settings = json.loads(table.schema.metadata[b"hedgerow.batch"])
    assert settings["strategy"] == "cluster-margin"
    assert settings["options"]["margin_factor"] == 5
    assert (settings["k"], settings["selected"], settings["n"], settings["seed"]) == (20, 20, N, 3)
    assert settings["inputs"] == {"predictions": "predictions.parquet", "clusters": "clusters.parquet"}
    assert table.schema.metadata[b"hedgerow.version"].decode() == hr.__version__


@pytest.mark.parametrize(
    "source", [["predictions.npy"], ["margins.npy"], ["margins.parquet"], ["logits.npy", "--logits"]]
)
def test_select_takes_any_form_of_the_same_predictions(files: Path, run: Run, source: list[str]) -> None:
    assert run(*select("predictions.parquet", "--force")).code == 0
    expected = pq.read_table("batch.parquet")["row"].to_pylist()
    clusters = "clusters.parquet" if source[0].endswith("parquet") else "labels.npy"
    assert run(*select(*source, "--force", clusters=clusters)).code == 0
    assert pq.read_table("batch.parquet")["row"].to_pylist() == expected


def test_the_default_is_hedge(files: Path, run: Run) -> None:
    np.save("labeled.npy", np.arange(60))
    command = ["select", "--clusters", "labels.npy", "-k", 20, "-o", "batch.parquet", "--force"]
    assert run(*command, "predictions.npy", "--labeled", "labeled.npy").code == 0
    given = {"clusters": np.load("labels.npy"), "labeled": np.arange(60)}
    batch = hr.select("hedge", 20, probabilities=np.load("predictions.npy"), **given)
    table = pq.read_table("batch.parquet")
    assert table["row"].to_pylist() == batch.rows.tolist()
    assert table["weight"].to_pylist() == batch.weights.tolist()
    one_line(run(*command, "margins.npy", "--labeled", "labeled.npy"), 1, "number of classes", "--set classes=")
    by_margins = [*command, "margins.npy", "--labeled", "labeled.npy", "--set", f"classes={CLASSES}"]
    assert run(*by_margins).code == 0
    assert hr.Batch.load("batch.parquet").rows.tolist() == batch.rows.tolist()


@pytest.mark.parametrize("strategy", sorted(hr.STRATEGIES))
def test_every_strategy_by_name(files: Path, run: Run, strategy: str) -> None:
    Path("labeled.txt").write_text("\n".join(IDS[:40]))
    inputs = ["predictions.parquet", "--embeddings", "pool.parquet", "--labeled", "labeled.txt"]
    answer = run(*select(*inputs, "--strategy", strategy, "--json"))
    assert answer.code == 0, answer.error
    facts = json.loads(answer.out)
    assert facts["strategy"] == strategy
    table = pq.read_table("batch.parquet")
    assert len(set(table["row"].to_pylist())) == 20
    assert table.column_names[:2] == ["id", "row"]
    weights = ["weight"] if strategy.startswith("hedge") else []
    assert table.column_names[-2 - len(weights) :] == ["cluster", *weights, "pick"]


@pytest.mark.parametrize("strategy", ["coreset", "typiclust", "probcover", "maxherding", "random"])
def test_strategies_that_need_no_predictions(files: Path, run: Run, strategy: str) -> None:
    command = ["select", "--strategy", strategy, "--embeddings", "pool.npy", "-k", 20, "-o", "batch.parquet"]
    assert run(*command).code == 0
    expected = hr.select(strategy, 20, embeddings=np.load("pool.npy")).rows
    assert hr.Batch.load("batch.parquet").rows.tolist() == expected.tolist()
    answer = run(*command, "--logits", "--force")
    assert (answer.code, "--logits needs PREDICTIONS" in answer.error) == (1, True)
    answer = run("select", "--embeddings", "pool.npy", "-k", 20, "-o", "other.parquet")
    assert (answer.code, "'hedge' needs clusters" in answer.error) == (1, True)


def test_the_help_names_every_strategy(files: Path, run: Run) -> None:
    shown = re.sub(r"-\n +", "-", run("select", "--help").out)  # a line may end behind a hyphen of a name
    for strategy in [*hr.STRATEGIES, *hr.PAIR_STRATEGIES]:
        assert strategy in shown


def test_options_of_a_strategy(files: Path, run: Run) -> None:
    arguments = ["predictions.npy", "--strategy", "coreset", "--embeddings", "pool.npy", "--partitions", 2, "--json"]
    facts = json.loads(run(*select(*arguments, "--split-labeled", clusters=None)).out)
    assert facts["options"] == {"partitions": 2, "metric": "euclidean", "split_labeled": True}
    arguments = ["predictions.npy", "--strategy", "stochastic-margin", "--power", 2, "--json", "--force"]
    assert json.loads(run(*select(*arguments, clusters=None)).out)["options"] == {"power": 2}


@pytest.mark.parametrize("form", ["ids.parquet", "rows.npy", "ids.txt", "batch-0.parquet"])
def test_select_leaves_out_what_is_labeled(files: Path, run: Run, form: str) -> None:
    """A batch that was written before serves as the list of what is labeled now."""
    rows = np.arange(0, N, 2)
    pq.write_table(pa.table({"id": [IDS[row] for row in rows]}), "ids.parquet")
    np.save("rows.npy", np.arange(N) % 2 == 0)
    Path("ids.txt").write_text("\n".join(IDS[row] for row in rows))
    pq.write_table(pa.table({"id": [IDS[row] for row in rows], "row": rows, "pick": rows}), "batch-0.parquet")
    answer = run(*select("predictions.parquet", "--labeled", form, "--json", k=200))
    assert json.loads(answer.out)["labeled"] == 200
    assert sorted(pq.read_table("batch.parquet")["row"].to_pylist()) == list(range(1, N, 2))
    one_line(run(*select("predictions.parquet", "--labeled", form, "--force", k=201)), 1, "201", "200", "unlabeled")
    answer = run(*select("predictions.parquet", "--labeled", form, "--force", "--allow-short", "--json", k=201))
    assert json.loads(answer.out)["selected"] == 200


def test_several_labeled_files_are_united(files: Path, run: Run) -> None:
    Path("a.csv").write_text("\n".join(["id", *IDS[:150]]))
    pq.write_table(pa.table({"id": IDS[100:300]}), "b.parquet")
    more = ["--labeled", "a.csv", "--labeled", "b.parquet"]
    facts = json.loads(run(*select("predictions.parquet", *more, "--json", k=100)).out)
    assert (facts["labeled"], facts["inputs"]["labeled"]) == (300, ["a.csv", "b.parquet"])
    assert sorted(pq.read_table("batch.parquet")["row"].to_pylist()) == list(range(300, N))
    assert json.loads(pq.read_metadata("batch.parquet").metadata[b"hedgerow.batch"])["inputs"]["labeled"] == [
        "a.csv", "b.parquet",
    ]  # fmt: skip


def test_labeled_may_be_a_folder(files: Path, run: Run) -> None:
    Path("done").mkdir()
    pq.write_table(pa.table({"id": IDS[:150]}), "done/one.parquet")
    pq.write_table(pa.table({"id": IDS[150:300]}), "done/two.parquet")
    assert json.loads(run(*select("predictions.parquet", "--labeled", "done", "--json", k=100)).out)["labeled"] == 300


def test_an_output_does_not_join_an_input_folder(files: Path, run: Run) -> None:
    Path("parts").mkdir()
    Path("predictions.parquet").rename("parts/one.parquet")
    one_line(run(*select("parts", "-o", "parts/batch.parquet")), 1, "in the input folder parts", "write it elsewhere")
    assert [path.name for path in Path("parts").iterdir()] == ["one.parquet"]
    assert run(*select("parts", "-o", "batch.csv")).code == 0


def test_files_in_any_order_are_joined(files: Path, run: Run) -> None:
    write_bad_files()
    assert run(*select("predictions.parquet", "-o", "one.csv")).code == 0
    order = np.random.default_rng(0).permutation(N)
    pq.write_table(pq.read_table("predictions.parquet").take(order), "shuffled.parquet")
    assert run(*select("shuffled.parquet", "-o", "other.csv")).code == 0
    assert Path("one.csv").read_text() == Path("other.csv").read_text()


def test_predictions_of_a_part_of_the_pool(files: Path, run: Run) -> None:
    pq.write_table(pq.read_table("predictions.parquet").slice(100), "part.parquet")
    answer = run(*select("part.parquet", k=300))
    assert answer.out == "300 of 400 rows by cluster-margin (seed 0), 100 without predictions -> batch.parquet\n"
    assert sorted(pq.read_table("batch.parquet")["row"].to_pylist()) == list(range(100, N))
    one_line(run(*select("part.parquet", "--force", k=301)), 1, "301 examples with predictions", "only 300")


def test_unknown_ids_can_be_ignored(files: Path, run: Run) -> None:
    write_bad_files()
    answer = run(*select("predictions.parquet", "--labeled", "strangers.parquet", "--ignore-unknown"))
    assert answer.out == "20 of 400 rows by cluster-margin (seed 0), 2 unknown ids ignored -> batch.parquet\n"
    Path("stranger.txt").write_text("nobody\n")
    answer = run(*select("predictions.parquet", "--labeled", "stranger.txt", "--ignore-unknown", "--force"))
    assert answer.out == "20 of 400 rows by cluster-margin (seed 0), 1 unknown id ignored -> batch.parquet\n"


def test_any_option_of_a_strategy(files: Path, run: Run) -> None:
    arguments = ["predictions.npy", "--strategy", "badge", "--embeddings", "pool.npy", "--json"]
    facts = json.loads(run(*select(*arguments, "--set", "first=random", "--set", "partitions=2", clusters=None)).out)
    assert facts["options"] == {"partitions": 2, "first": "random"}
    expected = hr.select(
        hr.Badge(2, "random"), 20, probabilities=np.load("predictions.npy"), embeddings=np.load("pool.npy")
    )
    assert hr.Batch.load("batch.parquet").rows.tolist() == expected.rows.tolist()


def test_partitions_on_an_engine(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch of one process; the variable does not concern strategies that need no engine."""
    parts = ["predictions.npy", "--strategy", "badge", "--embeddings", "pool.npy", "--partitions", "3", "--force"]
    run(*select(*parts, clusters=None))
    alone = hr.Batch.load("batch.parquet").rows.tolist()
    run(*select(*parts, "--engine", "processes:2", "--workdir", "work", clusters=None))
    assert hr.Batch.load("batch.parquet").rows.tolist() == alone
    assert len(list(Path("work").glob("picks-*.json"))) == 3
    monkeypatch.setenv("HEDGEROW_ENGINE", "processes:2")
    assert run(*select("predictions.npy", "--force")).code == 0
    monkeypatch.delenv("HEDGEROW_ENGINE")
    asked = ["--engine", "processes:2", "--force"]
    one_line(run(*select("predictions.npy", *asked)), 1, "cluster-margin does not run on an engine")
    one_line(run(*select("predictions.npy", *asked, "--pairs", "pairs.parquet")), 1, "cannot be used with --pairs")


@pytest.mark.parametrize("strategy", sorted(hr.STRATEGIES))
def test_logits_for_every_strategy(files: Path, run: Run, strategy: str) -> None:
    np.save("labeled.npy", np.arange(40))
    shared = ["--strategy", strategy, "--embeddings", "pool.npy", "--labeled", "labeled.npy", "--force"]
    assert run(*select("logits.npy", "--logits", *shared, clusters="labels.npy")).code == 0
    by_logits = hr.Batch.load("batch.parquet").rows.tolist()
    powers = np.exp(np.load("logits.npy"))
    np.save("softmax.npy", powers / powers.sum(axis=1, keepdims=True))
    assert run(*select("softmax.npy", *shared, clusters="labels.npy")).code == 0
    assert by_logits == hr.Batch.load("batch.parquet").rows.tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_batch_in_any_format_is_what_is_labeled_next(files: Path, run: Run, suffix: str) -> None:
    command = ["select", "predictions.parquet", "--strategy", "margin"]
    assert run(*command, "-k", 150, "-o", f"one{suffix}").code == 0
    assert run(*command, "-k", 250, "-o", f"two{suffix}", "--labeled", f"one{suffix}").code == 0
    rows = [*hr.Batch.load(f"one{suffix}"), *hr.Batch.load(f"two{suffix}")]
    assert sorted(rows) == list(range(N))
    one_line(run(*command, "-k", 1, "-o", f"two{suffix}"), 1, f"two{suffix} exists", "--force")


def test_standard_output_carries_the_data(files: Path, run: Run) -> None:
    answer = run(*select("predictions.parquet", "-o", "-", k=3))
    expected = hr.select("cluster-margin", 3, predictions="predictions.parquet", clusters="clusters.parquet")
    lines = answer.out.splitlines()
    assert lines[0] == "id,row,margin,cluster,pick"
    assert [line.split(",")[1] for line in lines[1:]] == [str(row) for row in expected]
    assert answer.error == "3 of 400 rows by cluster-margin (seed 0)\n"
    answer = run(*select("predictions.parquet", "-o", "-", "--json", k=3))
    assert [json.loads(line)["row"] for line in answer.out.splitlines()] == list(expected)
    assert json.loads(answer.error)["selected"] == 3


# hedgerow assign


def test_assign_new_points(files: Path, run: Run) -> None:
    assert run("cluster", "pool.parquet", "-o", "made.parquet", "--average-size", 4, "--centroids").code == 0
    new = np.vstack([np.load("pool.npy")[:5], -np.load("pool.npy")[:5]])
    pq.write_table(pa.table({"id": [f"new-{row}" for row in range(10)], "embedding": list(new)}), "new.parquet")
    answer = run("assign", "made.parquet", "new.parquet", "-o", "out.csv", "--json")
    expected = hr.Clusters.load("made.parquet").assign(new)
    joined = int((expected < hr.Clusters.load("made.parquet").n_clusters).sum())
    assert json.loads(answer.out)["joined"] == joined
    lines = Path("out.csv").read_text().splitlines()
    assert lines[0] == "id,row,cluster,distance,joined"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        [f"new-{row}", str(row), str(label)] for row, label in enumerate(expected)
    ]
    shown = run("assign", "made.parquet", "new.parquet", "-o", "-")
    assert shown.out == Path("out.csv").read_text()
    assert shown.error.startswith(f"{joined} of 10 points in ")
    one_line(run("assign", "made.parquet", "new.parquet", "-o", "out.csv"), 1, "out.csv exists", "--force")
    one_line(run("assign", "made.parquet", "predictions.npy", "-o", "a.csv"), 1, "4 columns", "made from 8")
    one_line(run("assign", "clusters.parquet", "new.parquet", "-o", "a.csv"), 1, "was not written by")
    one_line(run("assign", "made.parquet", "missing.npy", "-o", "a.csv"), 1, "missing.npy does not exist")
    one_line(run("assign", "made.parquet"), 2, "NEW", "hedgerow assign --help")


def write_bad_files() -> None:
    chances = np.load("predictions.npy")
    pq.write_table(pa.table({"id": IDS[::-1], "probabilities": list(chances)}), "turned.parquet")
    pq.write_table(pa.table({"id": ["x", *IDS[1:]], "probabilities": list(chances)}), "other.parquet")
    pq.write_table(pa.table({"id": [*IDS[:-1], IDS[1]], "probabilities": list(chances)}), "twice.parquet")
    pq.write_table(pa.table({"id": np.arange(N), "probabilities": list(chances)}), "numbered.parquet")
    pq.write_table(pa.table({"id": IDS[1:], "cluster": np.arange(N - 1)}), "few.parquet")
    pq.write_table(pa.table({"id": IDS, "loss": np.ones(N), "note": IDS}), "loss.parquet")
    pq.write_table(pa.table({"id": [IDS[0], "x", "y"]}), "strangers.parquet")
    np.save("short.npy", chances[:-1])
    chances[9, 0] = np.nan
    np.save("nan.npy", chances)
    np.save("unnormalized.npy", np.load("predictions.npy") * 2)
    Path("words.txt").write_text("1\ntwo\n")


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["missing.parquet"], 1, ["missing.parquet does not exist"]),
        (["predictions.parquet", "--column", "p"], 1, ["no column 'p': it has id, probabilities"]),
        (["loss.parquet"], 1, ["margins or probabilities: name one of id, loss, note"]),
        (["predictions.npy", "--strategy", "cluster-margins"], 1, ["did you mean 'cluster-margin'?"]),
        (["predictions.npy", "--strategy", "coreset"], 1, ["'coreset' needs embeddings", "--embeddings FILE"]),
        (["predictions.npy", "--strategy", "margin", "--partitions", 2], 1, ["'margin' has no option 'partitions'"]),
        (["predictions.npy", "--strategy", "margin", "--power", 2], 1, ["'margin' has no option 'power': it has none"]),
        (["predictions.npy", "--power", -1], 1, ["power must be at least 0"]),
        (["predictions.npy", "--margin-factor", 0.5], 1, ["margin_factor must be at least 1"]),
        (["predictions.npy", "--seed", -1], 1, ["seed must be at least 0"]),
        (["turned.parquet", "--clusters", "labels.npy", "--embeddings", "pool.parquet"], 1, ["labels.npy has no ids"]),
        (
            ["other.parquet"],
            1,
            ["1 of 400 ids are not in the pool (clusters.parquet), the first is x", "--ignore-unknown"],
        ),
        (["twice.parquet"], 1, ["'image-001' more than once"]),
        (["numbered.parquet"], 1, ["clusters.parquet holds strings", "numbered.parquet holds whole numbers"]),
        (["predictions.parquet", "--clusters", "few.parquet"], 1, ["1 of 400 ids are not in the pool (few.parquet)"]),
        (["predictions.npy", "--id-column", "x"], 1, ["clusters.parquet has no column 'x'"]),
        (["predictions.npy", "--set", "power"], 1, ["'power' is not an option of the form key=value"]),
        (["predictions.npy", "--set", "power=x"], 1, ["power must be a number or none, got 'x'"]),
        (["predictions.npy", "--set", "colour=1"], 1, ["has no option 'colour': it has margin_factor, power"]),
        (["predictions.npy", "--set", "power=1", "--power", 1], 1, ["--power and --set power=... are the same option"]),
        (["predictions.npy", "--set", "power=1", "--set", "power=2"], 1, ["'power' is given twice"]),
        (["short.npy"], 1, ["short.npy has 399", "clusters.parquet has 400"]),
        (["nan.npy"], 1, ["row 9"]),
        (["unnormalized.npy"], 1, ["row 0", "sums to 2"]),
        (["predictions.npy", "--clusters", "predictions.npy"], 1, ["one dimension"]),
        (["predictions.parquet", "--labeled", "strangers.parquet"], 1, ["2 of 3 ids are not in the pool", "is x"]),
        (["predictions.npy", "--clusters", "labels.npy", "--labeled", "words.txt"], 1, ["line 2", "'two'"]),
        (["predictions.npy", "-k", -3], 1, ["k must be at least 0"]),
        (["predictions.npy", "-k", 401], 1, ["401", "400"]),
        (["predictions.npy", "-k", "many"], 2, ["-k", "hedgerow select --help"]),
        (["predictions.npy", "-o", "no/batch.parquet"], 1, ["does not exist"]),
    ],
)
def test_select_refuses_in_one_line_and_writes_nothing(
    files: Path, run: Run, arguments: list[Any], code: int, parts: list[str]
) -> None:
    write_bad_files()
    before = sorted(files.iterdir())
    one_line(run(*select(*arguments)), code, *parts)
    assert sorted(files.iterdir()) == before


def test_cluster_margin_needs_clusters(files: Path, run: Run) -> None:
    one_line(run(*select("predictions.npy", clusters=None)), 1, "'cluster-margin' needs clusters", "--clusters FILE")


def test_an_output_is_no_input_and_is_called_parquet(files: Path, run: Run) -> None:
    before = (files / "pool.parquet").read_bytes()
    one_line(run("cluster", "pool.parquet", "-o", "pool.parquet", "--force"), 1, "pool.parquet is an input")
    one_line(run("cluster", "pool.npy", "-o", "pool.npy", "--force"), 1, "ends in .parquet")
    assert (files / "pool.parquet").read_bytes() == before
    before = (files / "clusters.parquet").read_bytes()
    answer = run(
        "select", "-k", 5, "-o", "clusters.parquet", "--clusters", "clusters.parquet", "margins.npy", "--force"
    )
    one_line(answer, 1, "clusters.parquet is an input")
    assert (files / "clusters.parquet").read_bytes() == before
    (files / "work").write_text("precious")
    one_line(run("cluster", "pool.npy", "-o", "out.parquet", "--workdir", "work"), 1, "work is not a folder")


@pytest.mark.parametrize("command", [["cluster", "pool.npy", "-o", "out.parquet"], select("predictions.npy")])
def test_an_output_that_exists_needs_force(files: Path, run: Run, command: list[Any]) -> None:
    out = files / command[command.index("-o") + 1]
    out.write_text("precious")
    one_line(run(*command), 1, f"{out.name} exists", "--force")
    assert out.read_text() == "precious"
    assert run(*command, "--force").code == 0
    assert pq.read_table(out).num_rows > 0


# The door itself


def test_version_and_help(files: Path, run: Run) -> None:
    assert run("--version").out == f"hedgerow {hr.__version__}\n"
    assert run().out == run("--help").out == run("-h").out
    one_line(run("clutser"), 2, "clutser", "cluster")
    one_line(run("--nonsense"), 2, "--nonsense")


def test_the_module_is_the_command(files: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "hedgerow", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hedgerow {hr.__version__}\n"


@pytest.mark.parametrize(
    ("words", "shown"), [("hedgerow sel", "select"), ("hedgerow select --strategy least", "least-confidence")]
)
def test_completion(words: str, shown: str) -> None:
    asked = {"_HEDGEROW_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(start_command(), capture_output=True, text=True, env={**os.environ, **asked}, check=True)
    assert done.stdout.split() == [shown]


def test_the_names_for_completion_are_those_of_the_strategies() -> None:
    assert set(STRATEGY_NAMES) == set(hr.STRATEGIES)
    assert set(PAIR_STRATEGY_NAMES) == set(hr.PAIR_STRATEGIES) - set(hr.STRATEGIES)


def test_a_warm_command_imports_no_more_than_it_needs(files: Path) -> None:
    """Compiled kernels are loaded without the parts of numba that only a compiler needs."""
    heavy = ["scipy.linalg", "numba.np.arraymath", "rich", "matplotlib", "sklearn", "pandas", "pyarrow.dataset"]
    script = (
        "import sys\nfrom hedgerow.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(sorted({{*{heavy}, 'threadpoolctl'}} & set(sys.modules)))"
    )
    command = [
        str(word)
        for word in select(
            "predictions.npy",
            "--force",
        )
    ]
    for _ in range(2):  # the first may have to compile
        done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom hedgerow.cli import main\nsys.argv = ['hedgerow', 'select', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'numba', 'pyarrow', 'scipy', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_warning_is_one_line(files: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    check = store.check_target

    def warn(path: Path, *, force: bool) -> Path:
        warnings.warn(hr.HedgerowWarning("slower, because\nof this"), stacklevel=1)
        return check(path, force=force)

    monkeypatch.setattr("hedgerow.store.check_target", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        answer = run("cluster", "pool.npy", "-o", "out.parquet")
    assert answer.code == 0
    assert answer.error.startswith("hedgerow: warning: slower, because of this\n")


def test_demo(files: Path, run: Run) -> None:
    answer = run("demo", "--quick", "--seeds", 1, "--out", "report.html", "--json")
    assert answer.code == 0, answer.error
    assert json.loads(answer.out)["report"].endswith("report.html")
    assert Path("report.html").read_text().lstrip().lower().startswith("<!doctype html>")
    answer = run("demo", "--quick", "--seeds", 1, "--out", "report.html")
    table, _, path = answer.out.partition("report: ")
    assert path.endswith("report.html\n")
    assert max(map(len, table.splitlines())) <= 80  # in a pipe, and nothing is cut
    names = ("random", "hedge", "cluster-", "margin,", "factor 10", "factor 3", "100 labels", "batch 1")
    for name in ("strategy", *names):
        assert name in table
    one_line(run("demo", "--seeds", 0), 1, "seeds must be at least 1")


# Terminals, pipes, interrupts


def start(arguments: list[Any], *, stall: bool = False, limit: int | None = None, **options: Any) -> Any:
    """A real process without progress lines.

    stall: it says "ready" and waits when the file is written but not yet in its place.
    """
    lines = ["import signal, sys, time, resource", "import hedgerow.store.files, hedgerow.cli", QUIET]
    # a shell that starts tests in the background has them ignore interrupts, and so their children
    lines.append("signal.signal(signal.SIGINT, signal.default_int_handler)")
    if stall:
        lines.append("def stop(path): print('ready', flush=True); time.sleep(60)")
        lines.append("hedgerow.store.files.sync = stop")
    if limit is not None:
        lines.append(f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))")
    lines.append(f"sys.argv = {['hedgerow', *map(str, arguments)]!r}")
    lines.append("hedgerow.cli.main()")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([sys.executable, "-c", "\n".join(lines)], **pipes)


COMMANDS = [["cluster", "pool.parquet", "-o", "batch.parquet"], select("predictions.parquet")]


@pytest.mark.parametrize("command", COMMANDS, ids=["cluster", "select"])
@pytest.mark.parametrize("existing", [True, False])
def test_kill_leaves_the_old_file_or_none(files: Path, run: Run, command: list[Any], existing: bool) -> None:
    target = files / "batch.parquet"
    if existing:
        target.write_text("old")
    before = set(files.iterdir())
    with start([*command, "--force"], stall=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert target.exists() is existing
    assert not existing or target.read_text() == "old"
    left = set(files.iterdir()) - before
    assert all(path.name.startswith(".") and ".tmp" in path.name for path in left)
    assert run(*command, "--force").code == 0
    assert pq.read_table(target).num_rows > 0
    assert set(files.iterdir()) == before | {target}  # and what the killed one left is swept


def test_an_interrupt_is_one_line_and_leaves_nothing(files: Path) -> None:
    before = sorted(files.iterdir())
    with start(COMMANDS[1], stall=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    one_line(Answer(process.returncode, out, error), 130, "interrupted")
    assert sorted(files.iterdir()) == before


def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(files: Path) -> None:
    before = sorted(files.iterdir())
    with start(COMMANDS[0], limit=1000, env={**os.environ, "NUMBA_CACHE_DIR": os.devnull}) as process:
        out, error = process.communicate()
    one_line(Answer(process.returncode, out, error), 1, "writing batch.parquet failed")
    assert sorted(files.iterdir()) == before


def test_a_pipe_sees_no_progress(files: Path) -> None:
    with start(COMMANDS[1]) as process:
        out, error = process.communicate()
    assert process.returncode == 0
    assert error == ""
    assert out.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=["cluster", "select"])
def test_a_terminal_sees_progress_and_the_output_stays_clean(files: Path, command: list[Any]) -> None:
    ours, theirs = pty.openpty()
    with start([*command, "--json"], stderr=theirs, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while part := read_terminal(ours):
            shown += part
        out, _ = process.communicate()
    os.close(ours)
    assert process.returncode == 0
    assert b"%" in shown
    assert json.loads(out)["out"] == "batch.parquet"


def start_command() -> list[str]:
    return [sys.executable, "-m", "hedgerow"]


ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


def test_an_ascii_terminal_shows_escapes_and_files_keep_their_characters(files: Path) -> None:
    table = pq.read_table("predictions.parquet")
    pq.write_table(table.set_column(0, "id", pa.array([f"ü-{row}" for row in range(N)])), "odd.parquet")

    def call(*words: str) -> subprocess.CompletedProcess[bytes]:
        command = [*start_command(), "select", "odd.parquet", "-k", "2", "--strategy", "margin", *words]
        return subprocess.run(command, capture_output=True, env={**os.environ, **ASCII}, check=False)

    done = call("-o", "ünï.csv")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"-> " in done.stdout
    done.stdout.decode("ascii")
    assert "ü-" in Path("ünï.csv").read_text(encoding="utf-8")
    assert "ü-" in call("-o", "-").stdout.decode("utf-8")
    done = call("-o", "x.csv", "--labeled", "nö.csv")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    done.stderr.decode("ascii")


def test_an_ascii_terminal_sees_a_bar(files: Path) -> None:
    ours, theirs = pty.openpty()
    with start(COMMANDS[1], stderr=theirs, env={**os.environ, **ASCII, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while part := read_terminal(ours):
            shown += part
        process.communicate()
    os.close(ours)
    assert process.returncode == 0, shown
    assert b"%" in shown
    shown.decode("ascii")


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["experiment", "list"], [*COMMANDS[1], "-o", "-"]])
def test_a_full_disk_behind_standard_output_is_one_line(files: Path, command: list[Any]) -> None:
    with Path("/dev/full").open("w") as full, start(command, stdout=full) as process:
        error = process.communicate()[1]
    assert process.returncode == 1
    assert error.splitlines()[-1] == "hedgerow: No space left on device (standard output)"
    assert "Traceback" not in error


@pytest.mark.parametrize("command", [["select", "--help"], [*COMMANDS[1], "-k", N, "-o", "-"]])
def test_a_closed_pipe_is_no_traceback(files: Path, command: list[Any]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(command, stdout=writing) as process:
        os.close(writing)
        error = process.communicate()[1]
    assert process.returncode == 1
    assert "Traceback" not in error
    assert "Error" not in error


@pytest.mark.parametrize("show", [print_rows, print_transposed])
def test_names_in_tables_are_shown_as_they_are(show: Any, capsys: pytest.CaptureFixture[str]) -> None:
    show([{"strategy": "a [b]", "area": "[/x]"}, {"strategy": ":smile:", "area": "1"}])
    out = capsys.readouterr().out
    assert all(text in out for text in ("a [b]", "[/x]", ":smile:"))


def test_an_example_without_its_argument_says_how_it_is_used() -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "own_data_and_model.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "usage: python own_data_and_model.py FOLDER\n"


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side has closed
        return b""
