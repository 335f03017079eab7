"""TypiClust: the most typical row of every group that has no label yet (Hacohen, Dekel and Weinshall 2022).

The pool is divided by k-means into as many groups as there will be labels, at most `most_groups`. Groups are visited
in the order of their labels, fewest first, and then of their size, largest first; a visit takes the most typical row:
the one with the smallest mean distance from its nearest unlabeled neighbors in the group. No model is needed.

As in the authors' code, groups of up to `least_size` rows are passed over. Here they come last instead, so that any
number of rows can be asked for; and distances are Euclidean, as in the paper, where the code squares them. Beyond
`groups.SAMPLE` rows per group, k-means trains on a sample, and the neighbors in groups of more than `EXACT_UP_TO` rows
are found by cells, which misses some.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.kernels.typicality import take_typical
from hedgerow.machine import Team, team
from hedgerow.strategies.coreset import METRICS
from hedgerow.strategies.view import View

if TYPE_CHECKING:
    from hedgerow.clustering.vectors import Vectors

Rows = npt.NDArray[np.int64]

EXACT_UP_TO = 10_000  # rows of a group that are compared with each other: a million rows take 10^10 distances


@dataclass(frozen=True)
class TypiClust:
    """k rows in the order of visits.

    `neighbors`: by how many the typicality of a row is measured; half of the group's unlabeled rows if that is less.
    `most_groups`: with more labels than this, groups are visited again. `metric`: "cosine", or "euclidean" for rows as
    they are. Uses all cores. Time: O(n groups d) for k-means, and distances within the groups that are visited. Memory:
    16 bytes per row of the pool; for the group at hand d float32 and 12 bytes per neighbor for each row.
    """

    neighbors: int = 20
    most_groups: int = 500
    least_size: int = 5
    metric: str = "cosine"
    needs: ClassVar[frozenset[str]] = frozenset({"embeddings"})

    def __post_init__(self) -> None:
        checks.integer(self.neighbors, "neighbors", least=1)
        checks.integer(self.most_groups, "most_groups", least=1)
        checks.integer(self.least_size, "least_size", least=0)
        checks.option(self.metric, "metric", METRICS)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        # Imported here, since they bring scipy, and other strategies start without; and before the team, which can only
        # limit the threads of a BLAS that is loaded.
        from hedgerow.strategies.groups import group_rows
        from hedgerow.strategies.points import open_points

        assert view.embeddings is not None
        labeled, free = view.labeled_rows(), view.unlabeled_rows()
        if k == 0:
            return free[:0]
        rows = np.concatenate([labeled, free])
        with team() as threads:
            vectors = open_points(view.embeddings, self.metric, threads)
            groups = group_rows(vectors, rows, min(len(labeled) + k, self.most_groups), rng, threads)
            visits = plan_visits(groups, len(labeled), k, self.least_size)
            held = groups[len(labeled) :]
            picked = np.empty(k, np.int64)
            for group in np.unique(visits):
                turns = np.flatnonzero(visits == group)
                members = free[held == group]
                picked[turns] = members[find_typical(vectors, members, len(turns), self.neighbors, threads)]
        return picked


def plan_visits(groups: npt.NDArray[np.int32], labeled: int, k: int, least_size: int) -> Rows:
    """The group of each of k picks. groups (m,): those of all rows, the labeled ones first.

    Groups with few labels come first, then large ones, turn by turn while they have unlabeled rows; groups of up to
    `least_size` rows only when all others are exhausted.
    """
    count = int(groups.max()) + 1
    sizes, labels = np.bincount(groups, minlength=count), np.bincount(groups[:labeled], minlength=count)
    order = np.lexsort((np.arange(count), -sizes, labels))
    free = (sizes - labels)[order]
    large = sizes[order] > least_size
    first = order[take_turns(np.where(large, free, 0), k)]
    return np.concatenate([first, order[take_turns(np.where(large, 0, free), k - len(first))]])


def take_turns(free: Rows, k: int) -> Rows:
    """The first k turns of a round-robin over groups with so many rows each: positions in `free`; fewer if it ends."""
    low, high = 0, int(free.max(initial=0))
    while low < high:  # the fewest rounds that give k turns
        rounds = (low + high) // 2
        low, high = (low, rounds) if np.minimum(free, rounds).sum() >= k else (rounds + 1, high)
    turns = np.minimum(free, low)
    group = np.repeat(np.arange(len(free)), turns)
    turn = np.arange(len(group)) - np.repeat(np.cumsum(turns) - turns, turns)
    return group[np.lexsort((group, turn))][:k]


def find_typical(vectors: "Vectors", members: Rows, count: int, neighbors: int, threads: Team) -> Rows:
    """The positions of `count` members of a group: each the most typical of those that are left."""
    from hedgerow.clustering.layout import search_rows
    from hedgerow.strategies.points import measure_distances

    lists = min(neighbors, max(1, len(members) // 2)) + count - 1
    found = search_rows(vectors.take(members), lists, threads, exact_up_to=EXACT_UP_TO)
    out = np.empty(count, np.int64)
    distances = measure_distances(vectors, found.gaps)
    take_typical(found.ids, distances, neighbors, np.zeros(len(members), np.bool_), out)
    return out
