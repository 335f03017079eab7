"""BADGE's draws against the enumerated law of k-means++ over gradients made whole."""

import itertools
from collections import Counter

import numpy as np
import pytest

import hedgerow as hr
import reference
from hedgerow import machine as threads
from hedgerow.kernels import seeding as kernels
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies import partitions, seeding

TRIALS = 6_000
RARE, NEVER = 1e-3, 1e-6  # p-values: of a law that holds, of one that does not
N, K = 7, 4


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def pool(request):
    """(probabilities, embeddings) of a few rows in 4 dimensions, two of them near-duplicates."""
    rng = np.random.default_rng(5)
    probabilities = rng.dirichlet(np.ones(request.param), N).astype(np.float32)
    embeddings = rng.normal(size=(N, 4)).astype(np.float32)
    probabilities[1], embeddings[1] = probabilities[0], embeddings[0] * np.float32(1.2)
    return probabilities, embeddings


def make_whole(probabilities, embeddings):
    return reference.gradients(probabilities.astype(np.float64), embeddings.astype(np.float64))


def factor(probabilities, embeddings, team):
    rows = np.arange(len(embeddings))
    return seeding.factor_gradients(open_rows(embeddings, rows), open_rows(probabilities, rows), team)


def count_draws(pool, patience, seed):
    """(sequences, folds after the first) over many draws of K centers."""
    rng = np.random.default_rng(seed)
    with threads.team(1) as team:
        gradients = factor(*pool, team)
        first = int(gradients.norms.argmax())
        return Counter(
            tuple(seeding.draw_centers(gradients, K, first, rng, team, patience=patience).tolist())
            for _ in range(TRIALS)
        )


@pytest.fixture
def folds(monkeypatch):
    """How often each run folded, the first center apart."""
    counted, fold = [], seeding._Draw.fold

    def count(draw):
        if draw.folded == 0:
            counted.append(0)
        else:
            counted[-1] += 1
        fold(draw)

    monkeypatch.setattr(seeding._Draw, "fold", count)
    return counted


@pytest.mark.parametrize(
    ("patience", "batch", "allowed", "reached"),  # numbers of folds
    [
        (0.0, 1, {2}, {2}),
        (0.0, 16, {0, 1, 2}, {0, 1}),
        (1.0, 2, {0, 1, 2}, {2}),
        (np.inf, 3, {0}, {0}),
        (np.inf, 16, {0}, {0}),
    ],
    ids=["always", "always in batches", "adaptively", "never", "never in batches"],
)
def test_sequences_follow_the_law_of_plusplus_and_not_another(
    pool, patience, batch, allowed, reached, folds, monkeypatch
):
    monkeypatch.setattr(seeding, "LEAST_BATCH", batch)
    monkeypatch.setattr(seeding, "MOST_BATCH", batch)
    monkeypatch.setattr(seeding, "OVERHEAD", 0)  # so that seven rows are worth folding, or not
    whole = make_whole(*pool)
    first = int((whole**2).sum(axis=1).argmax())
    law = reference.plusplus_law(whole, first, K)
    counts = count_draws(pool, patience, seed=batch)
    assert reached <= set(folds) <= allowed
    assert reference.judge(counts, law) > RARE
    assert reference.judge(counts, reference.plusplus_law(whole, first, K, power=1)) < NEVER


def test_uniform_and_partitioned_draws_do_not_follow_the_law(pool):
    probabilities, embeddings = pool
    whole = make_whole(*pool)
    first = int((whole**2).sum(axis=1).argmax())
    law = reference.plusplus_law(whole, first, 2)
    sets = Counter()
    for sequence, p in law.items():
        sets[frozenset(sequence)] += p
    rest = [row for row in range(N) if row != first]
    rng = np.random.default_rng(0)
    uniform = Counter(frozenset((first, int(rng.choice(rest)))) for _ in range(TRIALS))
    view = hr.View(N, probabilities=probabilities, embeddings=embeddings)
    with threads.team(1) as team:

        def count_sets(parts):
            badge = hr.Badge(partitions=parts)
            picks = (partitions.pick_parts(badge, view, badge.plan(view, 2, rng), rng, team) for _ in range(TRIALS))
            return Counter(frozenset(np.concatenate(picked).tolist()) for picked in picks)

        parted, undivided = count_sets(2), count_sets(1)
    assert reference.judge(uniform, sets) < NEVER
    assert reference.judge(parted, sets) < NEVER
    assert reference.judge(undivided, sets) > RARE


def test_a_random_first_center_is_uniform_and_the_rest_follows(pool):
    probabilities, embeddings = pool
    whole = make_whole(*pool)
    law = {s: p / N for first in range(N) for s, p in reference.plusplus_law(whole, first, 2).items()}
    view, rng = hr.View(N, probabilities=probabilities, embeddings=embeddings), np.random.default_rng(1)
    badge, rows = hr.Badge(first="random"), np.arange(N)
    with threads.team(1) as team:
        counts = Counter(tuple(badge.pick(view, rows, None, 2, rng, team).tolist()) for _ in range(TRIALS))
    assert reference.judge(counts, law) > RARE


