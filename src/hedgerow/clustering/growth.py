"""Rounds of neighbor search and certified merges, until no two clusters are within the goal; then more thorough
passes over all final clusters, until they find next to nothing.

The goal is a threshold or a number of merges. Distances are compared with a threshold in float64: where float32 cannot
tell which is larger, `settle` makes the last merges in float64, so that clusters at exactly this distance merge.

For a number of merges no threshold is guessed: once m merges are made, the m-th lowest of them is a cap that no merge
of the cut can exceed, and it only falls as more are found. Each pass cuts the tree at the cap, computes the clusters'
means again from the points, and searches with other cells. In the end the merges that float32 cannot tell from the cap
are undone (`reopen`) and settled in float64, where the cap is the threshold.

A `State` is all that the next round needs. With a workdir it is saved, and a run that was killed continues from there
with the same result.
"""

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.clustering.dendrogram import Log, cut_log, join_logs, make_monotone
from hedgerow.clustering.layout import Layout, Search, search_neighbors, sort_clusters, sort_points
from hedgerow.clustering.merges import NONE, Active, Limits, merge_round
from hedgerow.clustering.neighbors import Neighbors
from hedgerow.clustering.parts import Parts
from hedgerow.clustering.sharding import Shards, gather_shards, merge_shards
from hedgerow.clustering.vectors import Vectors, average_groups
from hedgerow.clustering.workers import Workers
from hedgerow.errors import HedgerowWarning
from hedgerow.kernels import forest
from hedgerow.machine import Team
from hedgerow.progress import Progress
from hedgerow.store.checkpoints import Checkpoints

HARDER = 2.0  # a pass compares this many times as many pairs of cells
RARE = 1e-3  # passes end when one merges less than this share of the clusters, and fewer have another one too close
USUAL_RATIO = 0.1  # of what a pass finds to what the one before it found, while only one has ended
MOST_PASSES = 24  # three are usual at a million rows, six at ten million, thirteen at a hundred million
STATE_FORMAT = 5  # of the files in a workdir: files in another format are refused
ROUNDING = {np.float32: 2e-6, np.float64: 1e-12}  # error of a gap, relative to the largest half norm
FINEST = 4 * ROUNDING[np.float32]  # likewise: smaller gaps need float64
EQUAL = 1e-9  # share of a threshold beyond it that still counts as equal to it, as far as float64 rounding explains it
USUAL_ERROR = 4e-15  # of a gap in float64, relative to the largest half norm: measured in up to 2,048 dimensions
MOST_EQUAL = 1e-6  # as EQUAL, where the usual error is larger than that share
UNIT_ERROR = 1e-15  # of a gap of unit vectors in float64, however small it is


@dataclass(frozen=True)
class Goal:
    """Where to stop: at a threshold (a gap), or at the smallest threshold that makes this many merges."""

    threshold: float = np.inf
    merges: int | None = None

    def widen(self, spread: float, metric: str) -> "Goal":
        """The largest gap that equals the threshold but for rounding errors in float64."""
        least = UNIT_ERROR if metric == "cosine" else 0.0
        usual = min(USUAL_ERROR * spread, MOST_EQUAL * self.threshold)
        error = max(least, usual, min(ROUNDING[np.float64] * spread, EQUAL * self.threshold))
        return replace(self, threshold=self.threshold + error)

    def narrow(self, spread: float) -> "Goal":
        """The largest float32 whose gaps are within the threshold, whatever the rounding errors in float32."""
        with np.errstate(over="ignore"):
            rounded = np.float32(self.threshold - ROUNDING[np.float32] * spread)
        lower = rounded if float(rounded) <= self.threshold else np.nextafter(rounded, np.float32(0))
        return replace(self, threshold=float(lower))

    def cap(self, log: Log) -> float:
        """No merge beyond this gap can be part of the cut. The cap only falls as merges are found."""
        if self.merges is None:
            return self.threshold
        if self.merges == 0:
            return 0.0
        if len(log) < self.merges:
            return self.threshold
        return float(np.partition(log.heights, self.merges - 1)[self.merges - 1])


