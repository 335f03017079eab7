"""The best of many centroids for each of some rows, from blocks of inner products."""

from numba import njit


@njit(cache=True, nogil=True)
def keep_best(products, half, members, numbers, best, value):
    """Keeps for row members[i] the centroid numbers[j] with the largest products[i, j] - half[j], of equals the lower.

    products (q, c), half (c,), numbers (c,); best int32 and value (n,) hold what was best so far: -1, -infinity.
    """
    for i in range(products.shape[0]):
        row = members[i]
        for j in range(products.shape[1]):
            merit = products[i, j] - half[j]
            if merit > value[row] or (merit == value[row] and 0 <= numbers[j] < best[row]):
                value[row] = merit
                best[row] = numbers[j]
