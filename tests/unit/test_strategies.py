"""select and its strategies: what they give, what they refuse."""

import dataclasses
import warnings

import numpy as np
import pytest

import hedgerow as hr
from hedgerow import pool, strategies
from hedgerow.strategies import partitions

N = 200
NAMES = list(hr.STRATEGIES)


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    return {
        "probabilities": rng.dirichlet(np.ones(5), N).astype(np.float32),
        "embeddings": rng.normal(size=(N, 8)).astype(np.float32),
        "clusters": rng.integers(0, 20, N),
        "labeled": rng.random(N) < 0.3,
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_gives_k_distinct_unlabeled_rows(name, given):
    batch = hr.select(name, 50, **given)
    assert batch.rows.dtype == np.int64
    assert len(batch) == len(np.unique(batch.rows)) == 50
    assert not given["labeled"][batch.rows].any()
    assert (batch.strategy, batch.seed) == (name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_one_answer(name, given):
    first = hr.select(name, 50, **given, seed=3).rows
    assert np.array_equal(first, hr.select(hr.STRATEGIES[name](), 50, **given, seed=3).rows)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-margin",
        "stochastic-margin",
        "badge",
        "random",
        "cluster-margin-shuffled",
        "uniform-candidates",
        "hedge",
    ],
)
def test_another_seed_another_answer(name, given):
    assert not np.array_equal(hr.select(name, 50, **given, seed=0).rows, hr.select(name, 50, **given, seed=1).rows)


@pytest.mark.parametrize("name", NAMES)
def test_all_of_the_unlabeled_can_be_asked_for(name, given):
    unlabeled = np.flatnonzero(~given["labeled"])
    assert sorted(hr.select(name, len(unlabeled), **given).rows) == unlabeled.tolist()
    assert len(hr.select(name, 0, **given)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_too_many_is_an_error_unless_short_is_allowed(name, given):
    available = int((~given["labeled"]).sum())
    with pytest.raises(hr.PoolExhaustedError, match=f"201 examples were asked for, but only {available}"):
        hr.select(name, 201, **given)
    assert len(hr.select(name, 201, **given, allow_short=True)) == available


@pytest.mark.parametrize("name", NAMES)
def test_everything_labeled_leaves_nothing(name, given):
    given["labeled"] = np.ones(N, bool)
    assert len(hr.select(name, 5, **given, allow_short=True)) == 0
    with pytest.raises(hr.PoolExhaustedError):
        hr.select(name, 1, **given)


@pytest.mark.parametrize("name", NAMES)
def test_labeled_rows_and_mask_are_the_same(name, given):
    rows = np.flatnonzero(given["labeled"])
    by_mask = hr.select(name, 20, **given).rows
    assert np.array_equal(by_mask, hr.select(name, 20, **(given | {"labeled": rows})).rows)
    assert np.array_equal(by_mask, hr.select(name, 20, **(given | {"labeled": rows.tolist()})).rows)


def test_scores_rank_the_rows_with_ties_by_lowest_row(given):
    unlabeled = np.flatnonzero(~given["labeled"])
    for name, key in [
        ("margin", hr.margins(given["probabilities"])),
        ("entropy", -hr.entropies(given["probabilities"])),
        ("least-confidence", -hr.least_confidences(given["probabilities"])),
    ]:
        expected = unlabeled[np.argsort(key[unlabeled], kind="stable")]
        assert np.array_equal(hr.select(name, 60, **given).rows, expected[:60])
    assert hr.select("margin", 3, margins=[0.5, 0.25, 0.5, 0.25, 0.0, 0.25]).rows.tolist() == [4, 1, 3]
    assert hr.select("entropy", 2, probabilities=np.full((4, 2), 0.5)).rows.tolist() == [0, 1]


def test_margins_given_are_those_of_the_probabilities(given):
    margins = hr.margins(given.pop("probabilities"))
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(5), N).astype(np.float32)
    for name in ("margin", "cluster-margin"):
        by_margins = hr.select(name, 30, margins=margins, **given).rows
        assert np.array_equal(by_margins, hr.select(name, 30, probabilities=probabilities, **given).rows)


def test_a_negative_zero_margin_is_the_lowest_there_is():
    assert hr.select("margin", 2, margins=np.array([0.5, 0.1, -0.0, 0.2])).rows.tolist() == [2, 1]


