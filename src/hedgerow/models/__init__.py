"""The trainer protocol, and its adapters for libraries that train models.

`protocol.py` says what a model must do. The adapters are `SklearnMLP` (scikit-learn's perceptron, used by the demo),
`SklearnTrainer` (any scikit-learn classifier), `TorchTrainer` (any torch module), `TorchPairTrainer` (a torch module
trained on (row, class) pairs) and `ProgramTrainer` (an external program that gets paths and writes Parquet).
`LinearHead` and `PerceptronHead` need no library: small models on embeddings, for rows and pairs.

Names are imported from their modules on first use, and libraries when a model is first trained.

What it does not do: choose rows, or keep state between rounds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.models.estimators import FittedEstimator, SklearnTrainer
    from hedgerow.models.heads import FittedHead, LinearHead, PairAnswers, PerceptronHead
    from hedgerow.models.networks import FittedNetwork, TorchTrainer, Training
    from hedgerow.models.pair_networks import FittedPairNetwork, TorchPairTrainer
    from hedgerow.models.perceptron import FittedMLP, SklearnMLP
    from hedgerow.models.programs import FittedProgram, ProgramTrainer
    from hedgerow.models.protocol import Fitted, FittedPairs, PairTrainer, Trainer

_HOME = {
    "Fitted": "protocol",
    "FittedEstimator": "estimators",
    "FittedHead": "heads",
    "FittedMLP": "perceptron",
    "FittedNetwork": "networks",
    "FittedPairNetwork": "pair_networks",
    "FittedPairs": "protocol",
    "FittedProgram": "programs",
    "LinearHead": "heads",
    "PairAnswers": "heads",
    "PairTrainer": "protocol",
    "PerceptronHead": "heads",
    "ProgramTrainer": "programs",
    "SklearnMLP": "perceptron",
    "SklearnTrainer": "estimators",
    "TorchPairTrainer": "pair_networks",
    "TorchTrainer": "networks",
    "Trainer": "protocol",
    "Training": "networks",
}

__all__ = [
    "Fitted",
    "FittedEstimator",
    "FittedHead",
    "FittedMLP",
    "FittedNetwork",
    "FittedPairNetwork",
    "FittedPairs",
    "FittedProgram",
    "LinearHead",
    "PairAnswers",
    "PairTrainer",
    "PerceptronHead",
    "ProgramTrainer",
    "SklearnMLP",
    "SklearnTrainer",
    "TorchPairTrainer",
    "TorchTrainer",
    "Trainer",
    "Training",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hedgerow.models' has no attribute {name!r}")
    return getattr(import_module(f"hedgerow.models.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
