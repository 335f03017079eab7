"""The trainer protocol, and its adapters for libraries that train.

`protocol.py` says what a model must answer; the adapters are `SklearnMLP` (scikit-learn's perceptron, the demo's),
`SklearnTrainer` (any scikit-learn classifier), `TorchTrainer` (any torch module) and `ProgramTrainer` (a program that
is called with paths and answers in Parquet); `TorchQuestionTrainer` trains a torch module on questions (row, class).
Libraries are imported when a model is first trained.

What it does not do: choose rows, or keep state between rounds.
"""

from hedgerow.models.answers import AnsweringNetwork, TorchQuestionTrainer
from hedgerow.models.estimators import FittedEstimator, SklearnTrainer
from hedgerow.models.networks import FittedNetwork, TorchTrainer, Training
from hedgerow.models.perceptron import FittedMLP, SklearnMLP
from hedgerow.models.programs import FittedProgram, ProgramTrainer
from hedgerow.models.protocol import Answering, Fitted, QuestionTrainer, Trainer

__all__ = [
    "Answering",
    "AnsweringNetwork",
    "Fitted",
    "FittedEstimator",
    "FittedMLP",
    "FittedNetwork",
    "FittedProgram",
    "ProgramTrainer",
    "QuestionTrainer",
    "SklearnMLP",
    "SklearnTrainer",
    "TorchQuestionTrainer",
    "TorchTrainer",
    "Trainer",
    "Training",
]
