"""Questions (row, class) and the rows they ask about: what rows have, and a walk that passes over full ones."""

from hedgerow.kernels.compiling import kernel


@kernel
def mark_rows(rows, labeled, wanted, marked):
    """marked (n,) bool is set for every row of a pair that is labeled, or unlabeled, as `wanted` says.

    rows (m,) int64 in 0..n-1; labeled (m,) bool, or (0,) for none.
    """
    masked = labeled.size > 0
    for i in range(rows.size):
        if (masked and labeled[i]) == wanted:
            marked[rows[i]] = True


@kernel
def lower_rows(rows, labeled, margins, lowest):
    """lowest (n,) float32 down to the lowest margin (m,) float32 of each row's unlabeled pairs."""
    masked = labeled.size > 0
    for i in range(rows.size):
        if not (masked and labeled[i]) and margins[i] < lowest[rows[i]]:
            lowest[rows[i]] = margins[i]


@kernel
def pass_over(walk, rows, classes, per_row, per_class, row_counts, class_counts, picks):
    """The first of `walk` (places among the pairs) whose rows and classes are not full: written to picks, counted.

    per_row, per_class: the most of each. row_counts (n,), class_counts (C,) int32, zero before. Up to picks.size.
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
