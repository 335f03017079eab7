"""Pairs and select_pairs: what they give, what they refuse."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow import checks, pairs, scores

N, CLASSES = 60, 5
NAMES = list(hr.PAIR_STRATEGIES)
DRAWN = [
    "cluster-margin", "cluster-margin-pairs", "stochastic-margin", "badge", "random", "cluster-margin-shuffled",
    "uniform-candidates", "cluster-margin-pairs-shuffled", "uniform-candidate-pairs",
]  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coreset found", hr.HedgerowWarning)  # every row has a labeled pair
        yield


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    cells = np.sort(rng.choice(N * CLASSES, 200, replace=False))
    return {
        "pairs": hr.Pairs(cells // CLASSES, cells % CLASSES),
        "probabilities": rng.random((N, CLASSES)).astype(np.float32),
        "embeddings": rng.normal(size=(N, 8)).astype(np.float32),
        "clusters": rng.integers(0, 12, N),
        "labeled": rng.random(200) < 0.3,
    }


# Pairs


def test_pairs_hold_numbers_that_cannot_be_written():
    rows, classes = np.array([3, 0, 3]), np.array([1, 0, 0], np.int32)
    asked = hr.Pairs(rows, classes)
    assert (len(asked), asked.row_count, asked.class_count) == (3, 4, 2)
    assert (asked.rows.dtype, asked.classes.dtype) == (np.int64, np.int32)
    assert np.shares_memory(asked.rows, rows)
    assert rows.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        asked.rows[0] = 7


@pytest.mark.parametrize("form", [list, tuple, np.uint8, np.int16, np.uint64])
def test_pairs_take_any_whole_numbers(form):
    numbers = ([2, 0], [1, 3]) if not isinstance(form, type) or form in (list, tuple) else None
    rows, classes = (
        (form(numbers[0]), form(numbers[1])) if numbers else (np.array([2, 0], form), np.array([1, 3], form))
    )
    asked = hr.Pairs(rows, classes)
    assert (asked.rows.tolist(), asked.classes.tolist()) == ([2, 0], [1, 3])


def test_no_pairs_at_all():
    asked = hr.Pairs([], [])
    assert (len(asked), asked.row_count, asked.class_count) == (0, 0, 0)
    assert len(hr.select_pairs("random", 0, pairs=asked)) == 0
    assert asked.find([], []).tolist() == []
    with pytest.raises(hr.PoolExhaustedError, match="1 pairs were asked for, but only 0"):
        hr.select_pairs("random", 1, pairs=asked)


@pytest.mark.parametrize(
    ("rows", "classes", "message"),
    [
        ([0, 1, 0], [2, 2, 2], "1 pairs occur more than once: row 0, class 2"),
        (
            [1, 1, 0, 0, 5, 5, 7, 7],
            [0, 0, 1, 1, 2, 2, 3, 3],
            "4 pairs .* row 0, class 1; row 1, class 0; row 5, class 2; ...",
        ),
        ([0, 1], [0], "rows has 2, classes has 1"),
        ([0, -1], [0, 0], "rows holds -1 in pair 1"),
        ([0, 1], [0, -2], "classes holds -2 in pair 1"),
        ([0, 1], [0, 2**31], "classes holds 2147483648 in pair 1"),
        ([0.5, 1], [0, 0], "rows must be whole numbers"),
        ([[0, 1]], [0, 0], "one dimension"),
        ([2**62, 1], [5, 0], "positions in the pool, not ids"),
        (["a", "b"], [0, 0], "rows must be whole numbers"),
    ],
)
def test_pairs_refuse(rows, classes, message):
    with pytest.raises(hr.InputError, match=message):
        hr.Pairs(rows, classes)


def test_pairs_are_found_again(monkeypatch):
    monkeypatch.setattr("hedgerow.pairs.pairs.STEP", 7)
    rng = np.random.default_rng(1)
    cells = rng.permutation(60)[:41]
    asked = hr.Pairs(cells // 6, cells % 6)
    places = rng.integers(0, 41, 100)
    assert asked.find(asked.rows[places], asked.classes[places]).tolist() == places.tolist()
    gone = np.setdiff1d(np.arange(60), cells)
    with pytest.raises(
        hr.InputError, match=f"1 of 2 pairs are not among the pool's: row {gone[0] // 6}, class {gone[0] % 6}"
    ):
        asked.find([cells[0] // 6, gone[0] // 6], [cells[0] % 6, gone[0] % 6])
    with pytest.raises(hr.InputError, match="row 999, class 0"):
        asked.find([999], [0])
    with pytest.raises(hr.InputError, match="more than once"):
        hr.Pairs(np.append(asked.rows, asked.rows[5]), np.append(asked.classes, asked.classes[5]))


# select_pairs


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_gives_k_distinct_unlabeled_pairs(name, given):
    batch = hr.select_pairs(name, 50, **given)
    assert (batch.index.dtype, batch.rows.dtype, batch.classes.dtype) == (np.int64, np.int64, np.int32)
    assert len(batch) == len(np.unique(batch.index)) == 50
    assert not given["labeled"][batch.index].any()
    assert np.array_equal(batch.rows, given["pairs"].rows[batch.index])
    assert np.array_equal(batch.classes, given["pairs"].classes[batch.index])
    assert (batch.strategy, batch.seed) == (name, 0)
    assert not any(values.flags.writeable for values in (batch.rows, batch.classes, batch.index))


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_one_answer(name, given):
    first = hr.select_pairs(name, 50, **given, seed=3).index
    assert np.array_equal(first, hr.select_pairs(hr.PAIR_STRATEGIES[name](), 50, **given, seed=3).index)
    if name in DRAWN:
        assert not np.array_equal(first, hr.select_pairs(name, 50, **given, seed=4).index)


@pytest.mark.parametrize("name", NAMES)
def test_all_and_nothing(name, given):
    free = np.flatnonzero(~given["labeled"])
    assert sorted(hr.select_pairs(name, len(free), **given).index) == free.tolist()
    assert len(hr.select_pairs(name, 0, **given)) == 0
    with pytest.raises(hr.PoolExhaustedError, match=f"201 pairs were asked for, but only {len(free)}"):
        hr.select_pairs(name, 201, **given)
    assert len(hr.select_pairs(name, 201, **given, allow_short=True)) == len(free)
    given["labeled"] = np.ones(200, bool)
    assert len(hr.select_pairs(name, 5, **given, allow_short=True)) == 0
    with pytest.raises(hr.PoolExhaustedError):
        hr.select_pairs(name, 1, **given)


@pytest.mark.parametrize("name", NAMES)
def test_labeled_places_and_mask_are_the_same(name, given):
    places = np.flatnonzero(given["labeled"])
    by_mask = hr.select_pairs(name, 20, **given).index
    assert np.array_equal(by_mask, hr.select_pairs(name, 20, **(given | {"labeled": places})).index)


@pytest.mark.parametrize("name", NAMES)
def test_a_matrix_and_its_pairs_are_the_same(name, given):
    asked = given["pairs"]
    by_matrix = hr.select_pairs(name, 20, **given).index
    for dtype in (np.float32, np.float64):
        each = given["probabilities"][asked.rows, asked.classes].astype(dtype)
        assert np.array_equal(by_matrix, hr.select_pairs(name, 20, **(given | {"probabilities": each})).index)


def test_margins_of_halves_are_those_of_their_values(given):
    halves = given["probabilities"].astype(np.float16)
    expected = hr.select_pairs("margin", 30, **(given | {"probabilities": halves.astype(np.float32)})).index
    assert np.array_equal(hr.select_pairs("margin", 30, **(given | {"probabilities": halves})).index, expected)


@pytest.mark.parametrize(("how", "row"), [(None, 1), ("lowest", 1), ("mean", 2), ("top2", 0)])
@pytest.mark.parametrize("of_matrix", [True, False])
def test_cluster_margin_ranks_rows_by_their_pairs(how, row, of_matrix):
    """Row 0 surely has two classes, row 1 has one open pair and one sure one, row 2 two that are half open."""
    asked = hr.Pairs([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    matrix = np.array([[0.99, 0.99, 0.5], [0.5, 0.0, 0.5], [0.7, 0.25, 0.25]])
    given = matrix if of_matrix else matrix[asked.rows, asked.classes]
    strategy, more = hr.ClusterMargin(1.0, row_margin=how), {"pairs": asked, "clusters": [0, 1, 2]}
    assert hr.select_pairs(strategy, 1, probabilities=given, **more).rows.tolist() == [row]


def test_a_labeled_pair_does_not_make_a_row_uncertain():
    given = {"pairs": hr.Pairs([0, 0, 1, 1], [0, 1, 0, 1]), "clusters": [0, 1], "labeled": [0]}
    for how in ("lowest", "mean"):
        strategy = hr.ClusterMargin(1.0, row_margin=how)
        assert hr.select_pairs(strategy, 1, probabilities=[0.5, 0.9, 0.8, 0.1], **given).rows.tolist() == [1]


def test_the_papers_margin_compares_all_classes_and_needs_them():
    asked = hr.Pairs([0, 1, 2], [0, 0, 0])
    matrix = np.array([[0.99, 0.99], [0.5, 0.0], [0.9, 0.2]])
    more = {"pairs": asked, "clusters": [0, 1, 2]}
    strategy = hr.ClusterMargin(1.0, row_margin="top2-all")
    assert hr.select_pairs(strategy, 1, probabilities=matrix, **more).rows.tolist() == [0]
    with pytest.raises(hr.InputError, match="row_margin='top2-all' needs the probabilities of all classes"):
        hr.select_pairs(strategy, 1, probabilities=matrix[:, 0], **more)


def test_a_row_margin_is_one_of_the_known_and_for_pairs_only():
    for kind in (hr.ClusterMargin, hr.ShuffledClusterMargin, hr.UniformCandidates, hr.InformedClusterMargin):
        with pytest.raises(hr.InputError, match="unknown row_margin 'lowestt': did you mean 'lowest'"):
            kind(row_margin="lowestt")
    with pytest.raises(hr.InputError, match="row_margin='mean' is for pairs"):
        hr.select(hr.ClusterMargin(row_margin="mean"), 1, margins=np.zeros(3), clusters=[0, 1, 2])


def test_pairs_without_predictions_do_not_count_in_the_margin_of_their_row():
    """Row 0 has a pair without a prediction: of the others, the top two are .1 apart. In row 1 they are .2 apart."""
    table = pa.table({"row": [0, 0, 1, 1], "class": [0, 1, 0, 1], "probability": [0.9, 0.8, 0.9, 0.7]})
    given = {"pairs": hr.Pairs([0, 0, 0, 1, 1], [0, 1, 2, 0, 1]), "clusters": [0, 1], "probabilities": table}
    for labeled in (None, [2], [2, 3]):
        batch = hr.select_pairs(hr.ClusterMargin(1.0, row_margin="top2"), 1, labeled=labeled, **given)
        assert batch.rows.tolist() == [0]


def test_a_row_stays_a_candidate_while_it_has_an_unlabeled_pair():
    asked = hr.Pairs([0, 0, 1], [0, 1, 0])
    given = {"pairs": asked, "probabilities": np.array([[0.5, 0.5], [0.9, 0.1]]), "clusters": [0, 0]}
    assert hr.select_pairs("cluster-margin", 1, labeled=[0, 2], **given).index.tolist() == [1]
    assert sorted(hr.select_pairs("cluster-margin", 2, labeled=[0], **given).index.tolist()) == [1, 2]


def test_coreset_leaves_rows_with_a_labeled_pair_for_last():
    asked = hr.Pairs([0, 0, 1, 2, 3], [0, 1, 0, 0, 0])
    points = np.array([[0, 0], [0, 1], [0, 9], [0, 5]], np.float32)
    given = {"pairs": asked, "embeddings": points}
    assert hr.select_pairs("coreset", 1, labeled=[0], **given).rows.tolist() == [2]
    assert sorted(hr.select_pairs("coreset", 3, labeled=[0], **given).rows.tolist()) == [1, 2, 3]
    assert sorted(hr.select_pairs("coreset", 4, labeled=[0], **given).index.tolist()) == [1, 2, 3, 4]


def test_badge_partitions_and_options_are_those_of_the_rows(given):
    for strategy in (hr.Badge(partitions=3), hr.CoreSet(partitions=3, metric="cosine"), hr.StochasticMargin(3.0)):
        batch = hr.select_pairs(strategy, 30, **given)
        assert len(np.unique(batch.index)) == 30


def test_only_what_is_needed_has_to_be_given(given):
    bare = {"pairs": given["pairs"]}
    assert len(hr.select_pairs("random", 9, **bare)) == 9
    for name, missing in [
        ("margin", "margins: pass probabilities"),
        ("stochastic-margin", "margins"),
        ("cluster-margin", "clusters: pass clusters"),
        ("cluster-margin-pairs", "clusters"),
        ("badge", "embeddings: pass embeddings"),
        ("coreset", "embeddings"),
    ]:
        with pytest.raises(hr.InputError, match=f"strategy '{name}' needs {missing}"):
            hr.select_pairs(name, 9, **bare)


def test_files_and_tables(given, tmp_path):
    asked = given["pairs"]
    each = given["probabilities"][asked.rows, asked.classes]
    np.save(tmp_path / "matrix.npy", given["probabilities"])
    table = pa.table({"row": asked.rows, "class": asked.classes, "probability": each})
    pq.write_table(table, tmp_path / "pairs.parquet")
    expected = hr.select_pairs("margin", 20, **given).index
    for source in (tmp_path / "matrix.npy", tmp_path / "pairs.parquet", table, pa.table({"p": each})):
        assert np.array_equal(hr.select_pairs("margin", 20, **(given | {"probabilities": source})).index, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": np.full(199, 0.5)}, "probabilities has 199 numbers, but there are 200 pairs"),
        ({"probabilities": np.full(200, 1.5)}, r"pair 0 \(row \d+, class \d+\) holds 1.5: .*between 0 and 1"),
        ({"probabilities": np.full((N, CLASSES), np.nan)}, "holds nan"),
        ({"probabilities": np.full((N, CLASSES), -0.1)}, "holds -0.1"),
        (
            {"probabilities": np.full((N, 3), 0.5)},
            r"pairs have classes that are not in 0 to 2: row \d+, class [34]; .*",
        ),
        (
            {"probabilities": np.full((N - 9, CLASSES), 0.5), "embeddings": None, "clusters": None},
            "not in the pool, whose rows are 0 to 50: row 5",
        ),
        ({"clusters": np.zeros(N - 1, int)}, "clusters has 59"),
        ({"clusters": np.full(N, -1)}, "labels are 0 or more"),
        ({"labeled": np.zeros(N, bool)}, "labeled is a mask of shape .60,., but the pool has 200 pairs"),
        ({"labeled": [200]}, "labeled holds pair 200, but the pool's pairs are 0 to 199"),
        ({"labeled": [3, 3]}, "labeled holds pair 3 more than once"),
        ({"pairs": ([0], [0])}, "pairs must be hedgerow.Pairs"),
        ({"seed": -1}, "seed"),
    ],
)
@pytest.mark.parametrize("name", ["margin", "cluster-margin-pairs"])
def test_select_pairs_refuses(name, change, message, given):
    if name == "cluster-margin-pairs" and change.get("clusters", 0) is None:
        change = change | {"clusters": np.zeros(N - 9, int)}
    with pytest.raises(hr.InputError, match=message):
        hr.select_pairs(name, 10, **(given | change))


@pytest.mark.parametrize("value", [np.nan, 1.25, -0.5, np.inf])
def test_the_matrix_is_checked_where_rows_are_ranked_by_it(given, value):
    given["probabilities"][17, 2] = value
    with pytest.raises(hr.InputError, match=f"row 17 of probabilities holds {value:g}"):
        hr.select_pairs(hr.ClusterMargin(row_margin="top2-all"), 10, **given)


@pytest.mark.parametrize(
    "options",
    [{"margin_factor": 0.5}, {"power": -1}, {"per_row": 0}, {"class_quota": 0}, {"per_row": 1.5}, {"by_class": "no"}],
)
def test_limits_are_checked(options):
    with pytest.raises(hr.InputError, match=next(iter(options))):
        hr.ClusterMarginPairs(**options)


def test_names_and_strategies_of_rows_alone_are_refused(given):
    with pytest.raises(hr.InputError, match="did you mean 'cluster-margin-pairs'"):
        hr.select_pairs("cluster-margin-pair", 5, **given)
    with pytest.raises(hr.InputError, match="unknown strategy 'entropy'"):
        hr.select_pairs("entropy", 5, **given)
    with pytest.raises(hr.InputError, match="strategy must be a name"):
        hr.select_pairs(hr.Margin, 5, **given)
    with pytest.raises(hr.InputError, match="Entropy cannot be used here"):
        hr.select_pairs(hr.Entropy(), 5, **given)
    with pytest.raises(hr.InputError, match="ClusterMarginPairs cannot be used here"):
        hr.select(hr.ClusterMarginPairs(), 5, margins=np.ones(9), clusters=np.arange(9))


@pytest.mark.parametrize("form", ["array", "chunked", "table", "lone table"])
def test_a_lone_column_is_a_number_a_pair(form):
    import pyarrow as pa

    pairs, chances = hr.Pairs([1, 0], [0, 0]), [0.5, 0.9]
    forms = {
        "array": pa.array(chances),
        "chunked": pa.chunked_array([chances]),
        "table": pa.table({"probability": chances}),
        "lone table": pa.table({"yes": chances}),
    }
    assert hr.select_pairs("margin", 1, pairs=pairs, probabilities=forms[form]).index.tolist() == [0]


def test_labeled_that_is_no_list_of_places(given):
    with pytest.raises(hr.InputError, match="labeled must be a mask of bools or a list of pairs"):
        hr.select_pairs("random", 1, **given | {"labeled": [[1], [1, 2]]})


def test_a_strategy_of_ones_own(given):
    def ask_about_class_two(view, k, rng):
        assert view.n == N
        assert view.margins is not None
        places = np.flatnonzero(view.pairs.classes == 2)
        return places[~view.labeled[places]][:k]

    batch = hr.select_pairs(ask_about_class_two, 5, **given)
    assert batch.classes.tolist() == [2] * 5
    assert batch.strategy == "ask_about_class_two"
    with pytest.raises(hr.InputError, match="has 3 pairs, but 5 were asked for"):
        hr.select_pairs(lambda view, k, rng: [0, 1, 2], 5, **given)
    for nothing in (None, 3, (place for place in range(5))):
        with pytest.raises(hr.InputError, match="whole pair numbers"):
            hr.select_pairs(lambda view, k, rng, nothing=nothing: nothing, 5, **given)
    with pytest.raises(hr.InputError, match="holds pair 900"):
        hr.select_pairs(lambda view, k, rng: [900], 1, **given)
    labeled = int(np.flatnonzero(given["labeled"])[0])
    with pytest.raises(hr.InputError, match=f"holds pair {labeled}, which is labeled"):
        hr.select_pairs(lambda view, k, rng: [labeled], 1, **given)


# The margins of rows


def test_independent_margins():
    matrix = np.array([[0.9, 0.8, 0.1], [0.0, 0.0, 0.0], [1.0, 1.0, 0.25], [0.5, 1.0, 0.0], [-0.0, -0.0, 0.5]])
    for dtype in (np.float16, np.float32, np.float64):
        expected = [0.1, 0.0, 0.0, 0.5, 0.5]
        assert scores.independent_margins(matrix.astype(dtype)) == pytest.approx(expected, abs=1e-3)
    wide = np.random.default_rng(0).random((50, 300)).astype(np.float32)
    ordered = np.sort(wide, axis=1)
    assert np.array_equal(scores.independent_margins(wide), ordered[:, -1] - ordered[:, -2])
    assert scores.independent_margins(np.array([[0.5], [0.9], [0.0]])) == pytest.approx([0, 0.8, 1], abs=1e-7)
    with pytest.raises(hr.InputError, match="row 2 of probabilities holds"):
        scores.independent_margins(np.array([[0.2, 0.3], [0.1, 0.1], [0.5, 1.5]]))


def test_margins_of_pairs_in_pieces(monkeypatch):
    chances = np.random.default_rng(0).random(100)
    monkeypatch.setattr(pairs, "STEP", 7)
    assert np.array_equal(pairs.measure_margins(chances), np.abs(2 * chances - 1).astype(np.float32))
    assert pairs.measure_margins(np.array([0.5, 0, 1])).tolist() == [0, 1, 1]


def test_groups_beyond_what_fits_are_renumbered():
    """Clusters x classes may be far more than there are pairs."""
    asked = hr.Pairs([0, 1, 2, 3], [2**30, 0, 2**30, 7])
    batch = hr.select_pairs(
        hr.ClusterMarginPairs(by_class=True), 3, pairs=asked, probabilities=np.full(4, 0.5), clusters=[9, 9, 9, 9]
    )
    assert len(set(batch.classes.tolist())) == 3
    assert checks.cluster_labels(np.array([2**60, 5]), 2).tolist() == [1, 0]
