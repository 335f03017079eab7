"""Torch modules as trainers: shapes, embeddings, seeds, and what is refused."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from hedgerow.errors import InputError, MissingExtraError
from hedgerow.models import TorchTrainer, Training
from hedgerow.models.networks import OPTIMIZERS, PREDICT_ROWS, make_optimizer


def make_module() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def make_blobs(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    labels = np.arange(n) % 3
    noise = np.random.default_rng(0).normal(0, 0.5, (n, 5))
    return (3 * np.eye(3, 5)[labels] + noise).astype(np.float32), labels


def test_learns_and_answers_in_the_promised_shapes() -> None:
    features, labels = make_blobs()
    features.flags.writeable = False  # a mapped pool is
    model = TorchTrainer(make_module, 3, Training(epochs=40, minibatch=16, learning_rate=0.01)).fit(
        features, labels, seed=1
    )
    probabilities = model.probabilities(features)
    assert probabilities.shape == (90, 3)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert np.mean(probabilities.argmax(axis=1) == labels) > 0.95
    assert model.embeddings(features).shape == (90, 8)


def test_embeddings_are_what_the_last_layer_reads() -> None:
    features, labels = make_blobs()
    model = TorchTrainer(make_module, 3, Training(epochs=2)).fit(features, labels, seed=1)
    with torch.no_grad():
        logits = model.last(torch.from_numpy(model.embeddings(features)))
    np.testing.assert_allclose(torch.softmax(logits, 1).numpy(), model.probabilities(features), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"optimizer": "sgd", "momentum": 0.9, "schedule": "cosine", "steps": 7}])
def test_one_seed_one_model_and_torch_as_it_was(options: dict[str, Any]) -> None:
    features, labels = make_blobs()
    trainer = TorchTrainer(make_module, 3, Training(epochs=3, minibatch=16, **options))
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other = (trainer.fit(features, labels, seed=seed).probabilities(features) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_cycle_rises_to_the_learning_rate_and_falls_to_nothing(optimizer: str) -> None:
    training = Training(optimizer=optimizer, learning_rate=0.5, schedule="one-cycle", momentum=0.3)
    steps, schedule = make_optimizer(torch, make_module(), training, 100)
    rates = []
    for _ in range(100):
        rates.append(steps.param_groups[0]["lr"])
        steps.step()
        schedule.step()
    peak = int(np.argmax(rates))
    assert rates[peak] == pytest.approx(0.5)
    assert 20 < peak < 40
    assert np.all(np.diff(rates[: peak + 1]) > 0)
    assert np.all(np.diff(rates[peak:]) < 0)
    assert max(rates[0], 1000 * rates[-1]) < 0.05
    assert steps.param_groups[0].get("momentum", 0.3) == 0.3  # the user's own


def test_one_cycle_of_a_single_step_trains() -> None:
    features, labels = make_blobs()
    model = TorchTrainer(make_module, 3, Training(steps=1, schedule="one-cycle")).fit(features, labels, seed=0)
    assert np.isfinite(model.probabilities(features)).all()


def test_chunks_make_no_difference_to_rows() -> None:
    features, labels = make_blobs()
    model = TorchTrainer(make_module, 3, Training(epochs=1)).fit(features, labels, seed=0)
    many = np.tile(features, (PREDICT_ROWS // 90 + 2, 1))
    np.testing.assert_allclose(model.probabilities(many)[: len(features)], model.probabilities(features), atol=1e-6)
    assert len(model.embeddings(many)) == len(many) > PREDICT_ROWS


def test_a_batch_can_be_augmented() -> None:
    seen = []

    def augment(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append(float(torch.rand(1, generator=generator)))
        return batch.flip(0) * 0

    features, labels = make_blobs()
    trainer = TorchTrainer(make_module, 3, Training(steps=4, minibatch=10), augment=augment)
    model = trainer.fit(features, labels, seed=3)
    assert len(set(seen)) == 4
    assert np.mean(model.probabilities(features).argmax(axis=1) == labels) < 0.7  # it saw zeros only


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ({"optimizer": "adams"}, "unknown optimizer 'adams': did you mean 'adam'"),
        ({"schedule": "cosin"}, "unknown schedule 'cosin': did you mean 'cosine'"),
    ],
)
def test_a_mistake_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TorchTrainer(make_module, 3, Training(**options)).fit(*make_blobs(), seed=0)


def test_labels_are_held_to_the_classes_and_the_module_to_a_linear_layer() -> None:
    features, labels = make_blobs()
    with pytest.raises(InputError, match="labels contain class 2, but the classes are 0 to 1"):
        TorchTrainer(make_module, 2).fit(features, labels, seed=0)
    with pytest.raises(InputError, match="Identity has no linear layer"):
        TorchTrainer(nn.Identity, 5).fit(features, labels, seed=0)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install .\.\[torch\]"):
        TorchTrainer(make_module, 3).fit(*make_blobs(), seed=0)
