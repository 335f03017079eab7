"""beta from measured diameters: a ratio of two means, and its limit times log k, with bootstrap intervals.

beta is the mean diameter after k points of the sampler, divided by the mean diameter after k uniform points. Its
interval is a percentile bootstrap: the trials of either are drawn again with replacement. If beta log k tends to a
constant c, then 1 / beta grows along log k with the slope 1 / c: `fit_limit` is that line, whose offset takes up the
slow terms (the exact value for quantiles is 1 / beta = H_{k+1} k / (k + 1), about log k + 0.577).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Row = dict[str, Any]
Values = npt.NDArray[np.float64]
RESAMPLES = 1000
CONFIDENCE = 0.95
SEED = 0  # of the bootstrap: intervals are a function of the measurements


@dataclass(frozen=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float

    def scale(self, factor: float) -> "Estimate":
        """The same, times a factor >= 0."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high)

    def describe(self, name: str) -> Row:
        """As columns of a summary."""
        return {name: self.value, f"{name} low": self.low, f"{name} high": self.high}

    @property
    def error(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Fit:
    """1 / beta = offset + log k / limit."""

    limit: Estimate
    offset: Estimate


def group_rows(rows: Sequence[Row], columns: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by their values in these columns; one that a row lacks counts as empty text."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name, "") for name in columns), []).append(row)
    return groups


def column(rows: Sequence[Row], name: str) -> list[float]:
    """The values of a column."""
    return [row[name] for row in rows]


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean, with its interval."""
    return _interval(float(np.mean(values)), _resample(values, 0))


def estimate_ratio(ours: Sequence[float], uniform: Sequence[float], *, paired: bool = False) -> Estimate:
    """beta: the mean of ours over the mean of uniform, with its interval. paired: both are of the same trials."""
    drawn = _resample(ours, 0) / _resample(uniform, 0 if paired else 1)  # the same stream draws the same trials
    return _interval(float(np.mean(ours) / np.mean(uniform)), drawn)


def fit_limit(ours: Mapping[int, Sequence[float]], uniform: Mapping[int, Sequence[float]]) -> Fit:
    """The limit of beta log k from diameters by k, of the sampler and of uniform points. At least two k."""
    sizes = sorted(ours)
    slope, offset = _fit(sizes, np.array([[np.mean(uniform[k]) / np.mean(ours[k])] for k in sizes]))
    drawn = [_resample(uniform[k], 2 * i) / _resample(ours[k], 2 * i + 1) for i, k in enumerate(sizes)]
    slopes, offsets = _fit(sizes, np.array(drawn))
    return Fit(_interval(float(1 / slope[0]), 1 / slopes), _interval(float(offset[0]), offsets))


def _fit(sizes: Sequence[int], inverse: Values) -> tuple[Values, Values]:
    """Slopes and offsets (m,) of the least-squares lines through inverse (sizes, m) over log k."""
    x = np.log(sizes)
    slopes = (x - x.mean()) @ inverse / np.sum((x - x.mean()) ** 2)
    return slopes, inverse.mean(axis=0) - slopes * x.mean()


def _resample(values: Sequence[float], stream: int) -> Values:
    """The means of RESAMPLES draws of as many values, with replacement."""
    held = np.asarray(values)
    rng = np.random.default_rng([SEED, stream])
    means: Values = held[rng.integers(len(held), size=(RESAMPLES, len(held)))].mean(axis=1)
    return means


def _interval(value: float, drawn: Values) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
