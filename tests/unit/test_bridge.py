"""The samplers on real embeddings: batches, bootstrap heads, correlations worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import InputError
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.theory import bridge, run_study
from hedgerow.theory.bridge import BENCHES, CHOSEN, WHOLE, correlate, make_bridge, make_trainer, run_trial


def make_dataset(n=300, seed=0):
    """Three classes around the corners of a triangle."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=2 * n)
    points = (3 * np.eye(3)[labels] + rng.standard_normal((2 * n, 3))).astype(np.float32)
    return Dataset("triangle", 3, points[:n], labels[:n], points[n:], labels[n:])


def make_rows(*pairs):
    """One trial: (sampler, diameter, accuracy)."""
    return [
        {"dataset": "digits", "part": 0, "trial": 0, "sampler": name, "diameter": x, "spread": x, "accuracy": y}
        for name, x, y in pairs
    ]


def test_a_trial_measures_every_batch_and_follows_from_its_seed():
    bench = replace(BENCHES["digits"], labels=12, k=6)
    rows = run_trial(make_dataset(), bench, np.random.default_rng(0))
    assert [row["sampler"] for row in rows] == ["uniform"] * 3 + [*CHOSEN, WHOLE]
    assert all(0 <= row["spread"] <= row["diameter"] <= 1 for row in rows)
    assert all(row["accuracy"] > 0.6 for row in rows)
    assert len({row["before"] for row in rows}) == 1
    assert rows == run_trial(make_dataset(), bench, np.random.default_rng(0))


def test_heads_agree_where_classes_are_far_apart():
    held = make_dataset()
    apart = replace(held, features=20 * np.eye(3, dtype=np.float32)[held.labels])
    rows, rng = np.arange(40), np.random.default_rng(4)
    assert bridge.judge(apart, make_trainer(1.0, 3), rows, np.arange(50, 150), rng)["diameter"] == 0
    found = bridge.judge(held, make_trainer(1.0, 3), rows, np.arange(50, 150), rng)
    assert 0 < found["spread"] < found["diameter"] < 0.5


@pytest.mark.parametrize(("slope", "expected"), [(-1, -1.0), (2, 1.0)])
def test_the_correlation_is_within_trials(slope, expected):
    # Trials differ much in level: only the differences within them count.
    trials = [make_rows(*(("uniform", x, 5 * trial + slope * x) for x in (0.1, 0.2, 0.4))) for trial in range(4)]
    found = correlate(trials, "diameter")
    assert found["correlation"] == pytest.approx(expected)
    assert found["low"] == pytest.approx(expected)
    assert found["trials"] == 4


def test_the_summary_compares_with_the_mean_of_uniform_choices():
    rows = []
    for trial in range(3):
        some = make_rows(
            *[("uniform", 0.3, 0.7), ("uniform", 0.5, 0.7), ("uniform", 0.4, 0.73 - 0.01 * trial)],
            *[("cluster-margin", 0.2, 0.8), ("farthest-first", 0.4, 0.71), ("k-means++", 0.6, 0.6), (WHOLE, 0.1, 0.5)],
        )
        rows += [row | {"trial": trial} for row in some]
    summary = make_bridge().summarize(rows)
    ours = next(row for row in summary if row.get("sampler") == "cluster-margin")
    assert ours["ratio"] == pytest.approx(0.5)
    assert ours["gain"] == pytest.approx(100 * (0.8 - (0.7 + 0.7 + 0.72) / 3))
    ranks = [row for row in summary if row["of"] == "rank"]
    assert [row["rank"] for row in ranks] == [1, 2, 3, 4, 5, 6]
    assert ranks[0]["gain"] > 0 > ranks[5]["gain"]
    found = next(row for row in summary if row.get("among") == "samplers")
    assert found["correlation"] < -0.9
    assert make_bridge().draw(summary)["rank"].startswith("<svg")


def test_digits_are_measured_without_files_and_cifar_with_them(tmp_path):
    assert {cell.labels["dataset"] for cell in make_bridge().list_cells(False)} == {"digits", "redundant-digits"}
    with_data = make_bridge(tmp_path).list_cells(False)
    assert {cell.labels["dataset"] for cell in with_data} == set(BENCHES)
    assert str(tmp_path) not in str([cell.labels for cell in with_data])
    (quick,) = make_bridge(tmp_path).list_cells(True)
    assert quick in with_data
    with pytest.raises(InputError, match="--data"):
        bridge.load_cifar10(None, None)


def test_the_digits_of_the_bridge_have_no_copies():
    held = bridge.load_digits(None, None)
    assert (len(held.labels), len(held.test_labels)) == (1200, 597)
    assert len(np.unique(held.features, axis=0)) == 1200


def test_data_are_for_the_bridge_only(tmp_path):
    with pytest.raises(InputError, match="the study 'beta' reads no data"):
        run_study("beta", tmp_path / "out", data=tmp_path)
