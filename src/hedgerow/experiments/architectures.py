"""The models of recipes: the fields of a record are the keys of the table [model]; `make_trainer` makes the trainer.

How networks are trained is in the table [model.training] (`Training`).

- `perceptron`: hidden layers over numbers, such as a head on frozen features. Its last hidden layer is the embedding.
  On a multi-label dataset it has one logit per class and is trained further in every round, or from its first weights.
- `ngrams`: texts as the mean of the vectors of their character n-grams, one hidden layer; for multi-label datasets
  (`ngrams.py`).
- `convnet`: a small network on images of 32 x 32 pixels.
- `vgg16`: the network of the paper (section 3.3), from ImageNet weights that the user provides: the convolutions
  of Simonyan and Zisserman, two fully connected layers of 4,096, and the prediction.
- `sklearn`: a classifier of scikit-learn by its dotted name.
- `program`: an external program (`models/programs.py`).

A record with `code` set executes something besides hedgerow and its libraries, which users have to permit.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.experiments.data.annotations import MultiLabel
from hedgerow.experiments.data.datasets import Dataset
from hedgerow.experiments.data.texts import Texts
from hedgerow.experiments.ngrams import HEADS, GramTraining, NGramTrainer
from hedgerow.models import (
    PairTrainer,
    ProgramTrainer,
    SklearnTrainer,
    TorchPairTrainer,
    TorchTrainer,
    Trainer,
    Training,
)
from hedgerow.models.networks import as_floats
from hedgerow.models.protocol import STARTS

# A field that is not listed in the settings of a run while it has its default: it was added later, and runs that were
# started before it can still be continued and merged.
UNLISTED = {"unlisted": True}
# Channels of the convolutions of VGG-16; 0 is a pooling layer, which halves the sides.
VGG16_LAYERS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
VGG16_WIDTH = 4096
VGG16_WEIGHTS = "https://download.pytorch.org/models/vgg16-397923af.pth"
# Means and deviations of the channels of ImageNet, from 0 to 1, which the weights were trained with.
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
IMAGENET_SPREAD = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)


@dataclass(frozen=True)
class Perceptron:
    """Linear layers with ReLU between them.

    start: on a multi-label dataset, the model that a round's training starts from, as in `TorchPairTrainer`.
    """

    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.0
    training: Training = field(default_factory=Training)
    start: str = field(default="previous", metadata=UNLISTED)
    units: ClassVar[tuple[str, ...]] = ("row", "pair")

    def check(self, data: Path | None) -> None:
        """Refuse options that cannot work, before anything is trained."""
        if not self.hidden:
            raise InputError("hidden must have at least one layer, whose output is the embedding; got []")
        for width in self.hidden:
            checks.integer(width, "hidden", least=1)
        if not 0 <= self.dropout < 1:
            raise InputError(
                f"dropout is the share of outputs that are dropped, from 0 to below 1; got {self.dropout:g}"
            )
        checks.option(self.start, "start", STARTS)
        _check_training(self.training)

    def make_trainer(self, dataset: Dataset | MultiLabel, data: Path | None) -> Trainer | PairTrainer:
        features = dataset.task.features
        if isinstance(features, Texts):
            raise InputError(f"the model 'perceptron' reads numbers, but {dataset.name} has texts: use ngrams")
        widths = (int(np.prod(features.shape[1:])), *self.hidden, dataset.classes)
        make = partial(build_perceptron, widths, self.dropout)
        if isinstance(dataset, MultiLabel):
            return TorchPairTrainer(make, dataset.classes, self.training, prepare=flatten, start=self.start)
        if self.start != "previous":
            raise InputError(
                f"start = {self.start!r} is for multi-label datasets; {dataset.name} trains from scratch in "
                "every round: remove start from [model]"
            )
        return TorchTrainer(make, dataset.classes, self.training, prepare=flatten)


@dataclass(frozen=True)
class NGrams:
    """The mean of the vectors of the hashed 1- to 4-grams of a text, then one hidden layer, the embedding.

    `first_training` is for the first model, which is trained on a split that is in neither the pool nor the test set;
    `start` is the model that a round starts from, `head` what makes probabilities: see `NGramTrainer`.
    """

    width: int = 64
    hidden: int = 128
    spread: float = 0.01
    start: str = "first"
    head: str = field(default="independent", metadata=UNLISTED)
    training: GramTraining = field(default_factory=GramTraining)
    first_training: GramTraining = field(default_factory=partial(GramTraining, epochs=4))
    units: ClassVar[tuple[str, ...]] = ("pair",)

    def check(self, data: Path | None) -> None:
        """Refuse options that cannot work, before anything is trained."""
        for name in ("width", "hidden"):
            checks.integer(getattr(self, name), name, least=1)
        checks.real(self.spread, "spread", above=0)
        checks.option(self.start, "start", STARTS)
        checks.option(self.head, "head", tuple(HEADS))
        self.training.check()
        self.first_training.check()

    def make_trainer(self, dataset: Dataset | MultiLabel, data: Path | None) -> PairTrainer:
        if not isinstance(dataset.task.features, Texts):
            raise InputError(f"the model 'ngrams' reads texts, but {dataset.name} has none: use perceptron")
        if self.head == "softmax" and dataset.classes < 2:
            raise InputError(f"a softmax needs two classes or more, and {dataset.name} has one: use head='independent'")
        return NGramTrainer(dataset.classes, **{entry.name: getattr(self, entry.name) for entry in fields(self)})


@dataclass(frozen=True)
class ConvNet:
    """Blocks of convolution (3 x 3), batch normalization, pooling and ReLU, then one hidden layer, the embedding."""

    channels: tuple[int, ...] = (16, 32, 64)
    hidden: int = 128
    training: Training = field(default_factory=Training)

    def check(self, data: Path | None) -> None:
        """Refuse options that cannot work, before anything is trained."""
        if not self.channels:
            raise InputError("channels must have at least one block, got []")
        _check_training(self.training)

    def make_trainer(self, dataset: Dataset, data: Path | None) -> Trainer:
        _need_pixels("convnet", dataset)
        shape, channels = dataset.features.shape[1:], self.channels
        make = partial(build_convnet, shape, channels, self.hidden, dataset.classes)
        return TorchTrainer(make, dataset.classes, self.training, prepare=center_pixels)


@dataclass(frozen=True)
class VGG16:
    """The network of the paper. `weights` is torchvision's VGG-16 file in the data folder; the last layers are new."""

    weights: str = "vgg16-397923af.pth"
    training: Training = field(default_factory=partial(Training, optimizer="sgd"))

    def check(self, data: Path | None) -> None:
        """Refuse to start without the weights."""
        self.find_weights(data)
        _check_training(self.training)

    def find_weights(self, data: Path | None) -> Path:
        path = (data or Path()) / self.weights
        if not path.is_file():
            raise InputError(f"VGG-16 starts from ImageNet weights: {path} does not exist; get it from {VGG16_WEIGHTS}")
        return path

    def make_trainer(self, dataset: Dataset, data: Path | None) -> Trainer:
        _need_pixels("vgg16", dataset)
        make = partial(build_vgg16, dataset.features.shape[1:], dataset.classes, self.find_weights(data))
        return TorchTrainer(make, dataset.classes, self.training, prepare=scale_pixels)