@dataclass(frozen=True)
class State:
    """Between two rounds: the clusters that can still merge, the merges so far, and how the next round searches.

    Clusters in `Parts` are in files; at first these are the pool's rows.
    """

    active: Active | Parts
    log: Log
    search: Search
    cap: float  # merges beyond it are not part of the cut
    turn: int  # rounds done
    passes: int  # 0 while the tree grows, then the number of the pass
    before: int  # merges before this pass
    found: float | None  # the share of the clusters that the pass before this one merged
    duplicates: int  # merges of equal points
    doubtful: npt.NDArray[np.int64]  # points of clusters that may have others within the threshold, in higher precision


@dataclass(frozen=True)
class Run:
    """What stays the same over all rounds of a tree."""

    goal: Goal
    search: Search  # of a round before any pass
    slack: float
    spread: float  # the largest half norm of the pool
    team: Team
    checkpoints: Checkpoints
    progress: Progress
    workers: Workers | None = None  # that search for neighbors
    shards: Shards | None = None  # where workers merge, too


def grow(vectors: Vectors, run: Run) -> State:
    """The state after the last merge up to the goal.

    Exact searches need no further passes, because they miss nothing.
    """
    run, limits = find_limits(run, vectors)
    state = load_state(run.checkpoints)
    layout: Layout | None = None
    if state is None and run.shards is not None:
        cap = run.goal.cap(join_logs([]))
        state = State(run.shards.open_pool(len(vectors)), join_logs([]), run.search, cap, 0, 0, 0, None, 0, NONE)
    elif state is None:
        active, layout, duplicates = sort_points(
            vectors, run.search, run.team, lambda done: run.progress("reading", done), run.workers
        )
        state = State(active, duplicates, run.search, run.goal.cap(duplicates), 0, 0, 0, None, len(duplicates), NONE)
    begun = max(1, len(state.active))
    while True:
        if len(state.active) > 1:
            state = run_round(state, layout, limits, run, vectors)
            layout = None
            run.progress(f"pass {state.passes}" if state.passes else "merging", 1 - len(state.active) / begun)
        elif run.search.exact or (state.passes and is_last(state, len(vectors))):
            return state
        else:
            state = begin_pass(state, vectors, run)
            begun = max(1, len(state.active))
        save_state(run.checkpoints, state)
        if run.workers is not None:
            run.workers.clear()
        if run.shards is not None:
            run.shards.sweep(state.active if isinstance(state.active, Parts) and len(state.active) else None)


def find_limits(run: Run, vectors: Vectors) -> tuple[Run, Limits]:
    """The run with its goal as gaps in this precision are compared with it, and the limits of its merges."""
    dtype, doubt = vectors.dtype, 0.0
    sure = run.goal.narrow(run.spread) if dtype == np.float32 else run.goal.widen(run.spread, vectors.metric)
    if dtype == np.float32 and run.goal.merges is not None:
        doubt = 2 * ROUNDING[np.float32] * run.spread
    elif dtype == np.float32 and run.goal.threshold < float(np.finfo(np.float32).max):
        doubt = run.goal.threshold + ROUNDING[np.float32] * run.spread - sure.threshold
    return replace(run, goal=sure), Limits(np.inf, run.slack, ROUNDING[dtype] * run.spread, doubt)


def reopen(state: State, run: Run, n: int) -> tuple[State, Goal]:
    """The state without the merges that float32 cannot tell from the highest, and the goal to make them in float64.

    No merge that is undone is beyond the goal. Merges of equal points stay.
    """
    log = make_monotone(n, state.log)
    highest = float(log.heights.max(initial=0.0))
    sure = log.heights <= Goal(highest).narrow(run.spread).threshold
    sure[: state.duplicates] = True
    doubtful = np.concatenate([state.doubtful, log.left[~sure], log.right[~sure]])
    kept = Log(log.left[sure], log.right[sure], log.heights[sure])
    return replace(state, log=kept, doubtful=doubtful), Goal(highest + ROUNDING[np.float32] * run.spread)


def settle(vectors: Vectors, state: State, run: Run) -> Log:
    """All merges up to a threshold, those that float32 cannot decide made in float64. `vectors` are in float64."""
    if not len(state.doubtful):
        return state.log
    labels, point = label_clusters(len(vectors), state.log)
    doubtful = np.unique(labels[state.doubtful])
    place = np.full(len(point), -1, np.int64)
    place[doubtful] = np.arange(len(doubtful))
    rows = np.flatnonzero(place[labels] >= 0)
    means, half, size = average_groups(vectors, place[labels[rows]], run.team, rows)
    run, limits = find_limits(run, vectors)
    active = Active(point[doubtful], means, half, size)
    state = replace(state, active=active, cap=run.goal.threshold, search=run.search)
    while len(state.active) > 1:
        state = run_round(state, None, limits, run, vectors)
    return state.log


