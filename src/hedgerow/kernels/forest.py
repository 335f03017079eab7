"""Merge trees: consistent heights, node numbers, labels of a cut. Sequential, O(merges) each."""

import numpy as np

from hedgerow.kernels.compiling import kernel


@kernel
def raise_heights(left, right, heights, top):
    """A merge is at least as high as those below it (late merges, rounding). In log order; top (n,) zeros, scratch."""
    for i in range(len(left)):
        below = top[left[i]] if top[left[i]] > top[right[i]] else top[right[i]]
        if below > heights[i]:
            heights[i] = below
        top[left[i]] = heights[i]


@kernel
def number_nodes(left, right, node, merges):
    """Points left[i], right[i] that stand for clusters -> node numbers: merge i makes node n + i.

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
    """Labels (n,) after the merges of a log, numbered by first appearance; point (labels,): what stands for each.

    The left point of a merge goes on. A point's owner is reached by walking, and the walk is shortened for the next.
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

    A node's owner is the node that swallowed it; walking from the last merge down gives each node its top.
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
    """sizes (m,): points under each merge."""
    for i in range(len(merges)):
        total = 0
        for side in range(2):
            child = merges[i, side]
            total += 1 if child < n else sizes[child - n]
        sizes[i] = total
