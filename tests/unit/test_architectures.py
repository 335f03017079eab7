"""The models of recipes, on a handful of rows."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hedgerow.errors import InputError, MissingExtraError
from hedgerow.experiments import Dataset, MultiLabel
from hedgerow.experiments.architectures import VGG16, ConvNet, Estimator, Perceptron, build_vgg16
from hedgerow.experiments.recipes import describe_model
from hedgerow.models import Training
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 3, 32, 32), np.uint8)
LABELS = np.arange(12) % 3
IMAGES = Dataset("images", 3, PIXELS, LABELS, PIXELS[:4], LABELS[:4])
NUMBERS = Dataset("numbers", 3, RNG.normal(size=(12, 6)), LABELS, RNG.normal(size=(4, 6)), LABELS[:4])


@pytest.mark.parametrize(
    ("model", "dataset", "width"),
    [
        (Perceptron((9, 7), 0.5, Training(steps=3)), NUMBERS, 7),
        (Perceptron((5,), training=Training(epochs=1)), IMAGES, 5),
        (ConvNet((4, 8), 6, Training(epochs=1, minibatch=4)), IMAGES, 6),
        (Estimator(), NUMBERS, 6),
    ],
)
def test_a_record_makes_a_trainer_for_the_dataset(model: object, dataset: Dataset, width: int) -> None:
    model.check(None)
    fitted = model.make_trainer(dataset, None).fit(dataset.features, dataset.labels, seed=0)
    assert fitted.probabilities(dataset.test_features).shape == (4, 3)
    assert fitted.embeddings(dataset.test_features).shape == (4, width)


def test_the_start_of_a_round_is_an_option_for_pairs() -> None:
    pairs = Annotated(NUMBERS.features, Pairs(np.arange(12), LABELS), LABELS == 0)
    both = MultiLabel("both", ("a", "b", "c"), pairs, pairs)
    assert [Perceptron(start=start).make_trainer(both, None).start for start in ("previous", "first")] == [
        "previous",
        "first",
    ]
    with pytest.raises(InputError, match="unknown start 'last'"):
        Perceptron(start="last").check(None)
    with pytest.raises(InputError, match=r"start = 'first' is for multi-label datasets; numbers trains from scratch"):
        Perceptron(start="first").make_trainer(NUMBERS, None)


def test_an_option_that_came_later_is_listed_if_it_is_used() -> None:
    """So that runs which were started before it are continued."""
    before = describe_model(Perceptron((9, 7), 0.5))
    assert list(before) == ["hidden", "dropout", "training"]
    assert describe_model(Perceptron((9, 7), 0.5, start="first")) == before | {"start": "first"}


def save_weights(folder: Path) -> dict[str, torch.Tensor]:
    """A state file such as torchvision's: features.* by the numbers of their layers, and the rest."""
    torch.manual_seed(0)
    body = build_vgg16((3, 32, 32), 3, None)[0]
    state = {f"features.{key}": value for key, value in body.state_dict().items()}
    torch.save(state | {"classifier.0.weight": torch.zeros(2)}, folder / "vgg16-397923af.pth")
    return state


def test_vgg16_takes_two_steps_from_the_weights_given(tmp_path: Path) -> None:
    state = save_weights(tmp_path)
    assert {"features.0.weight", "features.28.bias"} <= set(state)  # as torchvision numbers them
    trainer = VGG16(training=Training(epochs=1, minibatch=2, learning_rate=0.01, optimizer="sgd")).make_trainer(
        IMAGES, tmp_path
    )
    fitted = trainer.fit(PIXELS[:4], LABELS[:4], seed=0)  # four images in twos: two steps
    moved = fitted.module[0][0].weight - state["features.0.weight"]
    assert 0 < float(moved.detach().abs().max()) < 0.1
    assert [layer.out_features for layer in fitted.module if isinstance(layer, torch.nn.Linear)] == [4096, 4096, 3]
    assert fitted.embeddings(PIXELS[:2]).shape == (2, 4096)
    np.testing.assert_allclose(fitted.probabilities(PIXELS[:2]).sum(axis=1), 1, atol=1e-5)


def test_vgg16_without_its_weights(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"starts from ImageNet weights.*get it from https://download\.pytorch"):
        VGG16().check(tmp_path)
    (tmp_path / "vgg16-397923af.pth").write_bytes(b"nothing of the kind")
    trainer = VGG16().make_trainer(IMAGES, tmp_path)
    with pytest.raises(InputError, match="cannot be read as weights"):
        trainer.fit(PIXELS, LABELS, seed=0)
    torch.save({"other": torch.zeros(1)}, tmp_path / "vgg16-397923af.pth")
    with pytest.raises(InputError, match="has no weights named features"):
        trainer.fit(PIXELS, LABELS, seed=0)


def test_models_refuse_features_of_another_shape() -> None:
    with pytest.raises(InputError, match="'convnet' reads images"):
        ConvNet().make_trainer(NUMBERS, None)
    with pytest.raises(InputError, match="'sklearn' reads rows of numbers"):
        Estimator().make_trainer(IMAGES, None)


@pytest.mark.parametrize(
    ("library", "model"), [("torch", ConvNet()), ("torch", Perceptron()), ("sklearn", Estimator())]
)
def test_a_missing_library_is_named_before_anything_runs(
    library: str, model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install .\.\[{library}\]"):
        model.check(None)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Perceptron(hidden=()), "hidden must have at least one layer"),
        (ConvNet(channels=()), "channels must have at least one block"),
        (Perceptron(training=Training(epochs=0)), "epochs must be at least 1"),
        (Estimator("sklearn.linear_model.Logistic"), "'sklearn.linear_model.Logistic' cannot be created"),
        (Estimator(options={"c": 1}), "cannot be created"),
    ],
)
def test_a_model_that_cannot_be_made_is_refused_before_anything_runs(model: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.check(None)
