"""Changes of a pool: as many rows, copies and mistakes as a recipe asks for, and a test set that stays as it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import InputError
from hedgerow.experiments import Dataset, MultiLabel
from hedgerow.experiments.data.changes import Changed, Changes, change_pairs, change_rows
from hedgerow.experiments.data.datasets import PlainDigits
from hedgerow.experiments.data.multilabel import Mulan
from hedgerow.tasks import Annotated

CLASSES = 4


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, 1000)
    return Dataset("made", CLASSES, rng.normal(size=(1000, 3)).astype(np.float32), labels, np.zeros((5, 3)), labels[:5])


def find_originals(changed: Dataset, dataset: Dataset) -> Any:
    """The row of the original pool that each row is nearest to, and its distance."""
    distances = np.linalg.norm(changed.features[:, None] - dataset.features[None], axis=2)
    return distances.argmin(axis=1), distances.min(axis=1)


def test_without_changes_the_pool_is_the_same_in_another_order(dataset: Dataset) -> None:
    same = change_rows(dataset, Changes())
    rows, distances = find_originals(same, dataset)
    assert sorted(rows) == list(range(1000))
    assert not distances.any()
    assert np.array_equal(same.labels, dataset.labels[rows])
    assert same.test_features is dataset.test_features


def test_a_pool_has_as_many_rows_as_it_is_asked_for(dataset: Dataset) -> None:
    fewer = change_rows(dataset, Changes(rows=200))
    assert len(fewer.labels) == len(np.unique(find_originals(fewer, dataset)[0])) == 200
    with pytest.raises(InputError, match="1,001 rows without copies, but the pool has 1,000"):
        change_rows(dataset, Changes(rows=1001))


def test_a_tail_sets_the_frequencies_of_classes(dataset: Dataset) -> None:
    counts = np.sort(np.bincount(change_rows(dataset, Changes(tail=27)).labels, minlength=CLASSES))[::-1]
    assert counts[0] / counts == pytest.approx([1, 3, 9, 27], rel=0.1)
    assert counts[0] > 200  # as many rows as there are
    limited = np.bincount(change_rows(dataset, Changes(rows=100, tail=27)).labels, minlength=CLASSES)
    assert abs(limited.sum() - 100) <= 2


def test_a_tail_leaves_out_classes_that_only_the_test_set_has(dataset: Dataset) -> None:
    further = replace(dataset, classes=CLASSES + 1, test_labels=np.full(5, CLASSES))
    for changes in (Changes(tail=27), Changes(rows=100, tail=27)):
        assert np.array_equal(change_rows(further, changes).labels, change_rows(dataset, changes).labels)


def test_a_pool_of_nothing_but_copies_is_refused(dataset: Dataset) -> None:
    for tail in (1, 3):
        with pytest.raises(InputError, match="leaves no row that is not a copy"):
            change_rows(dataset, Changes(rows=100, copies=0.999, tail=tail))


def test_copies_are_near_and_have_the_label_of_their_original(dataset: Dataset) -> None:
    changed = change_rows(dataset, Changes(rows=400, copies=0.5, jitter=0.01))
    rows, distances = find_originals(changed, dataset)
    assert len(rows) == 400
    assert len(np.unique(rows)) == pytest.approx(200, abs=5)  # a copy may come to lie nearer to another row
    assert np.count_nonzero(distances) == 200
    assert distances.max() < 0.1
    assert (changed.labels == dataset.labels[rows]).mean() > 0.97
    everything = change_rows(dataset, Changes(tail=9, copies=0.5))
    assert len(everything.labels) == 2 * np.count_nonzero(find_originals(everything, dataset)[1] == 0)


def test_noise_is_a_share_of_wrong_labels_of_the_pool_alone(dataset: Dataset) -> None:
    changed = change_rows(dataset, Changes(noise=0.2))
    rows, _ = find_originals(changed, dataset)
    assert (changed.labels != dataset.labels[rows]).mean() == pytest.approx(0.2, abs=0.04)
    assert set(changed.labels) == set(range(CLASSES))
    assert np.array_equal(changed.test_labels, dataset.test_labels)


def test_one_seed_one_pool(dataset: Dataset) -> None:
    options: dict[str, Any] = {"rows": 300, "tail": 5.0, "copies": 0.3, "noise": 0.1}
    first, again, other = (change_rows(dataset, Changes(**options, seed=seed)) for seed in (0, 0, 1))
    assert np.array_equal(first.features, again.features)
    assert np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.features, other.features)


def test_wrong_answers_of_pairs() -> None:
    pairs = hr.Pairs(np.arange(2000), np.zeros(2000, int))
    made = Annotated(np.zeros((2000, 1), np.float32), pairs, np.zeros(2000, bool))
    changed = change_pairs(MultiLabel("made", ("a",), made, made), Changes(noise=0.25))
    assert changed.pool.answers.mean() == pytest.approx(0.25, abs=0.04)
    assert not changed.test.answers.any()


def test_a_changed_dataset_is_checked_and_loaded_as_its_source(tmp_path: Path) -> None:
    digits = Changed(PlainDigits(), Changes(rows=100, noise=0.1))
    assert (digits.name, digits.unit, digits.check(None)) == ("digits", "row", 100)
    assert Changed(PlainDigits(), Changes(noise=0.1)).check(None) == 1200
    loaded = digits.load(None, tmp_path)
    assert isinstance(loaded, Dataset)
    assert (len(loaded.labels), len(loaded.test_labels)) == (100, 597)
    assert Changed(Mulan("enron"), Changes(noise=0.1)).unit == "pair"
    with pytest.raises(InputError, match=r"'enron'.*can only have noise"):
        Changed(Mulan("enron"), Changes(rows=100))


def test_digits_leave_rows_for_the_pool() -> None:
    with pytest.raises(InputError, match="test_rows must be 1 to 1,796, got 1,797"):
        PlainDigits(test_rows=1797).check(None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 0}, "rows must be at least 1"),
        ({"tail": 0.5}, "tail must be at least 1"),
        ({"copies": 1.0}, "copies must be a share from 0 to below 1, got 1"),
        ({"noise": 1.5}, "noise must be a share"),
        ({"noise": -0.5}, "noise must be at least 0"),
        ({"jitter": -1}, "jitter must be at least 0"),
    ],
)
def test_changes_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Changes(**options)
