"""Average precision from sorted scores, given as integer keys that sort like them."""

from hedgerow.kernels.compiling import kernel


@kernel
def spread_keys(bits, labels, classes, places, keys):
    """Writes the key of every score to its group's part of keys (m,): group 2 c + label for class c.

    bits (m,) uint32 or uint64: keys that sort like the scores; labels (m,) bool; classes (m,) int32, or (0,) if there
    is one class; places (2 C,) int64: the start of each group, changed to its end.
    """
    many = classes.size > 0
    for i in range(bits.size):
        group = 2 * (classes[i] if many else 0) + labels[i]
        keys[places[group]] = bits[i]
        places[group] += 1


@kernel
def count_groups(labels, classes, counts):
    """counts (2 C,) int64, zero at first: the number of scores in each group of `spread_keys`."""
    many = classes.size > 0
    for i in range(labels.size):
        counts[2 * (classes[i] if many else 0) + labels[i]] += 1


@kernel
def add_precisions(negatives, positives):
    """The mean precision at each positive, equal keys taken together; both arrays are sorted ascending.

    That is the sum of (recall gained) * (precision) over the distinct scores, from the highest down. O(m).
    """
    total = 0.0
    above = 0  # negatives with the same or a higher score
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
