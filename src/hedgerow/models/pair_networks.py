"""Torch modules for (row, class) pairs: one logit per class, trained on the pairs that were answered.

The loss of a pair is the cross-entropy of its own logit; pairs that were not asked contribute nothing. A model is begun
once. In every round it is trained on all answers so far, with a new optimizer: from the model of the previous round, as
in the paper (section 3.2), or from the first model. The embedding is the input of the last linear layer.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError
from hedgerow.models.networks import (
    PREDICT_ROWS,
    FittedNetwork,
    Training,
    as_floats,
    choose_device,
    descend,
    find_last,
    hold_steady,
    import_torch,
    load_batch,
)
from hedgerow.models.protocol import STARTS
from hedgerow.pairs import Pairs

ROUND = Training(steps=1_000)
BEGIN_SEED = 0  # all trials start from the same first model, as in the paper


@dataclass(frozen=True)
class TorchPairTrainer:
    """`make()` returns a module with one logit per class. `training` is that of a round.

    `first_training` is that of the first model. `prepare` turns rows of features into the module's input, an array or a
    tuple of arrays. Predictions are made `predict_rows` rows at a time. start: which model a round starts from, that of
    the "previous" round, or the "first" one, so that no answer is trained on more often because it came early. Needs
    the extra `torch`.
    """

    make: Callable[[], Any]
    classes: int
    training: Training = ROUND
    first_training: Training = ROUND
    prepare: Callable[[Any], Any] = as_floats
    predict_rows: int = PREDICT_ROWS
    start: str = "previous"

    def begin(self, features: Any = None, pairs: Pairs | None = None, answers: Any = None) -> "FittedPairNetwork":
        """A new module, trained on these pairs if any are given."""
        torch = import_torch()
        device = choose_device(torch, self.training.device)
        with hold_steady(torch, self.training.threads, BEGIN_SEED):
            module = self.make().to(device)
        fresh = self._wrap(torch, module, self.training, device)
        if pairs is None:
            return fresh
        return self._train(fresh, features, pairs, answers, self.first_training, BEGIN_SEED)

    def tune(
        self, before: "FittedPairNetwork", features: Any, pairs: Pairs, answers: Any, *, seed: int
    ) -> "FittedPairNetwork":
        """A copy of `before`, or of the first model, trained on these pairs."""
        first = before.first or before
        start = first if checks.option(self.start, "start", STARTS) == "first" else before
        after = self._train(start, features, pairs, answers, self.training, checks.seed(seed))
        return replace(after, first=first)

    def _train(
        self, before: "FittedPairNetwork", features: Any, pairs: Pairs, answers: Any, training: Training, seed: int
    ) -> "FittedPairNetwork":
        training.check()
        checks.same_length({"pairs": len(pairs), "answers": len(answers)})
        if len(pairs) == 0:
            raise InputError("a model needs answers to train on, got none: draw a seed set first")
        pairs.refuse_outside(len(features), self.classes)
        torch, device = import_torch(), before.network.device
        module = deepcopy(before.network.module)
        truth = torch.from_numpy(np.asarray(answers, np.float32)).to(device)
        asked = torch.from_numpy(pairs.classes.astype(np.int64)).to(device)

        def measure_loss(some: npt.NDArray[np.int64], generator: Any) -> Any:
            batch = load_batch(torch, self.prepare(features[pairs.rows[some]]), device)
            logits = module(batch).gather(1, asked[some, None])[:, 0]
            return torch.nn.functional.binary_cross_entropy_with_logits(logits, truth[some])

        with hold_steady(torch, training.threads, seed):
            descend(torch, module, training, len(pairs), measure_loss, np.random.default_rng(seed))
        return self._wrap(torch, module, training, device)

    def _wrap(self, torch: Any, module: Any, training: Training, device: Any) -> "FittedPairNetwork":
        last = find_last(torch, module)
        fitted = FittedNetwork(module.eval(), last, self.prepare, training.threads, device, self.predict_rows)
        return FittedPairNetwork(fitted)


@dataclass(frozen=True, eq=False)
class FittedPairNetwork:
    """A trained module whose logits are independent of each other; `first` is the model it began from, if another."""

    network: FittedNetwork
    first: "FittedPairNetwork | None" = None

    def probabilities(self, features: Any) -> npt.NDArray[np.float32]:
        torch = import_torch()
        return self.network.predict(features, lambda batch: torch.sigmoid(self.network.module(batch)))

    def embeddings(self, features: Any) -> npt.NDArray[np.float32]:
        return self.network.embeddings(features)