@dataclass(frozen=True)
class Estimator:
    """A scikit-learn classifier: its dotted name and its options. Its embeddings are the features.

    A class outside scikit-learn counts as code of the user's: importing a module executes it.
    """

    estimator: str = "sklearn.linear_model.LogisticRegression"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str | None:
        if self.estimator.startswith("sklearn."):
            return None
        return f"imports {self.estimator}, which is not part of scikit-learn"

    def check(self, data: Path | None) -> None:
        """Refuse a classifier that cannot be created."""
        self.make()

    def make(self) -> Any:
        """A new classifier."""
        module, _, name = self.estimator.rpartition(".")
        if find_spec("sklearn") is None:
            raise MissingExtraError(f"the model {self.estimator!r}", "sklearn")
        try:
            kind = getattr(import_module(module), name)
            if not (isinstance(kind, type) and hasattr(kind, "get_params")):  # not any function of a module
                raise TypeError("it is not a class of estimators")
            return kind(**self.options)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InputError(f"the estimator {self.estimator!r} cannot be created: {error}") from error

    def make_trainer(self, dataset: Dataset, data: Path | None) -> Trainer:
        if dataset.features.ndim != 2:
            raise InputError(
                f"the model 'sklearn' reads rows of numbers, but {dataset.name} has rows of shape "
                f"{dataset.features.shape[1:]}: use other features, or the model perceptron or convnet"
            )
        return SklearnTrainer(self.make, dataset.classes)


