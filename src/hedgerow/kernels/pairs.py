"""(row, class) pairs: marks and margins of their rows, and a selection with limits per row and class."""

from hedgerow.kernels.compiling import kernel


@kernel
def mark_rows(rows, labeled, wanted, marked):
    """Sets marked (n,) bool for the row of every pair that is labeled (wanted=True) or unlabeled (wanted=False).

    rows (m,) int64 in 0..n-1; labeled (m,) bool, or (0,) for none.
    """
    masked = labeled.size > 0
    for i in range(rows.size):
        if (masked and labeled[i]) == wanted:
            marked[rows[i]] = True


@kernel
def lower_rows(rows, labeled, margins, lowest):
    """Lowers lowest (n,) float32 to the lowest of margins (m,) float32 of each row's unlabeled pairs."""
    masked = labeled.size > 0
    for i in range(rows.size):
        if not (masked and labeled[i]) and margins[i] < lowest[rows[i]]:
            lowest[rows[i]] = margins[i]


@kernel
def add_rows(rows, labeled, margins, sums, counts):
    """Adds margins (m,) float32 of each row's unlabeled pairs to sums (n,) float64, their number to counts (n,)."""
    masked = labeled.size > 0
    for i in range(rows.size):
        if not (masked and labeled[i]):
            sums[rows[i]] += margins[i]
            counts[rows[i]] += 1


@kernel
def raise_rows(rows, absent, chances, first, second):
    """Raises first and second (n,) to the two largest of chances (m,) of each row, all three float32.

    absent (m,) bool: pairs that do not count, or (0,) for none.
    """
    masked = absent.size > 0
    for i in range(rows.size):
        if masked and absent[i]:
            continue
        row, chance = rows[i], chances[i]
        if chance > first[row]:
            second[row] = first[row]
            first[row] = chance
        elif chance > second[row]:
            second[row] = chance


@kernel
def pick_within_limits(walk, rows, classes, per_row, per_class, row_counts, class_counts, picks):
    """Picks pairs in the order of `walk` (indices of pairs), skipping those whose row or class has reached its limit.

    per_row, per_class: the limits. row_counts (n,), class_counts (C,) int32: zero at first. Writes up to picks.size
    indices to picks and returns how many.
    """
    count = 0
    for pair in walk:
        if count == picks.size:
            break
        row, label = rows[pair], classes[pair]
        if row_counts[row] < per_row and class_counts[label] < per_class:
            row_counts[row] += 1
            class_counts[label] += 1
            picks[count] = pair
            count += 1
    return count
