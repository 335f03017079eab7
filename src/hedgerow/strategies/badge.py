"""BADGE: k-means++ over gradient embeddings (Ash et al. 2020; a baseline of the paper, section 3.1).

The gradient of the loss in the last layer, for the most likely class, is g = (p - onehot(argmax p)) (x) z for an
example with probabilities p and embedding z. Inner products factor, <g, g'> = <a, a'><z, z'> with
a = p - onehot(argmax p), so g itself, n x (d C), is never computed. Each further center is drawn with probability
proportional to its squared distance from the nearest center so far; `seeding.py` explains how this is done without a
pass over the pool for each. Labeled rows play no part.
"""

import importlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hedgerow import checks
from hedgerow.machine import Team, team
from hedgerow.pool.blocks import open_rows
from hedgerow.strategies.partitions import Part, Rows, fill_up, pick_parts, split
from hedgerow.strategies.view import View

FIRST = ("largest-norm", "random")


@dataclass(frozen=True)
class Badge:
    """k rows in the order drawn, with exactly the distribution of k-means++.

    `first`: the first center, "largest-norm" (the row with the largest gradient, as in the authors' code) or "random".
    `partitions`: see `partitions.py`. Uses all cores. Time: between k^2 (d + C) / 2 and n k (d + C), depending on how
    fast the distances shrink. Memory: 21 bytes per unlabeled row and d + C float32 per picked row; a copy of the
    unlabeled rows of embeddings and probabilities if they are float16 or not in row order.
    """

    partitions: int = 1
    first: str = "largest-norm"
    needs: ClassVar[frozenset[str]] = frozenset({"probabilities", "embeddings"})

    def __post_init__(self) -> None:
        checks.integer(self.partitions, "partitions", least=1)
        checks.option(self.first, "first", FIRST)

    def __call__(self, view: View, k: int, rng: np.random.Generator) -> Rows:
        # Imported here, since it brings scipy, and other strategies start without; and before the team, which can only
        # limit the threads of a BLAS that is loaded.
        importlib.import_module("hedgerow.strategies.seeding")
        with team() as threads:
            picked = pick_parts(self, view, self.plan(view, k, rng), rng, threads)
        return fill_up(np.concatenate(picked), view, k, rng, "badge")

    def plan(self, view: View, k: int, rng: np.random.Generator) -> list[Part]:
        """The parts of the pool."""
        return split(view.unlabeled_rows(), k, self.partitions, rng)

    def prepare(self, view: View, centers: Rows, threads: Team) -> None:
        """Nothing: labeled rows play no part."""

    def pick(self, view: View, rows: Rows, given: None, k: int, rng: np.random.Generator, threads: Team) -> Rows:
        """Up to k of the rows; fewer if their gradients are no longer distinct."""
        from hedgerow.strategies.seeding import draw_centers, factor_gradients

        assert view.probabilities is not None
        assert view.embeddings is not None
        points = open_rows(view.embeddings, view.find_owners(rows))
        gradients = factor_gradients(points, open_rows(view.probabilities, rows), threads)
        first = int(gradients.norms.argmax()) if self.first == "largest-norm" else int(rng.integers(len(rows)))
        return rows[draw_centers(gradients, k, first, rng, threads)]