def largest_half(vectors: Vectors) -> float:
    """The largest half norm of the pool, to which rounding errors of gaps are proportional."""
    if vectors.metric == "cosine":
        return 0.5
    return max((float(vectors.half(vectors.block(start)).max()) for start in vectors.starts()), default=0.0)


def run_round(state: State, layout: Layout | None, limits: Limits, run: Run, vectors: Vectors) -> State:
    """One neighbor search and all merges that it certifies."""
    search = state.search
    # While a tree grows to a number of merges, its cap falls: what is near to it matters in the passes only.
    doubt = limits.doubt if run.goal.merges is None or state.passes else 0.0
    limits = replace(limits, threshold=state.cap, doubt=doubt)
    active, log, doubtful, copies = merge_once(state, layout, limits, run, vectors)
    joined = join_logs([state.log, log])
    if len(log):
        pairs = run.search.pairs * (HARDER if state.passes else 1)
        search = replace(search, k=run.search.k, pairs=pairs)
    else:  # more ties than neighbors, or cells that separate neighbors: search farther
        search = replace(search, k=2 * search.k, pairs=2 * search.pairs)
    cap = state.cap if state.passes else min(state.cap, run.goal.cap(joined))
    search = replace(search, seed=search.seed + 1)
    doubtful = np.concatenate([state.doubtful, doubtful])
    turn, duplicates = state.turn + 1, state.duplicates + copies
    return replace(
        state, active=active, log=joined, search=search, cap=cap, turn=turn, duplicates=duplicates, doubtful=doubtful
    )


def merge_once(
    state: State, layout: Layout | None, limits: Limits, run: Run, vectors: Vectors
) -> tuple[Active | Parts, Log, npt.NDArray[np.int64], int]:
    """The clusters after this round's merges, the merges, the doubtful points, and the merges of equal points.

    Clusters that can merge only in higher precision are kept while others can merge, since both may change what is near
    to them; when no others are left, they are doubtful.
    """
    active = state.active
    if isinstance(active, Parts):
        assert run.shards is not None, "clusters are in files only on shards"
        if len(active) > run.shards.rows:
            merged = merge_shards(run.shards, active, vectors, state.search, limits, state.turn, run.team, run.progress)
            if merged.is_open:
                return merged.active, merged.log, NONE, merged.copies
            return replace(merged.active, counts=()), merged.log, merged.active.load("point"), merged.copies
        active = run.shards.load(active)
    if layout is None:
        active, layout = sort_clusters(active, state.search, run.team)
    # The neighbors are passed on without a name of their own, so that `merge_round` can free them.
    left = merge_round(active, search_once(state, active, layout, limits, run), limits, run.team)
    if left.is_open:
        return left.active, left.log, NONE, 0
    return left.active.take(NONE, run.team), left.log, left.active.point, 0


def search_once(state: State, active: Active, layout: Layout, limits: Limits, run: Run) -> Neighbors:
    """The neighbors for this round; those of the first round, half of all work, are saved in the workdir.

    What workers find is saved there in any case.
    """
    kept = run.checkpoints.load("neighbors") if state.turn == 0 else None
    reach = limits.threshold + limits.doubt
    if kept is not None:
        return Neighbors(kept[1]["ids"], kept[1]["gaps"], reach)
    phase = f"neighbors, round {state.turn + 1}"
    found = search_neighbors(
        active, layout, state.search, reach, run.team, lambda done: run.progress(phase, done), run.workers
    )
    if state.turn == 0 and run.workers is None:
        run.checkpoints.save("neighbors", {}, {"ids": found.ids, "gaps": found.gaps})
    return found