def test_cluster_margin_by_hand():
    margins = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.9])
    clusters = np.array([0, 0, 0, 1, 1, 2, 2])
    batch = hr.select(hr.ClusterMargin(margin_factor=1.5), 4, margins=margins, clusters=clusters)
    # Six candidates: row 6 is none of them, so cluster 2 has one, cluster 1 two, cluster 0 three.
    assert batch.rows[0] == 5
    assert clusters[batch.rows].tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize(
    ("factor", "k", "expected"), [(1.1, 10, 11), (10, 7, 70), (1, 3, 3), (1.25, 3, 4), (2.5, 0, 0)]
)
def test_the_margin_factor_counts_as_written(factor, k, expected):
    assert hr.ClusterMargin(factor).count_candidates(k) == expected


def test_clusters_may_be_an_object_an_array_or_a_file(given, tmp_path):
    expected = hr.select("cluster-margin", 30, **given).rows
    labels = given.pop("clusters").astype(np.int32)
    pool.write_table(tmp_path / "clusters.parquet", {"cluster": labels}, {})
    holder = type("Holder", (), {"labels": labels})()
    for clusters in (labels, labels.astype(np.uint8), holder, tmp_path / "clusters.parquet", labels.tolist()):
        assert np.array_equal(hr.select("cluster-margin", 30, clusters=clusters, **given).rows, expected)


def test_files_and_memmaps_select_as_arrays_do(given, tmp_path):
    for key in ("probabilities", "embeddings"):
        np.save(tmp_path / f"{key}.npy", given[key])
    paths = given | {key: tmp_path / f"{key}.npy" for key in ("probabilities", "embeddings")}
    for name in NAMES:
        assert np.array_equal(hr.select(name, 30, **paths).rows, hr.select(name, 30, **given).rows)


def test_vectors_may_be_files_and_memmaps_too(given, tmp_path):
    margins = hr.margins(given["probabilities"])
    expected = hr.select(
        "cluster-margin", 30, margins=margins, clusters=given["clusters"], labeled=given["labeled"]
    ).rows
    found = {"margins": margins, "clusters": given["clusters"].astype(np.int32), "labeled": given["labeled"]}
    for key, values in found.items():
        np.save(tmp_path / f"{key}.npy", values)
    mapped = {key: np.load(tmp_path / f"{key}.npy", mmap_mode="r") for key in found}
    assert np.array_equal(hr.select("cluster-margin", 30, **mapped).rows, expected)
    paths = {key: tmp_path / f"{key}.npy" for key in ("margins", "clusters")}
    assert np.array_equal(hr.select("cluster-margin", 30, **paths, labeled=given["labeled"]).rows, expected)


def test_too_many_is_found_before_the_probabilities_are_read(given):
    given["probabilities"][:] = np.nan
    with pytest.raises(hr.PoolExhaustedError):
        hr.select("cluster-margin", N + 1, **given)


def test_a_pool_beyond_32_bits_is_refused():
    view = hr.View(2**31, margins=np.zeros(1, np.float32), clusters=np.zeros(1, np.int32))
    with pytest.raises(hr.InputError, match="pools of up to 2,147,483,647 rows"):
        hr.ClusterMargin()(view, 1, np.random.default_rng(0))


