"""The merge tree of average linkage, and the cuts through it."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.kernels import forest


@dataclass(frozen=True, eq=False, repr=False)
class Dendrogram:
    """A merge tree over n points: merge i joins the nodes merges[i] into node n + i at heights[i], lowest merge first.

    merges: int64 (m, 2); nodes below n are points. heights: float64 (m,), in ascending order. A complete tree has n - 1
    merges; a tree grown to a threshold has fewer.
    """

    n: int
    merges: npt.NDArray[np.int64]
    heights: npt.NDArray[np.float64]

    def __repr__(self) -> str:
        top = f" up to height {self.heights[-1]:.6g}" if len(self.heights) else ""
        return f"Dendrogram({self.n:,} points, {len(self.heights):,} merges{top}, {self._describe_end()})"

    def _repr_html_(self) -> str:
        facts = {"points": f"{self.n:,}", "merges": f"{len(self.heights):,}"}
        if len(self.heights):
            facts["heights"] = f"{self.heights[0]:.6g} to {self.heights[-1]:.6g}"
        return make_html("Dendrogram", facts | {"tree": self._describe_end()})

    def _describe_end(self) -> str:
        roots = self.n - len(self.heights)
        return "complete" if roots <= 1 else f"ends at {roots:,} clusters"

    def cut(
        self, *, threshold: float | None = None, average_size: float | None = None, n_clusters: int | None = None
    ) -> npt.NDArray[np.int32]:
        """Labels (n,) after every merge of height <= threshold, numbered by first appearance.

        average_size, n_clusters: cut at the smallest threshold that gives at least this average size, or at most this
        many clusters.
        """
        which = checks.exactly_one({"threshold": threshold, "average_size": average_size, "n_clusters": n_clusters})
        if which == "threshold":
            limit = checks.real(threshold, "threshold", least=0)
        elif which == "average_size":
            limit = self.threshold_for(average_size=average_size)
        else:
            limit = self.threshold_for(n_clusters=n_clusters)
        count = int(np.searchsorted(self.heights, limit, side="right"))
        labels = np.empty(self.n, np.int32)
        scratch = np.empty(self.n + count, np.int64), np.empty(self.n + count, np.int32)
        forest.label_points(self.merges, count, self.n, *scratch, labels)
        return labels

    def threshold_for(self, *, average_size: float | None = None, n_clusters: int | None = None) -> float:
        """The smallest threshold that gives at least this average size, or at most this many clusters."""
        if checks.exactly_one({"average_size": average_size, "n_clusters": n_clusters}) == "average_size":
            asked = checks.real(average_size, "average_size", least=1)
            if asked > max(self.n, 1):
                raise InputError(f"an average size of {asked:g} cannot be reached with {self.n:,} points")
            most = int(np.floor(self.n / asked * (1 + 1e-12)))  # 1e-12: n / (n / c) must give c again
        else:
            most = checks.integer(n_clusters, "n_clusters", least=1 if self.n else 0)
        needed = max(0, self.n - most)
        if needed > len(self.heights):
            raise InputError(
                f"the tree ends at {self.n - len(self.heights):,} clusters, but {most:,} were asked for: "
                "call linkage with a larger threshold, or without one"
            )
        return float(self.heights[needed - 1]) if needed else 0.0

    def to_scipy(self) -> npt.NDArray[np.float64]:
        """The tree as scipy's linkage matrix Z (n - 1, 4), for `scipy.cluster.hierarchy.fcluster`, `dendrogram` etc."""
        if self.n < 2 or len(self.merges) < self.n - 1:
            raise InputError(
                f"scipy's form needs a complete tree of at least two points, this one has {self.n:,} points and "
                f"{len(self.merges):,} merges: call linkage without a threshold"
            )
        sizes = np.empty(len(self.merges), np.int64)
        forest.count_sizes(self.merges, self.n, sizes)
        return np.column_stack([self.merges.astype(np.float64), self.heights, sizes])


@dataclass(frozen=True)
class Log:
    """Merges in the order they were made: a point of each of the two clusters, and the height.

    The left point represents the merged cluster in later merges.
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    heights: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.left)


def join_logs(logs: Sequence[Log]) -> Log:
    """The logs, concatenated."""
    return Log(
        np.concatenate([np.zeros(0, np.int64), *(log.left for log in logs)]),
        np.concatenate([np.zeros(0, np.int64), *(log.right for log in logs)]),
        np.concatenate([np.zeros(0), *(log.heights for log in logs)]),
    )


def build_tree(n: int, log: Log) -> Dendrogram:
    """The log as a tree, lowest merge first. A merge that was found late is raised to the height of those below it."""
    log = make_monotone(n, log)
    order = np.argsort(log.heights, kind="stable")  # stable: among equal heights, a merge comes after those below it
    merges = np.empty((len(log), 2), np.int64)
    forest.number_nodes(log.left[order], log.right[order], np.arange(n), merges)
    return Dendrogram(n, merges, log.heights[order])


def make_monotone(n: int, log: Log) -> Log:
    """The log with every merge at least as high as those below it."""
    heights = log.heights.copy()
    forest.raise_heights(log.left, log.right, heights, np.zeros(n))
    return replace(log, heights=heights)


def cut_log(log: Log, threshold: float) -> Log:
    """The merges up to a threshold."""
    below = log.heights <= threshold
    return Log(log.left[below], log.right[below], log.heights[below])


def make_html(title: str, facts: Mapping[str, str]) -> str:
    """A small table of facts, for notebooks."""
    rows = (f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in facts.items())
    return f"<table><caption>{html.escape(title)}</caption><tbody>{''.join(rows)}</tbody></table>"
