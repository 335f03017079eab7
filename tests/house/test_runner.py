"""What the benchmarks share, and the page made of what it writes: a gauge must be right before it measures."""

import json

import numpy as np
import pytest

import make_benchmarks
import marks
import runner

MEBIBYTE = 2**20


def test_every_script_has_quick_and_out(tmp_path):
    options = runner.arguments("A claim.", ["--quick", "--out", str(tmp_path / "result.json")])
    assert options.quick
    assert options.out == tmp_path / "result.json"
    assert not runner.arguments("A claim.", []).quick


def test_a_quick_run_keeps_nothing_without_a_file_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    assert runner.save("claim", 0, {}, {"a": 1}, runner.arguments("", ["--quick"])) is None
    assert list(tmp_path.iterdir()) == []
    assert json.loads(capsys.readouterr().out)["results"] == {"a": 1}


def test_results_are_written_whole_with_the_machine_they_come_from(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    path = runner.save("claim", 3, {"n": np.int64(4)}, {"rows": np.arange(2)}, runner.arguments("", []))
    assert list((tmp_path / "results").iterdir()) == [path] == [tmp_path / "results" / "claim.json"]
    record = json.loads(path.read_text())
    assert record["seed"] == 3
    assert record["settings"] == {"n": 4}
    assert record["results"] == {"rows": [0, 1]}
    assert record["machine"]["numpy"] == np.__version__
    assert record["machine"]["cores"] >= 1
    assert capsys.readouterr().out == path.read_text()


def test_values_without_a_json_form_are_refused():
    with pytest.raises(TypeError, match="no form in JSON"):
        runner.plain(object())


def test_measure_repeats_the_call():
    calls = []
    times = runner.measure(lambda: calls.append(1), repeats=4)
    assert len(calls) == len(times["all_cpu_seconds"]) == len(times["all_wall_seconds"]) == 4
    assert times["wall_seconds"] == min(times["all_wall_seconds"])


def test_the_memory_of_a_fresh_process_is_its_own():
    ballast = np.ones(200 * MEBIBYTE // 8)  # resident here, and no part of what the new process uses
    report = runner.in_fresh_process(bytes, 64 * MEBIBYTE)
    assert ballast.nbytes > report["baseline_rss_bytes"]
    grown = report["peak_rss_bytes"] - report["baseline_rss_bytes"]
    assert grown < 200 * MEBIBYTE


def test_peak_memory_sees_what_was_freed():
    report = runner.peak_memory(lambda: np.ones(64 * MEBIBYTE // 8).sum())
    assert report["result"] == 64 * MEBIBYTE / 8
    assert 60 * MEBIBYTE < report["peak_rss_bytes"] - report["baseline_rss_bytes"] < 80 * MEBIBYTE


def test_a_process_that_fails_is_reported(capfd):
    with pytest.raises(RuntimeError, match="exit code 1"):
        runner.in_fresh_process(int, "no number")
    assert "ValueError" in capfd.readouterr().err


@pytest.fixture
def results(tmp_path, monkeypatch):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    record = {
        "name": "claim",
        "results": {"first": {"wall_seconds": 0.01234}, "peaks_bytes": [2**30, 2**29], "one, or two": 2.5},
    }
    (folder / "claim.json").write_text(json.dumps(record))
    monkeypatch.setattr(marks, "ROOT", tmp_path)
    marks.read.cache_clear()
    yield
    marks.read.cache_clear()


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("stale", "fresh"),
    [
        ("9.99 s <!-- claim:results.first.wall_seconds -->", "0.01 s <!-- claim:results.first.wall_seconds -->"),
        ("7 ms<!-- claim:results.first.wall_seconds -->", "12 ms<!-- claim:results.first.wall_seconds -->"),
        (
            "7.00 GiB at most <!-- claim:results.peaks_bytes.1 -->",
            "0.50 GiB at most <!-- claim:results.peaks_bytes.1 -->",
        ),
        ("7.0 times <!-- claim:results.one, or two -->", "2.5 times <!-- claim:results.one, or two -->"),
        (
            "| 100 | 9 s <!-- claim:results.first.wall_seconds --> |",
            "| 100 | 0 s <!-- claim:results.first.wall_seconds --> |",
        ),
        ("12 rows <!-- a remark -->", "12 rows <!-- a remark -->"),
        ("```text\n9 s <!-- none:such -->\n```", "```text\n9 s <!-- none:such -->\n```"),
    ],
)
def test_marked_numbers_are_filled_in(stale, fresh):
    assert make_benchmarks.fill(stale) == fresh
    assert make_benchmarks.fill(fresh) == fresh


@pytest.mark.usefixtures("results")
def test_a_mark_that_names_nothing_is_told():
    with pytest.raises(KeyError, match="second"):
        make_benchmarks.fill("1 s <!-- claim:results.second -->")


@pytest.mark.parametrize(
    ("place", "value", "shown"),
    [
        ("wall_seconds", 0.01234, "12.3 ms"),
        ("cpu", 12.34, "12.3 s"),
        ("peak_rss_bytes", 2**31, "2.00 GiB"),
        ("n", 10_000_000, "10,000,000"),
        ("ratio", 31.4159, "31.4"),
        ("exact", True, "True"),
        ("sizes", [1000, 2], "1,000, 2"),
    ],
)
def test_values_are_shown_with_their_unit(place, value, shown):
    assert make_benchmarks.shown(place, value) == shown


def test_records_become_a_table():
    ours = {"cpu_seconds": 1.0, "all_cpu_seconds": [1.0]}
    text = make_benchmarks.tables({"ours": ours, "numpy": {"cpu_seconds": 2.0}})
    assert text == "|  | cpu |\n| --- | --- |\n| ours | 1 s |\n| numpy | 2 s |\n"


def test_a_table_wider_than_a_page_is_turned():
    text = make_benchmarks.tables({"ours": dict.fromkeys("abcdefghijklm", 1), "numpy": {"a": 2}})
    assert text.startswith("|  | ours | numpy |\n| --- | --- | --- |\n| a | 1 | 2 |\n| b | 1 |  |\n")