def test_views_and_batches_are_frozen(given):
    batch = hr.select("random", 5, **given)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.seed = 1
    with pytest.raises(ValueError, match="read-only"):
        batch.rows[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        hr.View(3).n = 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        hr.ClusterMargin().margin_factor = 3


def test_a_view_counts_its_rows():
    view = hr.View(4, labeled=np.array([True, False, False, True]))
    assert view.unlabeled_count == 2
    assert view.unlabeled_rows().tolist() == [1, 2]
    assert view.labeled_rows().tolist() == [0, 3]
    assert hr.View(3).unlabeled_rows().tolist() == [0, 1, 2]
    assert hr.View(3).unlabeled_count == 3
    assert hr.View(3).labeled_rows().tolist() == []


# Strategies of a user's own.


def first_rows(view, k, rng):
    return view.unlabeled_rows()[:k]


def test_a_callable_is_a_strategy(given):
    batch = hr.select(first_rows, 4, **given)
    assert batch.rows.tolist() == np.flatnonzero(~given["labeled"])[:4].tolist()
    assert batch.strategy == "first_rows"


def test_a_strategy_that_declares_nothing_sees_everything_given(given):
    seen = []

    def look(view, k, rng):
        seen.append(view)
        return view.unlabeled_rows()[:k].tolist()

    hr.select(look, 1, **given)
    assert np.array_equal(seen[0].probabilities, given["probabilities"])
    assert np.array_equal(seen[0].margins, hr.margins(given["probabilities"]))
    assert np.array_equal(seen[0].embeddings, given["embeddings"])
    assert np.array_equal(seen[0].clusters, given["clusters"])
    hr.select(look, 1, labeled=np.zeros(5, bool))
    assert seen[1].probabilities is seen[1].margins is seen[1].embeddings is seen[1].clusters is None


def test_only_what_is_needed_is_read(given):
    seen = []

    def look(view, k, rng):
        seen.append(view)
        return view.unlabeled_rows()[:k]

    look.needs = {"margins"}
    hr.select(look, 1, **given)
    assert seen[0].margins is not None
    assert seen[0].probabilities is None
    assert seen[0].embeddings is None


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1, 2], "has 2 rows, but 3 were asked for"),
        ([1, 1, 2], "row 1 more than once"),
        ([1, 2, 9], "row 9, but the pool's rows are 0 to 4"),
        ([1, 2, -1], "row -1"),
        ([0, 1, 2], "row 0, which is labeled"),
        ([0.5, 1.0, 2.0], "whole row numbers"),
        (None, "whole row numbers"),
        ("abc", "whole row numbers"),
        (np.ones((3, 1), int), "whole row numbers"),
    ],
)
def test_what_a_strategy_returns_is_checked(returned, message):
    with pytest.raises(hr.InputError, match=message) as caught:
        hr.select(lambda view, k, rng: returned, 3, labeled=np.array([True, False, False, False, False]))
    assert "'<lambda>'" in str(caught.value)


# What is refused.


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("stochastic-margin", "probabilities", "'stochastic-margin' needs margins: pass probabilities"),
        ("margin", "probabilities", "'margin' needs margins: pass probabilities=... or margins=..."),
        ("cluster-margin", "clusters", "'cluster-margin' needs clusters: pass clusters"),
        ("badge", "embeddings", "'badge' needs embeddings: pass embeddings"),
        ("badge", "probabilities", "'badge' needs probabilities: pass probabilities"),
        ("coreset", "embeddings", "'coreset' needs embeddings"),
        ("typiclust", "embeddings", "'typiclust' needs embeddings"),
        ("probcover", "embeddings", "'probcover' needs embeddings"),
        ("maxherding", "embeddings", "'maxherding' needs embeddings"),
        ("uherding", "probabilities", "'uherding' needs margins"),
        ("entropy", "probabilities", "'entropy' needs probabilities"),
        ("least-confidence", "probabilities", "'least-confidence' needs probabilities"),
    ],
)
def test_what_a_strategy_needs_must_be_given(name, missing, message, given):
    del given[missing]
    with pytest.raises(hr.InputError) as caught:
        hr.select(name, 5, **given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "cluster_margin"}, "did you mean 'cluster-margin'"),
        ({"strategy": "zebra"}, "known: cluster-margin, margin"),
        ({"strategy": hr.Margin}, "an instance such as ClusterMargin"),
        ({"strategy": 3}, "strategy must be a name"),
        ({"k": -1}, "k must be at least 0"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": "3"}, "k must be a whole number"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"seed": None}, "seed must be a whole number"),
        ({"clusters": np.zeros(N - 1, int)}, "the same rows: .*clusters has 199"),
        ({"embeddings": np.zeros((N + 1, 3))}, "embeddings has 201"),
        ({"margins": np.zeros(3)}, "margins has 3"),
        ({"clusters": np.full(N, -1)}, "clusters holds -1 in row 0"),
        ({"clusters": np.zeros(N)}, "clusters must be whole numbers"),
        ({"clusters": np.zeros((N, 2), int)}, "one dimension"),
        ({"labeled": np.zeros(N - 1, bool)}, "labeled is a mask of shape"),
        ({"labeled": [0, N]}, "row 200, but the pool's rows are 0 to 199"),
        ({"labeled": [3, 3]}, "row 3 more than once"),
        ({"labeled": [0.5]}, "whole row numbers"),
        ({"margins": np.where(np.arange(N) == 7, np.nan, 0.5)}, "margins has a NaN or an infinity in row 7"),
        ({"margins": np.where(np.arange(N) == 7, np.inf, 0.5)}, "margins has a NaN or an infinity in row 7"),
        ({"margins": np.where(np.arange(N) == 7, -0.5, 0.5)}, "margins holds -0.5 in row 7"),
        ({"margins": np.full(N, 1e300)}, "margins has a NaN or an infinity in row 0"),
        ({"margins": np.zeros((N, 1))}, "one dimension"),
        ({"probabilities": np.full((N, 4), 0.5)}, "row 0 of probabilities sums to 2"),
        ({"probabilities": np.ones((N, 1))}, "at least 2 columns"),
    ],
)
def test_bad_input_is_refused(change, message, given):
    arguments = {"strategy": "cluster-margin", "k": 5} | given | change
    with pytest.raises(hr.InputError, match=message):
        hr.select(arguments.pop("strategy"), arguments.pop("k"), **arguments)


