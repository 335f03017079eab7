"""The nearest of many centroids for each row, from blocks of inner products."""

from hedgerow.kernels.compiling import kernel


@kernel
def keep_best(products, half, members, first, numbers, best, value):
    """Keeps for row members[i] the centroid at first + j with the largest products[i, j] - half[j].

    products (q, c), half (c,). best int64 and value (n,) hold the best so far; value is -infinity where there is none.
    Ties go to the centroid with the lower entry in numbers (m,).
    """
    for i in range(products.shape[0]):
        row = members[i]
        for j in range(products.shape[1]):
            merit = products[i, j] - half[j]
            if merit > value[row] or (merit == value[row] and numbers[first + j] < numbers[best[row]]):
                value[row] = merit
                best[row] = first + j
