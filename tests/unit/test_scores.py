"""Scores: sources, threads, and everything that must be refused with its row."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import hedgerow as hr
from hedgerow import pool, scores

SCORES = [hr.margins, hr.entropies, hr.least_confidences]
DTYPES = [np.float16, np.float32, np.float64]


@pytest.fixture
def probabilities():
    return np.random.default_rng(0).dirichlet(np.ones(6), 500).astype(np.float32)


def test_margins_by_hand():
    given = [[0.7, 0.2, 0.1], [0.4, 0.4, 0.2], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0]]
    assert hr.margins(given) == pytest.approx([0.5, 0, 0.5, 1])
    assert hr.least_confidences(given) == pytest.approx([0.3, 0.6, 0.25, 0])
    assert hr.entropies([[0.5, 0.5], [1, 0]]) == pytest.approx([np.log(2), 0])


def test_two_classes_are_enough():
    p = np.linspace(0, 1, 11)
    assert hr.margins(np.stack([p, 1 - p], axis=1)) == pytest.approx(np.abs(2 * p - 1), abs=1e-7)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_are_float32_one_a_row(score, dtype, probabilities):
    scored = score(probabilities.astype(dtype))
    assert scored.dtype == np.float32
    assert scored.shape == (500,)


@pytest.mark.parametrize("score", SCORES)
def test_the_source_does_not_matter(score, probabilities, tmp_path):
    expected = score(probabilities)
    np.save(tmp_path / "p.npy", probabilities)
    assert np.array_equal(score(tmp_path / "p.npy"), expected)
    assert np.array_equal(score(np.load(tmp_path / "p.npy", mmap_mode="r")), expected)
    pool.write_table(tmp_path / "p.parquet", {f"p_{c}": probabilities[:, c] for c in range(6)}, {})
    assert np.array_equal(score(str(tmp_path / "p.parquet")), expected)
    assert np.array_equal(score(pool.open_matrix(probabilities, "probabilities")), expected)
    assert np.array_equal(score(np.asfortranarray(probabilities)), expected)
    assert np.array_equal(score(probabilities.astype(">f4")), expected)


@pytest.mark.parametrize("score", SCORES)
def test_chunks_are_one_matrix(score, probabilities):
    expected = score(probabilities)
    pieces = [probabilities[:1], probabilities[1:300], probabilities[300:300], probabilities[300:]]
    assert np.array_equal(score(iter(pieces)), expected)
    assert np.array_equal(score(pieces), expected)
    assert np.array_equal(score(piece for piece in pieces), expected)
    assert score(iter([])).shape == (0,)


@pytest.mark.parametrize("name", ["probabilities", "logits"])
def test_the_number_of_threads_does_not_matter(name, monkeypatch):
    monkeypatch.setattr(scores, "LEAST_ENTRIES", 1)
    rng = np.random.default_rng(1)
    given = rng.dirichlet(np.ones(40), 333).astype(np.float32)
    one = hr.margins(**{name: given}, threads=1)
    for threads in (2, 3, 8, None):
        assert np.array_equal(hr.margins(**{name: given}, threads=threads), one)


def test_an_empty_pool_has_no_scores():
    assert hr.margins(np.zeros((0, 3))).shape == (0,)
    assert hr.margins(logits=np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [2, 6, 300])
def test_a_zero_with_a_sign_is_a_zero(dtype, width):
    given = np.zeros((4, width), dtype)
    given[:, 0] = 1
    given[2, 1] = -0.0
    assert hr.margins(given).tolist() == [1, 1, 1, 1]


def test_logits_do_not_overflow():
    given = np.array([[1e30, 0], [-1e30, 1e30], [3e38, -3e38], [1000, 999], [-1000, -1000]], np.float32)
    expected = [1, 1, 1, (1 - np.exp(-1)) / (1 + np.exp(-1)), 0]
    assert hr.margins(logits=given) == pytest.approx(expected)
    assert hr.margins(logits=np.array([[1e300, -1e300]])).tolist() == [1]


def test_near_ties_of_logits_are_told_apart():
    given = np.array([[1e-6, 0, -50], [2e-6, 0, -50]], np.float32)
    assert hr.margins(logits=given) == pytest.approx([0.5e-6, 1e-6], rel=1e-3)


BAD_ROWS = {
    "a NaN": (lambda row: row.__setitem__(1, np.nan), "NaN or an infinity"),
    "a negative NaN": (lambda row: row.__setitem__(1, -np.nan), "NaN or an infinity"),
    "an infinity": (lambda row: row.__setitem__(1, np.inf), "NaN or an infinity"),
    "a negative infinity": (lambda row: row.__setitem__(1, -np.inf), "NaN or an infinity"),
    "a negative number": (lambda row: row.__setitem__(slice(0, 2), [1.25, -0.25]), "negative entry -0.25"),
    "a sum of 2": (lambda row: row.__setitem__(1, 2 - row[0]), "sums to 2"),
    "a sum of 0": (lambda row: row.fill(0), "sums to 0, not to 1"),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("width", [2, 10, 40, 600])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", BAD_ROWS)
def test_bad_rows_are_refused_by_their_number(kind, dtype, width, score):
    spoil, message = BAD_ROWS[kind]
    given = np.zeros((90, width), dtype)
    given[:, 0] = 1
    spoil(given[77])
    spoil(given[83])
    with pytest.raises(hr.InputError, match=message) as caught:
        score(given)
    assert "row 77" in str(caught.value)


def test_the_row_is_that_of_the_pool_not_of_the_chunk():
    given = np.full((50, 2), 0.5)
    given[31, 0] = np.nan
    with pytest.raises(hr.InputError, match="row 31"):
        hr.margins(iter([given[:20], given[20:30], given[30:]]))
    with pytest.raises(hr.InputError, match="row 31"):
        hr.margins(logits=iter([given[:20], given[20:30], given[30:]]))


def test_the_tolerance_is_as_stated():
    assert hr.margins(np.array([[0.5, 0.5009]])).shape == (1,)
    assert hr.margins(np.array([[0.5, 0.509]], np.float16)).shape == (1,)
    for given in (np.array([[0.5, 0.502]]), np.array([[0.5, 0.52]], np.float16)):
        with pytest.raises(hr.InputError, match=r"row 0 of probabilities sums to 1\.\d+, not to 1 \(within 0\.01?"):
            hr.margins(given)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_must_be_finite(value, dtype):
    given = np.zeros((9, 3), dtype)
    given[4, 2] = value
    with pytest.raises(hr.InputError, match="logits has a NaN or an infinity in row 4"):
        hr.margins(logits=given)


def test_bad_arguments_are_refused():
    good = np.full((3, 2), 0.5)
    cases = [
        (lambda: hr.margins(), "exactly one of probabilities, logits"),
        (lambda: hr.margins(good, logits=good), "exactly one"),
        (lambda: hr.margins(np.ones((3, 1))), "at least 2 columns"),
        (lambda: hr.margins(logits=np.ones((3, 1))), "at least 2 columns"),
        (lambda: hr.margins(np.ones(3)), "two dimensions"),
        (lambda: hr.margins(np.array([["a", "b"]])), "real numbers"),
        (lambda: hr.margins(good, threads=0), "threads must be at least 1"),
        (lambda: hr.margins(iter([good, np.full((1, 4), 0.25)])), "4 columns in the chunk at row 3, but 2 before"),
        (lambda: hr.margins(42), "must be an array"),
        (lambda: hr.margins("absent.npy"), "does not exist"),
        (lambda: hr.entropies(np.ones((3, 1))), "at least 2 columns"),
        (lambda: hr.least_confidences(np.ones(3)), "two dimensions"),
    ]
    for call, message in cases:
        with pytest.raises(hr.InputError, match=message):
            call()


# Softmax


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_is_a_matrix_of_probabilities(dtype, tmp_path):
    logits = (np.random.default_rng(5).standard_normal((500, 6)) * 5).astype(dtype)
    wide = logits.astype(np.float64)
    expected = np.exp(wide - wide.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.save(tmp_path / "a.npy", logits)
    for source in (logits, tmp_path / "a.npy"):
        made = scores.softmax(source)
        assert (made.n, made.width, made.dtype) == (500, 6, np.float32)
        np.testing.assert_allclose(made.array(), expected, rtol=2e-6, atol=1e-9)
        np.testing.assert_array_equal(made.read(100, 120), made.array()[100:120])
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in made.chunks(37)]), made.array())
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).read(7, 9), made.array()[7:9])
    np.testing.assert_allclose(hr.margins(scores.softmax(logits)), hr.margins(logits=logits), atol=1e-6)


def test_softmax_does_not_overflow():
    extreme = np.array([[1e38, -1e38, 0], [3e4, 3e4, -3e4], [-3e38, -3e38, -3e38]], np.float32)
    made = scores.softmax(extreme).array()
    np.testing.assert_allclose(made, [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    np.testing.assert_allclose(scores.softmax(np.array([[1e300, -1e300]])).array(), [[1, 0]])
    assert hr.entropies(scores.softmax(extreme)) == pytest.approx([0, np.log(2), np.log(3)])


def test_softmax_keeps_the_ids_and_refuses_what_margins_refuse():
    table = pa.table({"id": ["a", "b"], "z0": [0.0, 1.0], "z1": [1.0, 1.0]})
    made = scores.softmax(table)
    assert made.ids.array().tolist() == ["a", "b"]
    assert made.array()[1].tolist() == [0.5, 0.5]
    many = np.zeros((200, 3))
    many[150, 1] = np.nan
    with pytest.raises(hr.InputError, match="logits has a NaN or an infinity in row 150"):
        scores.softmax(many).read(120, 180)
    with pytest.raises(hr.InputError, match="logits must have at least 2 columns"):
        scores.softmax(np.zeros((3, 1)))
