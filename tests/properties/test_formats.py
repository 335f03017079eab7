"""What holds for any label file: it is read or refused with `InputError`, and every row is accounted for."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.campaign.formats import FORMS, Reading, read_answers
from hedgerow.errors import InputError
from hedgerow.pool import parsing

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
STORED = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)  # NUL is rejected
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "id": JSON, "label": JSON, "annotator": JSON, "said_at": JSON, "kind": JSON, "class": JSON, "seconds": JSON,
        "external": JSON, "data": JSON, "annotations": st.lists(st.dictionaries(TEXT, JSON, max_size=3), max_size=2),
        "answer": st.sampled_from(["accept", "reject", "ignore", "?"]), "accept": JSON, "_task_hash": JSON,
        "_timestamp": JSON, "meta": JSON,
    },
)  # fmt: skip


@QUICK
@given(content=st.binary(max_size=300), form=st.sampled_from([None, *FORMS]))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes, form: str | None) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    try:
        found = read_answers(path, form=form)
    except InputError:
        return
    assert len(found.answers) + len(found.rejects) == found.rows


@QUICK
@given(records=st.lists(RECORDS, min_size=1, max_size=4), form=st.sampled_from(FORMS), pairs=st.booleans())
def test_any_json_is_read_or_refused(tmp_path: Path, records: list[Any], form: str, pairs: bool) -> None:
    path = tmp_path / "labels"
    as_lines = form in ("jsonl", "prodigy")
    path.write_text("\n".join(map(json.dumps, records)) if as_lines else json.dumps(records))
    try:
        found = read_answers(path, Reading(pairs=pairs), form=form)
    except InputError:
        return
    places = [*found.answers.places.tolist(), *(one.place for one in found.rejects)]
    assert sorted(places) == list(range(found.rows))
    assert all(one.id == one.id for one in found.answers)  # no NaN


@QUICK
@given(rows=st.lists(st.tuples(STORED, STORED), min_size=1, max_size=5), delimiter=st.sampled_from(",;\t"))
def test_any_text_survives_csv(tmp_path: Path, rows: list[tuple[str, str]], delimiter: str) -> None:
    """Whatever the csv module writes, line ends included."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "label"])
    writer.writerows([(f"x{one}", f"y{two}") for one, two in rows])
    path = tmp_path / "labels"
    path.write_bytes(buffer.getvalue().encode())
    found = read_answers(path, form="csv")
    assert [(one.id, one.value) for one in found.answers] == [(f"x{one}", f"y{two}".strip()) for one, two in rows]


@given(text=st.text(max_size=8) | st.from_regex(r"'*[=+\-@\t\r].{0,3}"))
def test_unguarding_takes_one_mark_off(text: str) -> None:
    taken = parsing.unguard(text)
    assert taken == text or "'" + taken == text


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@QUICK
@given(
    elements=st.lists(
        JSON.filter(lambda one: "NaN" not in json.dumps(one) and "Inf" not in json.dumps(one)), max_size=5
    )
)
def test_arrays_are_those_of_json(size: int, elements: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "READ_BYTES", size)
        wrapped = [{"element": one} for one in elements]
        found = list(parsing.iterate_json_array(io.BytesIO(json.dumps(wrapped).encode()), "it"))
    assert found == wrapped
