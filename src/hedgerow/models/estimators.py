"""Any scikit-learn classifier with `predict_proba`, as a `Trainer`.

An estimator has no hidden layer: its embeddings are `embed(estimator, features)`, or the features themselves if `embed`
is not given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.machine import limit_blas
from hedgerow.models.protocol import Floats, Labels, check_labels

Embed = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class SklearnTrainer:
    """`make()` returns a new estimator or pipeline; every parameter named `random_state` is set to the seed.

    The probabilities have a column for each of the `classes`, whether or not a label has it.
    """

    make: Callable[[], Any]
    classes: int
    embed: Embed | None = None

    def fit(self, features: Any, labels: Labels, *, seed: int) -> "FittedEstimator":
        check_labels(labels, features, self.classes)
        estimator = self.make()
        if not hasattr(estimator, "predict_proba"):
            raise InputError(f"{type(estimator).__name__} has no probabilities: use a classifier with predict_proba")
        seeded = [key for key in estimator.get_params() if key.rpartition("__")[2] == "random_state"]
        estimator.set_params(**dict.fromkeys(seeded, checks.seed(seed) % 2**32))  # scikit-learn takes no wider seed
        with limit_blas():  # the number of threads must not change the order of sums
            estimator.fit(features, labels)
        return FittedEstimator(estimator, self.classes, self.embed)


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator, and the function that computes its embeddings."""

    estimator: Any
    classes: int
    embed: Embed | None = None

    def probabilities(self, features: Any) -> npt.NDArray[np.float32]:
        whole = np.zeros((len(features), self.classes), np.float32)
        with limit_blas():
            whole[:, self.estimator.classes_] = self.estimator.predict_proba(features)
        return whole

    def embeddings(self, features: Any) -> Floats:
        return np.asarray(features if self.embed is None else self.embed(self.estimator, features), np.float32)