def begin_pass(state: State, vectors: Vectors, run: Run) -> State:
    """All clusters at the cap, with means computed again, for a more thorough search with other cells."""
    raised = make_monotone(len(vectors), state.log)
    cap, doubtful = run.goal.cap(raised), state.doubtful
    if run.goal.merges is not None:
        doubtful = NONE  # those of another cap
        if vectors.dtype == np.float64:
            cap = Goal(cap).widen(run.spread, vectors.metric).threshold
    log = cut_log(raised, cap)
    passes = state.passes + 1
    search = replace(run.search, pairs=HARDER * run.search.pairs, seed=run.search.seed + 1_000 * passes)
    active = gather_clusters(vectors, log, run, passes)
    found = find_share(state, len(vectors)) if state.passes else None
    return State(active, log, search, cap, state.turn, passes, len(log), found, state.duplicates, doubtful)


def find_share(state: State, n: int) -> float:
    """The share of the clusters that this pass merged so far."""
    return (len(state.log) - state.before) / max(1, n - state.before)  # a pool may have no rows


def is_last(state: State, n: int) -> bool:
    """Whether no pass follows the one that just ended: it found next to nothing and so would the next, or there were
    too many.

    Passes find less and less, by a ratio that changes little from pass to pass (0.2 at a million rows in shards, 0.5 at
    ten million), so that all passes that could follow would merge share * ratio / (1 - ratio). Without them, each of
    these merges leaves two clusters that have another one closer than the cut.
    """
    share = find_share(state, n)
    ratio = share / state.found if state.found else USUAL_RATIO
    left = 2 * share * ratio / (1 - ratio) if ratio < 1 else np.inf
    if share > RARE and state.passes == MOST_PASSES:
        warnings.warn(
            f"the passes over all clusters ended before they had found all merges: pass {state.passes} still merged "
            f"{share:.1%} of them, so that some clusters have another one closer than the cut",
            HedgerowWarning,
            stacklevel=2,
        )
    return (share <= RARE and left <= RARE) or state.passes == MOST_PASSES


def gather_clusters(vectors: Vectors, log: Log, run: Run, passes: int) -> Active | Parts:
    """The clusters that a log of merges makes, with means computed from the points."""
    labels, point = label_clusters(len(vectors), log)
    if run.shards is not None:
        return gather_shards(run.shards, labels, point, vectors.dtype, f"{passes:03}")
    team = run.team
    means, half, size = average_groups(vectors, labels, team)
    rounded = np.empty(means.shape, vectors.dtype)
    team.ranges(lambda lo, hi: np.copyto(rounded[lo:hi], means[lo:hi], casting="same_kind"), len(means))
    return Active(point, rounded, half.astype(vectors.dtype), size)


def label_clusters(n: int, log: Log) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The cluster of each of n points after these merges, and the point by which merges name each cluster."""
    labels, point = np.empty(n, np.int32), np.empty(n - len(log), np.int64)
    forest.label_log(log.left, log.right, np.empty(n, np.int64), labels, point)
    return labels, point


def save_state(checkpoints: Checkpoints, state: State) -> None:
    """Save a state, which replaces everything saved before it."""
    numbers: dict[str, Any] = {
        name: getattr(state, name) for name in ("cap", "turn", "passes", "before", "found", "duplicates")
    }
    arrays: dict[str, npt.NDArray[Any]] = {}
    if isinstance(state.active, Parts):
        numbers["parts"] = asdict(state.active) | {"folder": checkpoints.name_within(state.active.folder)}
    else:
        arrays |= {f"active-{name}": array for name, array in vars(state.active).items()}
    arrays |= {f"log-{name}": array for name, array in vars(state.log).items()}
    arrays["doubtful"] = state.doubtful
    checkpoints.save("state", {**numbers, "search": asdict(state.search)}, arrays)
    checkpoints.drop("neighbors")


def load_state(checkpoints: Checkpoints) -> State | None:
    """The state that was saved last, if any."""
    kept = checkpoints.load("state")
    if kept is None:
        return None
    numbers, arrays = kept
    parts = numbers.pop("parts", None)
    active: Active | Parts
    if parts is None:
        active = Active(**{name.removeprefix("active-"): arrays[name] for name in arrays if name.startswith("active-")})
    else:
        active = Parts(checkpoints.find_within(parts["folder"]), parts["name"], tuple(parts["counts"]))
    log = Log(**{name.removeprefix("log-"): arrays[name] for name in arrays if name.startswith("log-")})
    return State(active, log, **{**numbers, "search": Search(**numbers["search"])}, doubtful=arrays["doubtful"])
