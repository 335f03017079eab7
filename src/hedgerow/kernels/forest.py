"""Merge trees: consistent heights, node numbers, labels of a cut. Sequential, O(merges) each."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel
def raise_heights(left, right, heights, top):
    """Raises every merge to at least the height of those below it. In log order; top (n,): scratch, all zeros."""
    for i in range(len(left)):
        below = top[left[i]] if top[left[i]] > top[right[i]] else top[right[i]]
        if below > heights[i]:
            heights[i] = below
        top[left[i]] = heights[i]


@kernel
def number_nodes(left, right, node, merges):
    """Node numbers of merges given by a point of each of the two clusters, left and right: merge i makes node n + i.

    node (n,): 0..n-1 at the start, scratch. merges (m, 2): lower node first.
    """
    n = len(node)
    for i in range(len(left)):
        a = node[left[i]]
        b = node[right[i]]
        merges[i, 0], merges[i, 1] = (a, b) if a < b else (b, a)
        node[left[i]] = n + i


@kernel
def label_log(left, right, owner, labels, point):
    """Labels (n,) after the merges of a log, numbered by first appearance; point (labels,): a point of each cluster.

    The left point of a merge represents the result. Paths to the representative are compressed as they are followed.
    owner (n,) is scratch.
    """
    n = len(owner)
    for i in range(n):
        owner[i] = i
        labels[i] = -1
    for i in range(len(left)):
        owner[right[i]] = left[i]
    fresh = np.int32(0)
    for i in range(n):
        top = i
        while owner[top] != top:
            top = owner[top]
        if labels[top] < 0:
            labels[top] = fresh
            point[fresh] = top
            fresh += np.int32(1)
        labels[i] = labels[top]
        step = i
        while step != top:
            after = owner[step]
            owner[step] = top
            step = after


@kernel
def label_points(merges, count, n, owner, number, labels):
    """Labels (n,) int32 after the first `count` merges, numbered by first appearance.

    A node's owner is the node it was merged into; going from the last merge down gives each node its topmost owner.
    owner int64 and number int32 (n + count,) are scratch.
    """
    for i in range(n + count):
        owner[i] = i
        number[i] = -1
    for i in range(count - 1, -1, -1):
        owner[merges[i, 0]] = owner[n + i]
        owner[merges[i, 1]] = owner[n + i]
    fresh = np.int32(0)
    for i in range(n):
        top = owner[i]
        if number[top] < 0:
            number[top] = fresh
            fresh += np.int32(1)
        labels[i] = number[top]


@kernel
def count_sizes(merges, n, sizes):
    """sizes (m,) = the number of points under each merge."""
    for i in range(len(merges)):
        total = 0
        for side in range(2):
            child = merges[i, side]
            total += 1 if child < n else sizes[child - n]
        sizes[i] = total
