"""Progress: a bar, lines, the caller's own function, or nothing."""

import io
import sys

import numpy as np
import pytest

import hedgerow as hr
from hedgerow import kernels, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set: clock[0] is the time."""
    time = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time[0])
    return time


def report_to(lines, clock, *reports):
    for seconds, phase, share in reports:
        clock[0] = seconds
        lines(phase, share)


def test_quick_work_prints_nothing(capsys):
    with progress.watch(True) as report:
        report("reading", 0.0)
        report("done", 1.0)
    assert capsys.readouterr() == ("", "")


def test_lines_for_each_new_phase_and_then_one_a_minute(capsys):
    clock = [0.0]
    lines = progress.Lines(lambda: clock[0])
    report_to(
        lines.report, clock,
        (1, "reading", 0), (6, "round 1", 0.1), (7, "round 2", 0.15), (8, "merging", 0.2), (30, "round 3", 0.3),
        (67, "round 4", 0.4), (69, "round 5", 0.5), (100, "round 6", 0.6), (4000, "merging", 0.99),
    )  # fmt: skip
    assert capsys.readouterr().err.splitlines() == [
        "hedgerow: round 1, 10% after 6 s",
        "hedgerow: merging, 20% after 8 s",
        "hedgerow: round 5, 50% after 1 min 9 s",
        "hedgerow: merging, 99% after 1 h 6 min",
    ]


def test_compiling_is_a_phase(capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with progress.watch(True):
        for listener in list(kernels.listeners):
            listener()
    assert "compiling, once" in capsys.readouterr().err
    assert kernels.listeners == []


def test_a_terminal_sees_a_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.watch(True) as report:
        report("reading", 0.5)
        report("merging", 0.1)
    assert "%" in terminal.getvalue()


@pytest.mark.parametrize("given", [None, False])
def test_nothing_is_reported(given, capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with progress.watch(given) as report:
        report("reading", 0.5)
    assert capsys.readouterr() == ("", "")


def test_progress_of_public_functions(capsys, monkeypatch):
    seen = []
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    hr.select("coreset", 5, embeddings=points, progress=lambda phase, share: seen.append(phase))
    assert [phase for phase in seen if phase != "compiling, once"] == ["reading", "scoring", "selecting"]
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    hr.select("coreset", 5, embeddings=points, progress=True)
    assert "hedgerow: selecting" in capsys.readouterr().err
    for progress_ in (3, "bar"):
        with pytest.raises(hr.InputError, match="progress must be True, False or a callable"):
            hr.select("coreset", 5, embeddings=points, progress=progress_)


@pytest.mark.parametrize("function", [hr.cluster, hr.linkage])
def test_clustering_shows_its_progress(function, capsys, monkeypatch):
    points = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    function(points, progress=True)
    assert "hedgerow: " in capsys.readouterr().err
    function(points, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(hr.InputError, match="progress must be"):
        function(points, progress=3)
