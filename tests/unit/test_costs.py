"""What a run on an engine cost: the log summed up, and the page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engine_tasks as tasks
import hedgerow as hr
from hedgerow.engines import Engine
from hedgerow.engines.logs import Log, read_tallies
from hedgerow.errors import EngineError, InputError, StoreError
from hedgerow.report.costs import format_bytes, format_seconds, report_costs
from page import check_self_contained
from shell import Run


def write_log(folder: Path, entries: list[dict[str, Any]]) -> None:
    (folder / "engine.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def make_entry(job: int, second: int, **more: Any) -> dict[str, Any]:
    usage = {"seconds": 4.0, "cpu": 3.0, "read": 1000, "written": 10, "from_disk": 0, "to_disk": 0, "peak": 5 << 20}
    where = {"task": "fill", "job": job, "tries": 1, "host": f"host{job % 2}", "process": 7}
    return {"at": f"2026-01-01T00:00:{second:02}.000+00:00", **where, **usage, **more}


BEGIN = {"at": "2026-01-01T00:00:00.000+00:00", "engine": "dask:2", "workers": 2, "task": "fill", "jobs": 4}


def test_a_log_is_summed_up_by_map(tmp_path: Path) -> None:
    killed = {"at": "2026-01-01T00:00:31.000+00:00", "task": "fill", "job": 3, "tries": 6, "error": "killed"}
    later = {**BEGIN, "at": "2026-01-01T00:01:00.000+00:00", "engine": "serial"}
    write_log(tmp_path, [BEGIN, make_entry(1, 4), make_entry(0, 9, tries=3, peak=None), killed, later])
    first, second = read_tallies(tmp_path)
    assert (first.seconds, first.tried_again, len(first.done), len(first.failed)) == (31.0, 7, 2, 1)
    assert (first.total("cpu"), first.total("read"), first.most("peak")) == (6.0, 2000, 5 << 20)
    assert (second.seconds, second.tried_again, second.most("peak")) == (0.0, 0, 0)


def test_the_page_is_self_contained_and_says_what_failed(tmp_path: Path) -> None:
    failed = make_entry(3, 30, tries=4, error="ValueError: <b>no</b>", trace="Traceback ...")
    write_log(tmp_path, [BEGIN, make_entry(0, 5), make_entry(1, 9), failed])
    text = report_costs(tmp_path).read_text()
    check_self_contained(text)
    assert "2 tasks in 30.0 s, with 9.0 s of CPU time. Tasks were repeated 3 times, and 1 failed." in text
    assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in text
    assert text.count("<rect") == 4  # two workers, each computing and waiting
    assert "2 of 4" in text


def test_more_workers_than_fit_are_counted(tmp_path: Path) -> None:
    write_log(tmp_path, [BEGIN, *(make_entry(job, 9, host=f"host{job}") for job in range(45))])
    text = report_costs(tmp_path).read_text()
    assert "5 more workers are in the log." in text
    assert text.count('<th scope="row">host') == 40


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="give the folder of a run on an engine"):
        report_costs(tmp_path)
    Log(tmp_path).write({"note": "nothing"})
    with pytest.raises(InputError, match="nothing was run there on an engine"):
        report_costs(tmp_path)


def test_sizes_and_times_are_readable() -> None:
    sizes = [None, 0, 999, 1000, 12_345, 3_400_000_000, 10**18]
    assert [format_bytes(size) for size in sizes] == ["", "0 B", "999 B", "1.0 kB", "12 kB", "3.4 GB", "1000 PB"]
    assert [format_seconds(seconds) for seconds in (0.04, 59, 90, 7200)] == ["0.0 s", "59.0 s", "1.5 min", "2.0 h"]


def test_the_page_of_a_run_in_a_browser(browser: Any, engines: Callable[[str], Engine], tmp_path: Path) -> None:
    jobs = [{"path": str(tmp_path / f"{number}.npy"), "seed": number, "size": 2000} for number in range(12)]
    engines("processes:2").map(tasks.write_numbers, jobs, workdir=tmp_path)
    with pytest.raises(EngineError):
        engines("processes:2").map(tasks.divide, [1, 0], workdir=tmp_path)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    try:
        page.goto(report_costs(tmp_path).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("h2").all_inner_texts() == ["Maps", "Failures", "Workers", "Longest tasks"]
        assert "ZeroDivisionError" in page.locator("main").inner_text()
    finally:
        page.close()


# Commands.


def test_the_report_command(run: Run, tmp_path: Path) -> None:
    write_log(tmp_path, [BEGIN, make_entry(0, 5, tries=2)])
    done = run("engine", "report", tmp_path)
    assert done.out == f"1 tasks, 3.0 s of CPU time, 1 tries repeated -> {tmp_path / 'engine.html'}\n"
    facts = json.loads(run("engine", "report", tmp_path, "--json").out)
    assert facts == {
        "tasks": 1,
        "failed": 0,
        "repeated": 1,
        "cpu_seconds": 3.0,
        "report": str(tmp_path / "engine.html"),
    }
    assert run("engine", "report", tmp_path / "no").code == 1


def test_the_check_command(run: Run, tmp_path: Path) -> None:
    done = run("engine", "check", "--engine", "processes:1", "--workdir", tmp_path)
    assert done.code == 0, done.error
    assert done.out.startswith("processes:1: 1 ready on ")
    assert f"{tmp_path} is shared" in done.out
    assert list(tmp_path.iterdir()) == []
    assert "cannot be written to: No such file" in run("engine", "check", "--workdir", tmp_path / "no").error
    facts = json.loads(run("engine", "check", "--json").out)
    assert (facts["engine"], facts["workers"]) == ("serial", 1)
    refused = run("engine", "check", "--engine", "dask://10.0.0.5:8786")
    assert refused.code == 1
    assert "--insecure" in refused.error


def test_margins_and_assigned_points_on_an_engine(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "p.npy", rng.dirichlet(np.ones(4), 50).astype(np.float32))
    np.save(tmp_path / "e.npy", rng.normal(size=(50, 4)).astype(np.float32))
    work = tmp_path / "work"
    done = run(
        "margins", tmp_path / "p.npy", "-o", tmp_path / "m.parquet", "--engine", "processes:1", "--workdir", work
    )
    assert done.code == 0, done.error
    assert (work / "engine.jsonl").exists()
    monkeypatch.setenv("HEDGEROW_ENGINE", "processes:1")
    facts = json.loads(run("margins", tmp_path / "p.npy", "-o", tmp_path / "m.jsonl", "--json").out)
    assert (facts["n"], facts["engine"]) == (50, "processes:1")
    monkeypatch.delenv("HEDGEROW_ENGINE")
    expected = hr.margins(tmp_path / "p.npy")
    rows = [json.loads(line)["margin"] for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert np.array(rows, np.float32).tobytes() == expected.tobytes()
    printed = run("margins", tmp_path / "p.npy", "--logits", "-o", "-").out.splitlines()
    assert (len(printed), printed[0]) == (51, "margin")
    assert (
        run("select", tmp_path / "m.parquet", "-k", 5, "--strategy", "margin", "-o", tmp_path / "batch.csv").code == 0
    )
    assert run("cluster", tmp_path / "e.npy", "-o", tmp_path / "c.parquet", "--centroids").code == 0
    texts = []
    for engine in ("serial", "processes:1"):
        out = tmp_path / f"{engine[:4]}.csv"
        done = run("assign", tmp_path / "c.parquet", tmp_path / "e.npy", "-o", out, "--engine", engine)
        assert done.code == 0, done.error
        texts.append(out.read_text())
    assert texts[0] == texts[1]
