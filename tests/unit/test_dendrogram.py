import numpy as np
import pytest
from scipy.cluster.hierarchy import dendrogram, fcluster, is_valid_linkage

import hedgerow as hr
from hedgerow.clustering.dendrogram import Log, build_tree


@pytest.fixture
def tree():
    """Five points: {0, 1} at 1, {3, 4} at 2, {0, 1, 2} at 3, all at 4."""
    log = Log(np.array([3, 0, 0, 0]), np.array([4, 1, 2, 3]), np.array([2.0, 1.0, 3.0, 4.0]))
    return build_tree(5, log)


def test_lowest_merge_comes_first(tree):
    assert tree.heights.tolist() == [1, 2, 3, 4]
    assert tree.merges.tolist() == [[0, 1], [3, 4], [2, 5], [6, 7]]


def test_a_late_merge_is_as_high_as_what_it_joins():
    tree = build_tree(3, Log(np.array([0, 0]), np.array([1, 2]), np.array([2.0, 1.0])))
    assert tree.heights.tolist() == [2, 2]
    assert tree.merges.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("threshold", "labels"),
    [(0, [0, 1, 2, 3, 4]), (1, [0, 0, 1, 2, 3]), (2.5, [0, 0, 1, 2, 2]), (3, [0, 0, 0, 1, 1]), (9, [0, 0, 0, 0, 0])],
)
def test_a_cut_makes_every_merge_up_to_its_threshold(tree, threshold, labels):
    cut = tree.cut(threshold=threshold)
    assert cut.tolist() == labels
    assert cut.dtype == np.int32


@pytest.mark.parametrize(("size", "threshold"), [(1, 0), (1.2, 1), (1.25, 1), (1.26, 2), (2.5, 3), (3, 4), (5, 4)])
def test_average_size_takes_the_smallest_threshold_that_reaches_it(tree, size, threshold):
    assert tree.threshold_for(average_size=size) == threshold
    labels = tree.cut(average_size=size)
    assert 5 / (labels.max() + 1) >= size


def test_n_clusters_is_at_most_what_was_asked_for(tree):
    assert [tree.cut(n_clusters=count).max() + 1 for count in (1, 2, 3, 4, 5, 9)] == [1, 2, 3, 4, 5, 5]
    ties = build_tree(4, Log(np.array([0, 2]), np.array([1, 3]), np.array([1.0, 1.0])))
    assert ties.cut(n_clusters=3).max() + 1 == 2


def test_scipy_accepts_it(tree):
    matrix = tree.to_scipy()
    assert is_valid_linkage(matrix)
    assert len(set(fcluster(matrix, 2.5, "distance"))) == 3
    assert sorted(dendrogram(matrix, no_plot=True)["leaves"]) == [0, 1, 2, 3, 4]
    assert matrix[:, 3].tolist() == [2, 2, 3, 5]


def test_scipys_form_needs_a_complete_tree():
    with pytest.raises(hr.InputError, match="complete tree"):
        build_tree(3, Log(np.array([0]), np.array([1]), np.array([1.0]))).to_scipy()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"threshold": 1, "n_clusters": 2}, "exactly one"),
        ({"threshold": -1}, "at least 0"),
        ({"threshold": float("nan")}, "finite"),
        ({"average_size": 0.5}, "at least 1"),
        ({"average_size": 6}, "cannot be reached"),
        ({"n_clusters": 0}, "at least 1"),
        ({"n_clusters": 2.5}, "whole number"),
    ],
)
def test_bad_cuts(tree, arguments, message):
    with pytest.raises(hr.InputError, match=message):
        tree.cut(**arguments)


def test_a_partial_tree_says_that_it_ends_too_soon():
    tree = build_tree(4, Log(np.array([0]), np.array([1]), np.array([1.0])))
    with pytest.raises(hr.InputError, match="ends at 3 clusters, but 1 were asked for"):
        tree.cut(n_clusters=1)


def test_repr():
    tree = hr.linkage(np.array([[0.0], [1.0], [5.0]]), metric="sqeuclidean")
    assert repr(tree) == "Dendrogram(3 points, 2 merges up to height 20.5, complete)"
    part = hr.linkage(np.array([[0.0], [1.0], [5.0]]), metric="sqeuclidean", threshold=2)
    assert repr(part) == "Dendrogram(3 points, 1 merges up to height 1, ends at 2 clusters)"
    assert repr(hr.linkage(np.zeros((0, 2)))) == "Dendrogram(0 points, 0 merges, complete)"
    assert "<th>heights</th><td>1 to 20.5</td>" in tree._repr_html_()
    assert "heights" not in hr.linkage(np.zeros((0, 2)))._repr_html_()
