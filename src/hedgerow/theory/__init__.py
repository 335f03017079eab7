"""The paper's theory as something to run (section 4 and appendix B): what a sampler gains over uniform sampling.

The version space is the set of hypotheses that agree with all labels so far; its diameter D(S) after labels at the
points S is the largest probability that two of its members differ on a new point. A sampler that chooses k points S_b
of a pool X, where S_u are k points of X at random, is *beta-efficient* if D(S_b) <= beta D(S_u) (Definition 4.1). Both
sides are random, and D also depends on the true hypothesis. Here

    beta(k) = E[D(S_b)] / E[D(S_u)]

over pools, draws and the samplers' own choices, with D at the true hypothesis for which it is largest, as in the proofs
of the paper. Smaller is better, and uniform sampling has 1. Theorem B.1 promises label complexity lower by this factor.

A study is a tuple of parts (`parts.py`), each a table of cells that an engine measures (`measurements.py`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hedgerow import checks
from hedgerow.engines import Engine, use_engine
from hedgerow.errors import InputError, StoreError
from hedgerow.progress import Progress, watch
from hedgerow.theory.algorithm import Plan, run_plan
from hedgerow.theory.batch_sizes import BATCH_SIZES
from hedgerow.theory.beta import measure_beta
from hedgerow.theory.bridge import make_bridge
from hedgerow.theory.hyperplanes import HYPERPLANES
from hedgerow.theory.label_complexity import LABEL_COMPLEXITY
from hedgerow.theory.measurements import Row, Run
from hedgerow.theory.parts import Part, run_parts
from hedgerow.theory.rectangles import RECTANGLES
from hedgerow.theory.samplers import SAMPLERS, Sampler, sample
from hedgerow.theory.segments import SEGMENTS
from hedgerow.theory.thresholds import CLUSTERS, THRESHOLDS

__all__ = ["SAMPLERS", "STUDIES", "Plan", "Sampler", "measure_beta", "run_plan", "run_study", "sample"]

STUDIES: Mapping[str, Sequence[Part]] = {
    "beta": (THRESHOLDS, CLUSTERS, SEGMENTS, RECTANGLES, HYPERPLANES),
    "label-complexity": (LABEL_COMPLEXITY, BATCH_SIZES),
    "bridge": (make_bridge(),),
}


def run_study(
    name: str,
    out: str | Path,
    *,
    quick: bool = False,
    engine: str | Engine = "serial",
    seed: int = 0,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> dict[str, list[Row]]:
    """Run a study, or what is missing of it, in the folder `out`: tables, summaries and figures. The summaries.

    name: a key of `STUDIES`. quick: fewer and smaller cells, which have the same results as in the whole study.
    engine: "serial", "processes:N" or "dask://host:port" (see `hedgerow.engines`), or an engine that is open; results
    do not depend on it. data: for the study "bridge", the folder with CIFAR-10; without it only the digits are
    measured. cache: where its features are kept, data/cache by default.
    """
    parts = STUDIES[checks.option(name, "study", STUDIES)]
    if data is not None:
        if name != "bridge":
            raise InputError(f"the study {name!r} reads no data: only 'bridge' does")
        parts = (make_bridge(Path(data).absolute(), None if cache is None else Path(cache).absolute()),)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{out} is not a folder: choose a folder for the results")
    seed = checks.seed(seed)
    with use_engine(engine) as opened, watch(progress) as report:
        run = Run(folder, seed, opened, report)
        return run_parts(parts, run, quick=checks.flag(quick, "quick"))