def test_select_draws_by_the_same_law_among_the_unlabeled(pool):
    probabilities, embeddings = pool
    rows = np.array([0, 2, 3, 5])
    whole = make_whole(*pool)[rows]
    first = int((whole**2).sum(axis=1).argmax())
    law = {tuple(rows[list(s)].tolist()): p for s, p in reference.plusplus_law(whole, first, 3).items()}
    given = {"probabilities": probabilities, "embeddings": embeddings, "labeled": [1, 4, 6]}
    counts = Counter(tuple(hr.select("badge", 3, **given, seed=seed).rows.tolist()) for seed in range(600))
    assert reference.judge(counts, law) > RARE


@pytest.mark.parametrize(("classes", "d"), [(2, 3), (5, 17), (40, 64), (100, 5)])
def test_weights_equal_the_distances_of_whole_gradients(classes, d):
    """Also over several tiles, and for near-duplicates, whose distances float32 products have lost."""
    rng = np.random.default_rng(classes)
    n, c = 600, 700
    probabilities = rng.dirichlet(np.ones(classes), n + c).astype(np.float32)
    embeddings = rng.normal(size=(n + c, d)).astype(np.float32) + 3
    copies = rng.integers(n, n + c, 200)
    probabilities[:200] = probabilities[copies]
    embeddings[:200] = embeddings[copies] * (1 + rng.choice([0, 1e-5, 1e-3], (200, 1))).astype(np.float32)
    wide = make_whole(probabilities, embeddings).astype(np.float64)
    norms = (wide**2).sum(axis=1)
    expected = np.array([((wide[n:] - row) ** 2).sum(axis=1).min() for row in wide[:n]])
    with threads.team(1) as team:
        draw = seeding._Draw(factor(probabilities, embeddings, team), c, rng, team, 0.0)
        draw.add(np.arange(n, n + c))
        draw.fold()
    assert np.allclose(draw.gradients.norms, norms, rtol=1e-5)
    assert np.allclose(draw.weights[:n], expected, rtol=2e-3, atol=1e-12 * norms.max())
    assert (draw.weights[:n] == 0).sum() == (embeddings[:200] == embeddings[copies]).all(axis=1).sum()
    assert (draw.weights[n:] == 0).all()
    assert draw.total == pytest.approx(expected.sum(), rel=1e-3)


def test_rows_are_drawn_by_their_weights():
    weights = np.zeros(1000, np.float32)
    rows = np.array([3, 127, 128, 500, 999])
    weights[rows] = [1, 2, 3, 4, 5]
    sums = np.empty(-(-len(weights) // kernels.SEGMENT))
    kernels.add_segments(weights, sums)
    drawn = np.empty(30_000, np.int64)
    kernels.draw_rows(weights, np.cumsum(sums), np.random.default_rng(0).random(30_000), drawn)
    counts = Counter(drawn.tolist())
    assert reference.judge(counts, dict(zip(rows.tolist(), np.arange(1, 6) / 15, strict=True))) > RARE
    edges = np.empty(2, np.int64)
    kernels.draw_rows(weights, np.cumsum(sums), np.array([0.0, np.nextafter(1, 0)]), edges)
    assert edges.tolist() == [3, 999]


def test_near_duplicate_groups_are_covered_as_full_folding_covers_them():
    """The potential tells a law that is not that of k-means++ where distances collapse: random and parts fail it."""
    rng = np.random.default_rng(0)
    groups, d, n, k = 60, 16, 4000, 300
    middles = rng.normal(size=(groups, d))
    sizes = np.arange(1, groups + 1) ** -1.5
    embeddings = (middles[rng.choice(groups, n, p=sizes / sizes.sum())] + 0.01 * rng.normal(size=(n, d))).astype("f4")
    logits = embeddings @ rng.normal(size=(d, 4)).astype("f4")
    probabilities = reference.softmax(logits).astype(np.float32)
    view = hr.View(n, probabilities=probabilities, embeddings=embeddings)
    with threads.team(1) as team:
        gradients = factor(probabilities, embeddings, team)
        first = int(gradients.norms.argmax())

        def average(draw, runs=12):
            found = (seeding.measure_potential(gradients, draw(np.random.default_rng(s)), team) for s in range(runs))
            return np.mean(list(found))

        folding, adaptive = (
            average(lambda rng, p=patience: seeding.draw_centers(gradients, k, first, rng, team, patience=p))
            for patience in (0.0, 1.0)
        )
        parted = average(lambda rng: hr.Badge(partitions=20)(view, k, rng))
        random = average(lambda rng: hr.Random()(view, k, rng))
    assert adaptive == pytest.approx(folding, rel=0.02)
    assert parted > 2 * folding
    assert random > 5 * folding


def test_a_few_rows_in_every_order_have_one_law():
    """A pool of three distinct points: both orders of the last two, and never a copy while a distinct one is left."""
    embeddings = np.array([[4, 0], [0, 1], [0, 1], [1, 0], [4, 0]], np.float32)
    view = hr.View(5, probabilities=np.tile(np.float32([0.25, 0.75]), (5, 1)), embeddings=embeddings)
    seen = {tuple(hr.Badge()(view, 3, np.random.default_rng(s)).tolist()) for s in range(200)}
    allowed = {(0, *rest) for copy in (1, 2) for rest in itertools.permutations((copy, 3))}
    assert seen == allowed
