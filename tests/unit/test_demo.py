"""The demo from end to end in its quick form, and its pool of digits."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from hedgerow.errors import InputError, MissingExtraError, StoreError
from hedgerow.experiments.data.datasets import CLASSES, FEWEST_COPIES, MOST_COPIES, TEST_COPIES, load_redundant_digits
from hedgerow.experiments.demo import FULL, QUICK, STRATEGIES, DemoResult, run_demo
from page import check_self_contained

SEEDS = 2


@pytest.fixture(scope="module")
def reports() -> list[tuple[str, float]]:
    return []


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, reports: list[tuple[str, float]]) -> DemoResult:
    out = tmp_path_factory.mktemp("demo") / "report.html"
    return run_demo(out, seeds=SEEDS, quick=True, progress=lambda phase, done: reports.append((phase, done)))


def test_every_strategy_has_every_round_of_every_trial(result: DemoResult) -> None:
    plan = QUICK.plan
    wanted = [(t, s, r) for t in range(SEEDS) for s in STRATEGIES for r in range(plan.rounds + 1)]
    assert [(done.trial, done.strategy, done.round) for done in result.rounds] == wanted
    assert all(done.labeled == plan.seed_size + done.round * plan.batch_size for done in result.rounds)
    assert all(size >= plan.clustering.average_size for size in (trial.average_size for trial in result.trials))


def test_the_table_says_what_the_rounds_say(result: DemoResult) -> None:
    assert [row["strategy"] for row in result.table] == list(STRATEGIES)
    for row in result.table:
        for number in range(1, QUICK.plan.rounds + 1):
            several = [r for r in result.rounds if r.strategy == row["strategy"] and r.round == number]
            values = [done.values["accuracy"] for done in several]
            error = np.std(values, ddof=1) / np.sqrt(SEEDS)
            assert row[f"{several[0].labeled:,} labels"] == f"{np.mean(values):.3f} ± {error:.3f}"


def test_differences_are_from_the_same_trials_margin(result: DemoResult) -> None:
    accuracy = {(done.strategy, done.trial, done.round): done.values["accuracy"] for done in result.rounds}
    others = [name for name in STRATEGIES if name != "margin"]
    assert [row["minus margin"] for row in result.differences] == others
    labels = f"{QUICK.plan.seed_size + QUICK.plan.batch_size:,} labels"
    for name, row in zip(others, result.differences, strict=True):
        gains = [accuracy[name, trial, 1] - accuracy["margin", trial, 1] for trial in range(SEEDS)]
        error = np.std(gains, ddof=1) / np.sqrt(SEEDS)
        assert row[labels] == f"{np.mean(gains):+.3f} ± {error:.3f}"


def test_originals_are_those_of_the_first_batches(result: DemoResult) -> None:
    digits = load_redundant_digits(QUICK.originals)
    for name, counts in result.originals.items():
        batches = [done.picked for done in result.rounds if done.strategy == name and done.round == 1]
        assert counts == tuple(len(set(digits.origins[rows].tolist())) for rows in batches)


def test_the_report_is_one_self_contained_page_with_the_tables_numbers(result: DemoResult) -> None:
    text = result.report.read_text(encoding="utf-8")
    page = check_self_contained(text)
    assert page.tags.count("svg") == 1
    assert page.tags.count("img") == len(STRATEGIES)
    assert page.tags.count("h2") == 5
    for row in [*result.table, *result.differences]:
        for cell in row.values():
            assert cell in text


def test_the_results_are_plain_and_complete(result: DemoResult) -> None:
    facts = json.loads(json.dumps(result.to_json()))
    assert len(facts["rounds"]) == len(result.rounds)
    assert [row["accuracy"] for row in facts["rounds"]] == [done.values["accuracy"] for done in result.rounds]
    assert [point["mean"] for point in facts["points"]] == [point.mean for point in result.points]
    assert facts["settings"]["trials"] == SEEDS
    assert facts["report"] == str(result.report)


def test_progress_goes_from_nothing_to_all(result: DemoResult, reports: list[tuple[str, float]]) -> None:
    done = [part for _, part in reports]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == 1
    assert reports[-1][0] == "done"
    assert any("trial 2 of 2" in phase for phase, _ in reports)


def test_one_seed_one_answer_and_one_trial_has_no_errors(result: DemoResult, tmp_path: Path) -> None:
    alone = run_demo(tmp_path / "report.html", seeds=1, quick=True)
    assert alone.trials[0].rounds == result.trials[0].rounds
    assert not any("±" in cell for row in alone.table for cell in row.values())
    assert "no standard errors" in alone.report.read_text(encoding="utf-8")


def test_no_original_is_in_the_pool_and_in_the_test_set() -> None:
    digits = load_redundant_digits(QUICK.originals)
    assert not set(digits.origins.tolist()) & set(digits.test_origins.tolist())
    assert len(set(digits.origins.tolist())) == QUICK.originals
    assert set(np.bincount(digits.test_origins)[np.unique(digits.test_origins)]) == {TEST_COPIES}


def test_the_full_pool_is_tens_of_thousands_with_a_heavy_tail() -> None:
    digits = load_redundant_digits(FULL.originals)
    copies = np.sort(np.unique(digits.origins, return_counts=True)[1])
    assert len(digits.images) > 20_000
    assert copies[0] == FEWEST_COPIES
    assert copies[-1] == MOST_COPIES
    assert copies[-len(copies) // 10 :].sum() > len(digits.images) / 2  # a tenth of the originals, half of the pool
    assert digits.images.shape[1] == 64
    assert digits.images.min() >= 0
    assert digits.images.max() <= 1
    assert set(digits.labels.tolist()) == set(range(CLASSES))


def test_a_copy_is_nearest_to_another_copy_of_its_original_but_not_equal() -> None:
    digits = load_redundant_digits(QUICK.originals)
    distances = cdist(digits.images[:500], digits.images)
    np.fill_diagonal(distances, np.inf)
    relatives = digits.origins[distances.argmin(axis=1)] == digits.origins[:500]
    assert relatives.mean() > 0.8  # by chance it would be 0.05
    assert distances.min() > 0


def test_the_pool_is_the_same_every_time() -> None:
    one, two = load_redundant_digits(QUICK.originals), load_redundant_digits(QUICK.originals)
    np.testing.assert_array_equal(one.images, two.images)
    np.testing.assert_array_equal(one.test_images, two.test_images)


@pytest.mark.parametrize("seeds", [0, 2.5, "3"])
def test_refuses_seeds_that_are_no_number_of_trials(seeds: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seeds must be"):
        run_demo(tmp_path / "report.html", seeds=seeds, quick=True)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("out", "message"), [(".", "not a file"), ("absent/report.html", "does not exist")])
def test_refuses_an_out_that_cannot_be_written_before_the_work(out: str, message: str, tmp_path: Path) -> None:
    phases: list[str] = []
    with pytest.raises(StoreError, match=message):
        run_demo(tmp_path / out, quick=True, progress=lambda phase, done: phases.append(phase))
    assert phases == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("originals", [0, 1797])
def test_refuses_a_pool_without_originals_or_without_a_test_set(originals: int) -> None:
    with pytest.raises(InputError, match="originals must"):
        load_redundant_digits(originals)


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)  # Python then raises ImportError
    with pytest.raises(MissingExtraError, match=r"pip install .\.\[sklearn\]"):
        run_demo(tmp_path / "report.html", quick=True)
    assert not (tmp_path / "report.html").exists()
