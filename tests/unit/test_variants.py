"""Pools in which one thing is varied: classes, copies, proposed pairs, images as pairs."""

import sys
import types
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import hedgerow as hr
from hedgerow.errors import InputError
from hedgerow.experiments.data import variants
from hedgerow.experiments.data.annotations import MultiLabel, annotate
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.data.texts import encode_texts
from hedgerow.experiments.data.variants import ImagePairs, VariedWords, WithCopies

LANGUAGES = {"de": "abcdefghijklmnopqrstuvwxyz", "ru": "абвгдежзийклмнопрстуфхцчшщ"}


@pytest.fixture
def lists(monkeypatch):
    """Two languages with 26 words each, in four steps of frequency, and a word of both."""

    def get_frequency_list(language, wordlist):
        letters = LANGUAGES[language]
        words = [f"{letter}1234" for letter in letters]
        return [words[:6], words[6:13], [], words[13:20], [*words[20:], "both"]]

    get_frequency_list.cache_clear = lambda: None
    fake = types.ModuleType("wordfreq")
    fake.available_languages = lambda wordlist: dict.fromkeys(LANGUAGES)
    fake.get_frequency_list = get_frequency_list
    monkeypatch.setitem(sys.modules, "wordfreq", fake)
    monkeypatch.setattr(variants.Words, "check", lambda self, data: None)
    monkeypatch.setattr(variants, "LISTED", 53)
    variants.list_classes.cache_clear()
    yield
    variants.list_classes.cache_clear()


def read_all(part):
    return [part.features.read(row) for row in range(len(part.features))]


def test_the_pool_stays_the_same_when_the_first_model_has_more_words(lists):
    few, many = (VariedWords(rows=20, held_out=5, first=first, negatives=1).make() for first in (0, 9))
    assert few.first is None
    assert len(many.first.features) == 9
    assert read_all(few.pool) == read_all(many.pool)
    assert np.array_equal(few.pool.pairs.classes, many.pool.pairs.classes)
    everything = [word for part in (many.pool, many.test, many.first) for word in read_all(part)]
    assert len(set(everything)) == len(everything) == 34


def test_bands_divide_a_language_by_frequency(lists):
    words, truth, _, weights, names = variants.list_classes(2, 0)
    assert names == ("de 0", "de 1", "ru 0", "ru 1")
    assert truth.shape == (53, 4)
    assert weights.shape[1] == 4
    assert np.array_equal(weights[:, ::2], weights[:, 1::2])
    for word, row in zip(words, truth.toarray(), strict=True):
        if word == "both":
            assert row.tolist() == [False, True, False, True]
            continue
        (language,) = (number for number, letters in enumerate(LANGUAGES.values()) if word[0] in letters)
        rare = tuple(LANGUAGES.values())[language].index(word[0]) >= 13
        assert row.tolist() == [number == 2 * language + rare for number in range(4)]
    assert VariedWords(rows=20, held_out=5, first=3, bands=2).make().classes == 4


@pytest.mark.parametrize("counts", ["heavy-tailed", "equal"])
def test_copies_fill_the_pool_and_keep_pairs_and_answers(lists, counts):
    recipe = VariedWords(rows=60, held_out=5, first=3, negatives=1, copies=0.75, counts=counts)
    plain = VariedWords(rows=15, held_out=5, first=3, negatives=1).make().pool
    pool, origins = recipe.make().pool, recipe.find_origins()
    assert recipe.originals == 15
    assert len(pool.features) == len(origins) == 60
    assert origins[:15].tolist() == list(range(15))
    assert read_all(pool)[:15] == read_all(plain)
    asked = {row: [] for row in range(60)}
    for row, label, answer in zip(pool.pairs.rows, pool.pairs.classes, pool.answers, strict=True):
        asked[int(row)].append((int(label), bool(answer)))
    assert all(asked[row] == asked[int(origin)] for row, origin in enumerate(origins))
    changed = [pool.features.read(row) != plain.features.read(origins[row]) for row in range(15, 60)]
    assert sum(changed) > 20  # most typing errors change a word
    sizes = Counter(origins.tolist()).values()
    assert max(sizes) - min(sizes) > 3 if counts == "heavy-tailed" else set(sizes) == {4}
    exact = VariedWords(**(vars(recipe) | {"misspelled": False})).make().pool
    assert [exact.features.read(row) for row in range(60)] == [plain.features.read(row) for row in origins]


def give(loaded):
    """A source of data that loads this."""
    return SimpleNamespace(load=lambda data, cache, progress: loaded)


@pytest.mark.parametrize("altered", [False, True])
def test_rows_of_any_dataset_can_be_copied(altered):
    features = np.arange(1, 401, dtype=np.float32).reshape(100, 4)
    labels, test = np.arange(100) % 7, features[:5] + 0.5
    source = give(Dataset("numbers", 7, features, labels, test, labels[:5]))
    made = WithCopies(source, rows=60, copies=0.5, altered=altered).load(None, None)
    assert made.features.shape == (60, 4)
    origins = np.array([((features == row) | (row == 0)).all(axis=1).argmax() for row in made.features])
    kept = made.features[:30]
    assert np.array_equal(kept, features[origins[:30]])
    assert len(np.unique(origins[:30])) == 30
    assert set(origins[30:]) <= set(origins[:30])
    assert np.array_equal(made.labels, labels[origins])
    lost = (made.features[30:] == 0).mean()
    assert 0.03 < lost < 0.25 if altered else lost == 0
    assert np.array_equal(made.test_features, test)
    again = WithCopies(source, rows=60, copies=0.5, altered=altered).load(None, None)
    assert np.array_equal(made.features, again.features)
    other = WithCopies(source, rows=60, copies=0.5, altered=altered, seed=1).load(None, None)
    assert not np.array_equal(made.features, other.features)