@dataclass(frozen=True)
class Program:
    """An external program that is run with paths: see `ProgramTrainer`."""

    command: tuple[str, ...]
    folder: str | None = None
    embeddings: bool = False  # whether it writes embeddings

    @property
    def code(self) -> str | None:
        return f"runs the program {shlex.join(self.command)}"

    def check(self, data: Path | None) -> None:
        """Refuse an empty command."""
        if not self.command:
            raise InputError('command must name a program, such as ["python", "train.py"]; got []')

    def make_trainer(self, dataset: Dataset, data: Path | None) -> Trainer:
        return ProgramTrainer(self.command, dataset.classes, self.folder)


MODELS: Mapping[str, Any] = {
    "perceptron": Perceptron,
    "ngrams": NGrams,
    "convnet": ConvNet,
    "vgg16": VGG16,
    "sklearn": Estimator,
    "program": Program,
}


def _check_training(training: Training) -> None:
    if find_spec("torch") is None:
        raise MissingExtraError("a network", "torch")
    training.check()


def _need_pixels(kind: str, dataset: Dataset) -> None:
    if dataset.features.ndim != 4:
        raise InputError(
            f"the model {kind!r} reads images (n, 3, height, width), but {dataset.name} has rows of shape "
            f'{dataset.features.shape[1:]}: use features = "pixels", or the model perceptron'
        )


# Inputs.


def flatten(features: Any) -> npt.NDArray[np.float32]:
    """Rows of any shape as vectors of numbers."""
    return as_floats(features).reshape(len(features), -1)


def center_pixels(images: Any) -> npt.NDArray[np.float32]:
    """Bytes as numbers from -1 to 1."""
    return (as_floats(images) - 127.5) / 127.5


def scale_pixels(images: Any) -> npt.NDArray[np.float32]:
    """Bytes as numbers, normalized as the ImageNet weights need them."""
    return ((as_floats(images) / 255 - IMAGENET_MEAN) / IMAGENET_SPREAD).astype(np.float32)


# The modules.


def build_perceptron(widths: tuple[int, ...], dropout: float) -> Any:
    """Linear layers of these widths; dropout before each but the first."""
    from torch import nn

    layers: list[Any] = [nn.Linear(widths[0], widths[1])]
    for width, wider in pairwise(widths[1:]):
        layers += [nn.ReLU(), *([nn.Dropout(dropout)] if dropout else []), nn.Linear(width, wider)]
    return nn.Sequential(*layers)


def build_convnet(shape: tuple[int, ...], channels: tuple[int, ...], hidden: int, classes: int) -> Any:
    """(3, 32, 32) -> a block for each entry of `channels`, each halving the sides -> hidden -> classes."""
    from torch import channels_last, nn

    layers: list[Any] = []
    depth, side = shape[0], shape[1]
    for width in channels:
        # ReLU after pooling gives the same result as before it, at a quarter of the work.
        layers += [nn.Conv2d(depth, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.MaxPool2d(2), nn.ReLU()]
        depth, side = width, side // 2
    layers += [nn.Flatten(), nn.Linear(depth * side * side, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    # Channels last: faster on a CPU.
    return nn.Sequential(*layers).to(memory_format=channels_last)


def build_vgg16(shape: tuple[int, ...], classes: int, weights: Path | None) -> Any:
    """The convolutions, numbered as in torchvision, so that its weights can be loaded; then two layers of 4,096."""
    from torch import nn

    convolutions: list[Any] = []
    depth, side = shape[0], shape[1]
    for width in VGG16_LAYERS:
        if width == 0:
            convolutions.append(nn.MaxPool2d(2))
            side //= 2
        else:
            convolutions += [nn.Conv2d(depth, width, 3, padding=1), nn.ReLU()]
            depth = width
    features = nn.Sequential(*convolutions)
    if weights is not None:
        features.load_state_dict(_read_weights(weights))
    head = (nn.Linear(depth * side * side, VGG16_WIDTH), nn.ReLU(), nn.Linear(VGG16_WIDTH, VGG16_WIDTH), nn.ReLU())
    return nn.Sequential(features, nn.Flatten(), *head, nn.Linear(VGG16_WIDTH, classes))


def _read_weights(path: Path) -> dict[str, Any]:
    """The weights of the convolutions, from a state file."""
    import pickle

    import torch

    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        found = {key.removeprefix("features."): state[key] for key in state if key.startswith("features.")}
    except (OSError, RuntimeError, pickle.UnpicklingError, AttributeError, TypeError, EOFError) as error:
        raise InputError(f"{path} cannot be read as weights of VGG-16: get them from {VGG16_WEIGHTS}") from error
    if not found:
        raise InputError(f"{path} has no weights named features.*: get those of VGG-16 from {VGG16_WEIGHTS}")
    return found
