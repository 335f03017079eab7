"""Gathering rows of a matrix, and rows of probabilities as the residuals of BADGE's gradients."""

import math

import numpy as np

from hedgerow.kernels.compiling import helper, kernel


@kernel
def gather_rows(matrix, rows, out):
    """out (m, w) = matrix[rows], in float32 or float64."""
    for i in range(rows.size):
        for j in range(out.shape[1]):
            out[i, j] = matrix[rows[i], j]


@kernel
def gather_residuals(probabilities, rows, out):
    """out (m, C) float32 = p - onehot(argmax p) for the rows; ties go to the first class. Cost: m C.

    With two classes both entries have the same magnitude and opposite signs, so one number is enough for inner
    products: out is (m, 1) and holds sqrt(2) times the first entry, computed as half the difference of the two, which
    only differs by the rounding of probabilities that do not quite sum to 1. A single column is the probability of the
    second of two classes.
    """
    classes = probabilities.shape[1]
    for i in range(rows.size):
        p = probabilities[rows[i]]
        if classes == 1:
            out[i, 0] = (0.0 - p[0] if p[0] <= 0.5 else 1.0 - p[0]) * math.sqrt(2.0)
            continue
        likeliest = 0
        for j in range(1, classes):
            if p[j] > p[likeliest]:
                likeliest = j
        if classes == 2:
            sign = -1.0 if likeliest == 0 else 1.0
            # (p0 - p1 -+ 1) / 2 times sqrt(2), with the difference first, because it is exact near p = 1.
            out[i, 0] = (p[0] - p[1] + sign) / math.sqrt(2.0)
        else:
            for j in range(classes):
                out[i, j] = p[j]
            out[i, likeliest] = p[likeliest] - 1.0


@helper(fastmath={"reassoc", "contract"})
def dot(x, y):
    """<x, y> of two float32 vectors, summed in float64."""
    total = 0.0
    for j in range(x.size):
        total += np.float64(x[j]) * np.float64(y[j])
    return total