@pytest.mark.parametrize("name", ["badge", "coreset"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_embeddings_must_be_finite_in_float32(name, value, given):
    given["embeddings"] = given["embeddings"].astype(np.float64)
    given["embeddings"][11, 2] = value
    with pytest.raises(hr.InputError, match="embeddings has a NaN or an infinity in row 11"):
        hr.select(name, 5, **given)


def test_badge_checks_its_probabilities(given):
    given["probabilities"][5] *= 2
    with pytest.raises(hr.InputError, match="row 5 of probabilities sums to 2"):
        hr.select("badge", 5, **given)


def test_the_pool_must_have_a_size():
    assert len(hr.select("random", 2, labeled=np.zeros(5, bool))) == 2
    for labeled in (None, [1, 2]):
        with pytest.raises(hr.InputError, match="the size of the pool is unknown"):
            hr.select("random", 2, labeled=labeled)


def test_unknown_needs_are_refused(given):
    def strategy(view, k, rng):
        return view.unlabeled_rows()[:k]

    strategy.needs = {"gradients"}
    with pytest.raises(hr.InputError, match="needs 'gradients': known: margins, probabilities"):
        hr.select(strategy, 5, **given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hr.ClusterMargin(0.5), "margin_factor must be at least 1"),
        (lambda: hr.ClusterMargin(np.inf), "margin_factor must be finite"),
        (lambda: hr.ClusterMargin("ten"), "margin_factor must be a number"),
        (lambda: hr.ClusterMargin(power=-1), "power must be at least 0"),
        (lambda: hr.ClusterMargin(power="one"), "power must be a number"),
        (lambda: hr.StochasticMargin(-0.5), "power must be at least 0"),
        (lambda: hr.StochasticMargin(np.nan), "power must be finite"),
        (lambda: hr.StochasticMargin(True), "power must be a number"),
        (lambda: hr.Badge(partitions=0), "partitions must be at least 1"),
        (lambda: hr.Badge(partitions=1.5), "partitions must be a whole number"),
        (lambda: hr.Badge(first="largest"), "unknown first 'largest': did you mean 'largest-norm'"),
        (lambda: hr.CoreSet(partitions=0), "partitions must be at least 1"),
        (lambda: hr.CoreSet(split_labeled=1), "split_labeled must be True or False, got 1"),
        (lambda: hr.TypiClust(neighbors=0), "neighbors must be at least 1"),
        (lambda: hr.TypiClust(most_groups=2.5), "most_groups must be a whole number"),
        (lambda: hr.TypiClust(least_size=-1), "least_size must be at least 0"),
        (lambda: hr.TypiClust(metric="l2"), "unknown metric 'l2'"),
        (lambda: hr.ProbCover(delta=0), "delta must be greater than 0"),
        (lambda: hr.ProbCover(classes=1), "classes must be at least 2"),
        (lambda: hr.ProbCover(purity=1.5), "purity must be a share of at most 1"),
        (lambda: hr.ProbCover(sample=0), "sample must be at least 1"),
        (lambda: hr.MaxHerding(sigma=-1), "sigma must be greater than 0"),
        (lambda: hr.MaxHerding(metric="l2"), "unknown metric 'l2'"),
        (lambda: hr.UHerding(sigma=0), "sigma must be greater than 0"),
        (lambda: hr.CoreSet(metric="cosin"), "unknown metric 'cosin': did you mean 'cosine'"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(hr.InputError, match=message):
        make()


def test_cosine_refuses_a_row_without_direction():
    points = np.ones((5, 3))
    points[3] = 0
    with pytest.raises(hr.InputError, match="all zeros in row 3"):
        hr.select(hr.CoreSet(metric="cosine"), 1, embeddings=points)


# BADGE and CoreSet: beginnings, parts, and points that run out.


def test_badge_begins_with_the_largest_gradient_or_at_random(given):
    residuals = given["probabilities"] - np.eye(5)[given["probabilities"].argmax(axis=1)]
    norms = np.linalg.norm(residuals, axis=1) * np.linalg.norm(given["embeddings"], axis=1)
    norms[given["labeled"]] = 0
    assert {int(hr.select("badge", 3, **given, seed=seed).rows[0]) for seed in range(9)} == {int(norms.argmax())}
    random = hr.Badge(first="random")
    assert len({int(hr.select(random, 3, **given, seed=seed).rows[0]) for seed in range(9)}) > 4


def test_coreset_begins_at_random_only_without_labels(given):
    assert len({hr.select("coreset", 3, **given, seed=seed).rows.tobytes() for seed in range(9)}) == 1
    del given["labeled"]
    assert len({int(hr.select("coreset", 3, **given, seed=seed).rows[0]) for seed in range(9)}) > 4


@pytest.mark.parametrize("make", [hr.Badge, hr.CoreSet])
@pytest.mark.parametrize("parts", [2, 3, 7, 500])
def test_partitions_give_whole_batches(make, parts, given):
    for k in (1, 10, 101):
        batch = hr.select(make(partitions=parts), k, **given, seed=parts)
        assert len(np.unique(batch.rows)) == k
        assert not given["labeled"][batch.rows].any()


def test_parts_and_shares_are_even_and_cover_everything():
    for n, k, parts in [(10, 7, 3), (10, 10, 4), (3, 2, 5), (100, 99, 7)]:
        split = partitions.split(np.arange(n) * 2, k, parts, np.random.default_rng(0))
        sizes, shares = [len(part.rows) for part in split], [part.share for part in split]
        assert sorted(np.concatenate([part.rows for part in split])) == list(range(0, 2 * n, 2))
        assert sum(shares) == k
        assert max(sizes) - min(sizes) <= 1
        assert max(shares) - min(shares) <= 1
        assert all(share <= size for size, share in zip(sizes, shares, strict=True))


def test_every_row_lands_in_every_part_equally_often():
    rng = np.random.default_rng(0)
    counts = np.zeros((6, 3))
    for _ in range(3000):
        for number, part in enumerate(partitions.split(np.arange(6), 3, 3, rng)):
            counts[part.rows, number] += 1
    assert np.abs(counts - 1000).max() < 120  # 4.6 standard deviations of a count


@pytest.mark.parametrize(
    "strategy",
    [hr.Badge(), hr.Badge(first="random"), hr.CoreSet(), hr.CoreSet(metric="cosine"), hr.CoreSet(partitions=2)],
)
def test_duplicates_are_filled_up_at_random_with_a_warning(strategy):
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(4, 6)).astype(np.float32)
    given = {"embeddings": np.tile(distinct, (10, 1)), "probabilities": np.tile(rng.dirichlet(np.ones(3), 4), (10, 1))}
    if isinstance(strategy, hr.CoreSet) and strategy.metric == "cosine":
        given["embeddings"] = given["embeddings"] * rng.uniform(0.1, 9, (40, 1))  # one direction, any length
    with pytest.warns(
        hr.HedgerowWarning, match=r"found \d+ distinct points for a batch of 20.*: 1[26] rows were drawn"
    ):
        batch = hr.select(strategy, 20, **given)
    assert len(np.unique(batch.rows)) == 20
    if strategy.partitions == 1:
        assert sorted(batch.rows[:4] % 4) == [0, 1, 2, 3]


def test_sure_predictions_have_no_gradient_and_are_drawn_at_random():
    given = {"probabilities": np.tile([[1.0, 0.0]], (30, 1)), "embeddings": np.ones((30, 2))}
    with pytest.warns(hr.HedgerowWarning, match="badge found 1 distinct points for a batch of 10"):
        assert len(hr.select("badge", 10, **given)) == 10


def test_copies_of_labeled_rows_are_no_new_points():
    points = np.repeat(np.eye(3), 4, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = hr.select("coreset", 2, embeddings=points, labeled=[0])
    assert batch.rows.tolist() == [4, 8]
    with pytest.warns(hr.HedgerowWarning, match="coreset found 2 distinct points for a batch of 5"):
        assert len(np.unique(hr.select("coreset", 5, embeddings=points, labeled=[0]).rows)) == 5


# Draws by margin.


def test_a_draw_by_margin_refuses_margins_of_logits():
    for strategy in (hr.StochasticMargin(), hr.ClusterMargin(power=1)):
        with pytest.raises(hr.InputError, match=r"margins holds 2.5 in row 1: a draw by margin needs"):
            hr.select(strategy, 1, margins=[0.1, 2.5, 0.3], clusters=[0, 1, 2])
    assert len(hr.select("stochastic-margin", 3, margins=np.float32([0.1, 1.005, 0.3]))) == 3


def test_sure_rows_come_last_in_random_order():
    margins = np.array([1.0, 0.9999, 1.0, 1.0, 0.2, 1.0], np.float32)
    batches = [hr.select(hr.StochasticMargin(8.0), 6, margins=margins, seed=seed).rows for seed in range(30)]
    assert {frozenset(rows[:2].tolist()) for rows in batches} == {frozenset({1, 4})}
    assert len({rows[2:].tobytes() for rows in batches}) > 10
    batches = [hr.select(hr.StochasticMargin(0), 1, margins=margins, seed=seed).rows[0] for seed in range(60)]
    assert set(batches) == set(range(6))


def test_a_large_power_is_margin(given):
    given["margins"] = np.linspace(0, 0.99, N)[np.random.default_rng(0).permutation(N)]
    by_margin = hr.select("margin", 20, **given).rows
    assert np.array_equal(hr.select(hr.StochasticMargin(1e5), 20, **given).rows, by_margin)
    drawn = hr.select(hr.ClusterMargin(3, power=1e5), 20, **given, seed=4).rows
    assert set(drawn) <= set(hr.select("margin", 60, **given).rows)


def test_without_a_power_cluster_margin_is_the_paper(given):
    for seed in range(5):
        assert np.array_equal(
            hr.select(hr.ClusterMargin(2.0, None), 30, **given, seed=seed).rows,
            hr.select(hr.ClusterMargin(2.0), 30, **given, seed=seed).rows,
        )
    drawn = [hr.select(hr.ClusterMargin(1.0, power=1.0), 30, **given, seed=seed).rows for seed in range(2)]
    assert set(drawn[0]) != set(drawn[1])


# Hard data for BADGE and CoreSet.

DIVERSE = [hr.Badge(), hr.Badge(first="random"), hr.CoreSet(), hr.CoreSet(metric="cosine")]
LAYOUTS = [*DIVERSE, hr.TypiClust(), hr.TypiClust(metric="euclidean"), hr.ProbCover(), hr.MaxHerding(), hr.UHerding()]


@pytest.mark.parametrize("strategy", DIVERSE)
def test_equal_embeddings_are_one_point(strategy):
    given = {"probabilities": np.tile([[0.5, 0.3, 0.2]], (40, 1)), "embeddings": np.full((40, 6), 0.1)}
    with pytest.warns(hr.HedgerowWarning, match="found 1 distinct points for a batch of 7"):
        assert len(np.unique(hr.select(strategy, 7, **given).rows)) == 7


@pytest.mark.parametrize("strategy", DIVERSE)
def test_all_rows_can_be_picked_without_a_warning(strategy, given):
    del given["labeled"]
    assert sorted(hr.select(strategy, N, **given).rows) == list(range(N))


def test_one_predicted_class_is_no_trouble():
    rng = np.random.default_rng(0)
    probabilities = np.column_stack([np.linspace(0.6, 0.99, 50), np.linspace(0.4, 0.01, 50)])
    rows = hr.select("badge", 20, probabilities=probabilities, embeddings=rng.normal(size=(50, 3))).rows
    assert len(np.unique(rows)) == 20
    with pytest.raises(hr.InputError, match="at least 2 columns"):
        hr.select("badge", 2, probabilities=np.ones((50, 1)), embeddings=rng.normal(size=(50, 3)))


def test_ten_thousand_classes():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(10_000, 0.01), 300).astype(np.float32)
    rows = hr.select("badge", 40, probabilities=probabilities, embeddings=rng.normal(size=(300, 4)).astype("f4")).rows
    assert len(np.unique(rows)) == 40


@pytest.mark.parametrize("labeled", [None, [], np.zeros(N, bool)])
@pytest.mark.parametrize("strategy", DIVERSE)
def test_an_empty_labeled_set_is_none(strategy, labeled, given):
    given["labeled"] = None
    expected = hr.select(strategy, 20, **given).rows
    assert np.array_equal(hr.select(strategy, 20, **(given | {"labeled": labeled})).rows, expected)


@pytest.mark.parametrize("name", ["badge", "coreset"])
def test_lengths_beyond_float32_are_refused(name, given):
    given["embeddings"] = given["embeddings"] * np.float32(1e25)
    with pytest.raises(hr.InputError, match="squared length is beyond float32"):
        hr.select(name, 5, **given)


@pytest.mark.parametrize("strategy", LAYOUTS)
def test_how_the_arrays_lie_in_memory_changes_nothing(strategy, given):
    """float64, float16, columns first, read-only: the same numbers, the same rows."""
    given["embeddings"] = given["embeddings"].astype(np.float16).astype(np.float32)
    expected = hr.select(strategy, 30, **given).rows
    locked = given["embeddings"].copy()
    locked.flags.writeable = False
    for embeddings in (
        given["embeddings"].astype(np.float64),
        given["embeddings"].astype(np.float16),
        np.asfortranarray(given["embeddings"]),
        np.repeat(given["embeddings"], 2, axis=0)[::2],
        locked,
    ):
        assert np.array_equal(hr.select(strategy, 30, **(given | {"embeddings": embeddings})).rows, expected)


# Strategies by name.


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("margin", {}, hr.Margin()),
        ("cluster-margin", {"margin_factor": "5", "power": "none"}, hr.ClusterMargin(5.0)),
        ("cluster-margin", {"margin_factor": 5, "power": 2.5}, hr.ClusterMargin(5.0, 2.5)),
        ("coreset", {"partitions": "3", "metric": "cosine", "split_labeled": "Yes"}, hr.CoreSet(3, "cosine", True)),
        ("badge", {"first": "random"}, hr.Badge(first="random")),
    ],
)
def test_make_types_options_by_the_fields(name, options, expected):
    made = strategies.make(name, options)
    assert made == expected
    assert repr(made) == repr(expected)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("margins", {}, "did you mean 'margin'"),
        ("margin", {"power": 1}, r"'margin' has no option 'power': it has none; cluster-margin, .* have it"),
        ("hedge", {"first": "random"}, "'hedge' has no option 'first': it has power, .*; badge has it"),
        ("badge", {"needs": 1}, "'badge' has no option 'needs': it has partitions, first"),
        ("badge", {"partitions": "many"}, "partitions must be a whole number, got 'many'"),
        ("badge", {"partitions": "0"}, "partitions must be at least 1"),
        ("cluster-margin", {"power": "x"}, "power must be a number or none, got 'x'"),
        ("coreset", {"split_labeled": "perhaps"}, "split_labeled must be true or false"),
        ("coreset", {"split_labeled": 1}, "split_labeled must be True or False"),
    ],
)
def test_make_refuses(name, options, message):
    with pytest.raises(hr.InputError, match=message):
        strategies.make(name, options)


def test_needs_are_declared_or_everything():
    assert strategies.find_needs("margin") == strategies.find_needs(hr.Margin()) == {"margins"}
    assert strategies.find_needs(first_rows) == strategies.EVERYTHING
    with pytest.raises(hr.InputError, match="did you mean"):
        strategies.find_needs("margn")
