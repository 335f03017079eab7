"""beta of one sampler for one k, with the assumptions of the theorems checked.

    measure_beta("rectangles", "theorem 4.2", 100, n=1_000_000, d=2)

What no theorem speaks of is refused (a pool that is not larger than the batch); what a theorem assumes and does not
hold is measured all the same, with a warning that names the assumption.
"""

import math
import warnings

import numpy as np

from hedgerow import checks
from hedgerow.errors import HedgerowWarning, InputError
from hedgerow.theory.estimates import Estimate, column, estimate_ratio
from hedgerow.theory.measurements import Row
from hedgerow.theory.rectangles import RECTANGLE_SAMPLERS, THEOREM, measure_cube
from hedgerow.theory.samplers import SAMPLERS
from hedgerow.theory.thresholds import EPSILON, measure_line

HYPOTHESES = ("thresholds", "rectangles")


def measure_beta(
    hypotheses: str,
    sampler: str,
    k: int,
    *,
    n: int | None = None,
    gamma: float | None = None,
    d: int = 1,
    trials: int = 50,
    seed: int = 0,
) -> Estimate:
    """beta(k) = E[D(S_b)] / E[D(S_u)] for n uniform points in [0, 1]^d, with its interval.

    hypotheses: "thresholds" (d = 1) or "rectangles". sampler: a key of `SAMPLERS`, for thresholds also
    "cluster-margin, epsilon 1/k", for rectangles also "theorem 4.2". n: the size of the pool; or gamma = n / k, 10 if
    neither is given. The diameter is the largest over true hypotheses.
    """
    checks.option(hypotheses, "hypotheses", HYPOTHESES)
    k, d = checks.integer(k, "k", least=2), checks.integer(d, "d", least=1)
    trials, seed = checks.integer(trials, "trials", least=2), checks.seed(seed)
    if hypotheses == "thresholds" and d != 1:
        raise InputError(f"thresholds are on a line, got d = {d}: use rectangles, or d = 1")
    known = [*SAMPLERS, EPSILON] if hypotheses == "thresholds" else RECTANGLE_SAMPLERS
    checks.option(sampler, "sampler", known)
    n = check_pool(k, n, gamma)
    warn_assumptions(sampler, k, n, d)
    rngs = np.random.default_rng(seed).spawn(2)

    def measure(name: str, rng: np.random.Generator) -> list[Row]:
        if hypotheses == "thresholds":
            return measure_line(rng, sampler=name, k=k, n=n, trials=trials)
        return measure_cube(rng, sampler=name, d=d, k=k, n=n, hole=0.0, trials=trials)

    return estimate_ratio(column(measure(sampler, rngs[0]), "largest"), column(measure("uniform", rngs[1]), "largest"))


def check_pool(k: int, n: int | None, gamma: float | None) -> int:
    """The size of a pool, from n or gamma = n / k, which must be greater than 1."""
    given = checks.exactly_one({"n": n, "gamma": gamma}, allow_none=True)
    if given == "n":
        n = checks.integer(n, "n")
        if n <= k:
            raise InputError(f"n is {n:,} and k is {k:,}: a sampler has nothing to choose unless n > k")
        return n
    return math.ceil(k * checks.real(10 if gamma is None else gamma, "gamma", above=1))


def warn_assumptions(sampler: str, k: int, n: int, d: int) -> None:
    """Warn of what the theorem behind a sampler assumes and the numbers do not have."""
    if sampler not in ("quantiles", THEOREM):
        return
    where = "Lemma B.2" if sampler == "quantiles" else "Theorem 4.2"
    if k * k > n:
        _warn(f"{where} assumes k = o(sqrt n), but k = {k:,} is greater than sqrt n = {math.sqrt(n):,.0f}")
    if sampler == THEOREM and d > 1 and n < float(k) ** d:
        _warn(f"{where} takes points near the axes, but a pool has them only if n is about k^d = {float(k) ** d:.2g}")
    if sampler == THEOREM and d >= math.log(k):
        _warn(f"{where} promises beta = d / log k, which is below 1 only for d < log k = {math.log(k):.1f}")


def _warn(message: str) -> None:
    warnings.warn(f"{message}: the bound on beta need not hold", HedgerowWarning, stacklevel=4)
