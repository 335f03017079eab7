"""Average precision out of sorted scores, as integer keys that order like them."""

from hedgerow.kernels.compiling import kernel


@kernel
def spread_keys(bits, labels, classes, places, keys):
    """Writes the key of every score to its group's part of keys (m,), the groups 2 c (labels 0) and 2 c + 1 (labels 1).

    bits (m,) uint32 or uint64: those of the scores, made to order like them; labels (m,) bool; classes (m,) int32, or
    (0,) where there is one class; places (2 C,) int64: where each group begins, and then where it ends.
    """
    many = classes.size > 0
    for i in range(bits.size):
        group = 2 * (classes[i] if many else 0) + labels[i]
        keys[places[group]] = bits[i]
        places[group] += 1


@kernel
def count_groups(labels, classes, counts):
    """counts (2 C,) int64, zero before: how many scores each group of `spread_keys` has."""
    many = classes.size > 0
    for i in range(labels.size):
        counts[2 * (classes[i] if many else 0) + labels[i]] += 1


@kernel
def add_precisions(negatives, positives):
    """The mean over the positives of the precision where each is reached; both sorted ascending, equal keys together.

    That is the sum of (recall gained) * (precision) over the distinct scores, from the highest down. O(m).
    """
    total = 0.0
    above = 0  # negatives that score as high or higher
    last = positives.size - 1
    left = negatives.size - 1
    while last >= 0:
        first = last
        while first > 0 and positives[first - 1] == positives[last]:
            first -= 1
        while left >= 0 and negatives[left] >= positives[last]:
            left -= 1
        above = negatives.size - 1 - left
        reached = positives.size - first
        total += (last - first + 1) * (reached / (reached + above))
        last = first - 1
    return total / positives.size
