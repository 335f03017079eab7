"""Answers: one, many by column, and back."""

import numpy as np
import pytest

from hedgerow.campaign.answers import ABSENT, KINDS, NEVER, Answer, Answers, LabelFile, Reject
from hedgerow.errors import InputError

HELD = [
    Answer("a", "answer", "cat", "ana", 5, "k1", 2.5),
    Answer("b", "answer", ("cat", "fox"), "ben"),
    Answer("c", "skip", None, "ana"),
    Answer("a", "answer", 0, class_="fox"),
    Answer("a", "adjudicate", "fox", "ana", 9),
]


def test_answers_by_column_are_the_same_answers():
    answers = Answers.of(HELD)
    assert list(answers) == HELD
    assert answers.vocabulary == ("cat", ("cat", "fox"), 0, "fox")
    assert answers.values.tolist() == [0, 1, ABSENT, 2, 3]
    assert answers.said_at.tolist() == [5, NEVER, NEVER, NEVER, 9]
    assert answers.annotators.tolist() == [0, 1, 0, ABSENT, 0]


def test_ids_that_are_all_numbers_stay_numbers():
    assert Answers.of([Answer(7, "unsure")]).ids.dtype == np.int64
    assert Answers.of([Answer(7, "unsure"), Answer("x", "unsure")]).ids.tolist() == ["7", "x"]
    assert len(Answers.of([])) == 0


def test_a_kind_has_a_value_or_has_none():
    with pytest.raises(InputError, match="has no value: name a class"):
        Answer("a", "answer")
    with pytest.raises(InputError, match="'skip' has no value"):
        Answer("a", "skip", "cat")
    with pytest.raises(InputError, match="did you mean 'unsure'"):
        Answer("a", "unsur")


def test_the_numbers_of_kinds_stay():
    """They are stored in databases."""
    assert KINDS == ("answer", "unsure", "none-of-these", "skip", "broken", "adjudicate", "retract")


def test_columns_have_one_length_and_a_file_counts_all_its_rows():
    held = Answers.of(HELD)
    with pytest.raises(InputError, match="must describe the same rows"):
        Answers(**{**vars(held), "kinds": held.kinds[:2]})
    assert LabelFile(held, (Reject(5, "unreadable", "no id", "{}"),), "jsonl", "0" * 64).rows == 6