@pytest.mark.parametrize("altered", [False, True])
def test_copies_of_texts_keep_their_pairs(altered):
    words = [f"word{letter}{number}" for letter in "abcde" for number in range(10)]
    truth = csr_matrix(np.eye(3, dtype=bool)[np.arange(50) % 3])
    part = annotate(encode_texts(words), truth, negatives=1, seed=0)
    source = give(MultiLabel("words", ("a", "b", "c"), part, part))
    made = WithCopies(source, rows=40, copies=0.75, altered=altered).load(None, None)
    texts = read_all(made.pool)
    assert len(texts) == 40
    assert set(texts[:10]) <= set(words)
    assert len(set(texts[:10])) == 10
    assert altered or set(texts[10:]) <= set(texts[:10])
    assert not altered or len(set(texts[10:]) - set(texts[:10])) > 10  # most typing errors change a word
    answers = {}
    for row, label, answer in zip(made.pool.pairs.rows, made.pool.pairs.classes, made.pool.answers, strict=True):
        answers.setdefault(int(row), []).append((int(label), bool(answer)))
    known = {}
    for row, label, answer in zip(part.pairs.rows, part.pairs.classes, part.answers, strict=True):
        known.setdefault(words[row], []).append((int(label), bool(answer)))
    assert [answers[row] for row in range(10)] == [known[texts[row]] for row in range(10)]
    assert all(answers[row] == known[texts[row]] for row in range(10, 40) if texts[row] in known)
    assert {str(answers[row]) for row in range(10, 40)} <= {str(answers[row]) for row in range(10)}


def test_a_pool_too_small_for_its_originals_is_refused():
    source = give(Dataset("few", 2, np.ones((9, 2), np.float32), np.arange(9) % 2, np.ones((1, 2)), np.zeros(1, int)))
    with pytest.raises(InputError, match="10 rows are not copies, but the pool of few has 9"):
        WithCopies(source, rows=20, copies=0.5).load(None, None)
    with pytest.raises(InputError, match="copies must be a share"):
        WithCopies(source, rows=20, copies=1.0).load(None, None)


def test_copies_are_heavy_tailed_and_limited():
    for words, copies in ((1_000, 4_000), (1_000, 0), (100, 100_000), (3_000, 57_001)):
        counts = variants.draw_copies(words, copies, np.random.default_rng(0))
        assert counts.sum() == copies
        assert counts.min() >= 0
        assert counts.max() <= variants.MOST_COPIES
    counts = np.sort(variants.draw_copies(30_000, 120_000, np.random.default_rng(1)))
    assert counts[-300:].sum() > 0.3 * counts.sum()  # one percent of the words have a third of the copies
    assert np.median(counts) <= 2
    assert variants.spread_evenly(3, 8, np.random.default_rng(0)).tolist().count(3) == 2


def test_a_classifier_can_propose_the_pairs(lists):
    asked = []

    def propose(first):
        asked.append(len(first.features))
        return lambda texts: np.tile(np.float32([0.1, 0.9, 0.5, 0.7]), (len(texts), 1))

    made = VariedWords(rows=20, held_out=5, first=7, negatives=1, bands=2).make(propose)
    assert asked == [7]
    for part in (made.pool, made.test):
        for row in range(len(part.features)):
            mine = part.pairs.rows == row
            yes, no = (set(part.pairs.classes[mine & (part.answers == answer)].tolist()) for answer in (True, False))
            assert no == {next(label for label in (1, 3, 2, 0) if label not in yes)}


def test_proposed_negatives_are_the_highest_scored_wrong_classes():
    scores = np.random.default_rng(0).random((50, 8)).astype(np.float32)
    truth = csr_matrix(np.eye(50, 8, dtype=bool))
    made = annotate(encode_texts(["a"] * 50), truth, negatives=3, scores=scores)
    wrong = np.where(truth.toarray(), -1, scores)
    for row in range(50):
        no = made.pairs.classes[(made.pairs.rows == row) & ~made.answers]
        assert sorted(no.tolist()) == sorted(np.argsort(-wrong[row])[:3].tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"copies": 1.0}, "copies must be a share"),
        ({"copies": 0.9999}, "3 originals cannot have 29,997 copies"),
        ({"rows": 300_000}, "only 250,000 are listed"),
        ({"counts": "many"}, "counts"),
        ({"bands": 0}, "bands"),
    ],
)
def test_sizes_that_cannot_be_made_are_refused(monkeypatch, options, message):
    monkeypatch.setattr(variants.Words, "check", lambda self, data: None)
    with pytest.raises(hr.InputError, match=message):
        VariedWords(**options).check(None)


def test_images_have_their_class_and_a_few_others_as_pairs(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    halves = [SimpleNamespace(features=np.arange(n).reshape(n, 1), labels=rng.integers(0, 10, n)) for n in (40, 20)]
    published = SimpleNamespace(find=lambda data: data, open=lambda data: halves, classes=10)
    monkeypatch.setattr(variants, "PUBLICATIONS", {"cifar10": published})
    monkeypatch.setattr(variants, "load_features", lambda images, name, **_: images.astype(np.float32))
    made = ImagePairs("cifar10", rows=30, held_out=12, negatives=2).load(tmp_path, tmp_path)
    assert (made.classes, made.task.n, len(made.test.features)) == (10, 30, 12)
    for part, half in ((made.pool, halves[0]), (made.test, halves[1])):
        assert np.bincount(part.pairs.rows).tolist() == [3] * len(part.features)
        images = part.features[part.pairs.rows, 0].astype(int)
        assert np.array_equal(part.answers, half.labels[images] == part.pairs.classes)
    with pytest.raises(hr.InputError, match="images"):
        ImagePairs("mnist").check(tmp_path)
