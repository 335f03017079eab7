"""Any torch module that ends in a linear layer, as a `Trainer`.

The embedding is the input of the module's last linear layer, its "penultimate layer" (paper, section 3.1); a hook reads
it, so the module needs no change. Training minimizes cross-entropy on minibatches drawn by the seed. On a CPU with a
fixed number of threads the same rows, labels and seed give the same weights, bit for bit, so that an experiment can
resume from the rows it labeled without storing its models.

What it does not do: promise the same bits on a GPU, or train on several.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import checks
from hedgerow.errors import InputError, MissingExtraError
from hedgerow.models.protocol import Labels, check_labels, draw_walk

OPTIMIZERS = ("adam", "sgd", "adagrad")
SCHEDULES = ("constant", "cosine", "one-cycle")
PREDICT_ROWS = 1024  # rows predicted at a time: they may be images, or thousands of numbers each
# On a CPU, where the layers of so many images stay in its cache: less than half of the time for 32 x 32 pixels.
CPU_ROWS = 64


def as_floats(features: Any) -> npt.NDArray[np.float32]:
    """Features as a new float32 array: those of the pool may be memory-mapped and read-only."""
    return np.array(features, np.float32)


@dataclass(frozen=True)
class Training:
    """How a module is trained: `epochs` passes over what is labeled, or exactly `steps` minibatches if given.

    `minibatch` is the number of rows (or pairs) per step. `schedule`: "constant"; "cosine", where the learning rate
    decays to zero; or "one-cycle", where it first rises from a small value, so that a large rate does not ruin new
    weights. `device` "auto" is a GPU if there is one.
    """

    epochs: int = 20
    steps: int | None = None
    minibatch: int = 100
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    threads: int = 1
    device: str = "auto"

    def check(self) -> None:
        """Refuse values that torch cannot use."""
        for name in ("epochs", "minibatch", "threads"):
            checks.integer(getattr(self, name), name, least=1)
        if self.steps is not None:
            checks.integer(self.steps, "steps", least=1)
        checks.real(self.learning_rate, "learning_rate", above=0)
        checks.real(self.momentum, "momentum", least=0)
        checks.real(self.weight_decay, "weight_decay", least=0)
        checks.option(self.optimizer, "optimizer", OPTIMIZERS)
        checks.option(self.schedule, "schedule", SCHEDULES)


@dataclass(frozen=True)
class TorchTrainer:
    """`make()` returns a new module, whose initial weights torch draws by the seed.

    `prepare` turns rows of features into a float32 array; `augment(batch, generator)` changes a minibatch of tensors
    before each step. Needs the extra `torch`.
    """

    make: Callable[[], Any]
    classes: int
    training: Training = Training()
    prepare: Callable[[Any], Any] = as_floats
    augment: Callable[[Any, Any], Any] | None = None

    def fit(self, features: Any, labels: Labels, *, seed: int) -> "FittedNetwork":
        self.training.check()
        check_labels(labels, features, self.classes)
        torch = import_torch()
        device = choose_device(torch, self.training.device)
        with hold_steady(torch, self.training.threads, checks.seed(seed)):
            module = self.make().to(device)
            last = find_last(torch, module)
            self._train(torch, module, features, labels, np.random.default_rng(seed), device)
        rows = CPU_ROWS if device.type == "cpu" else PREDICT_ROWS
        return FittedNetwork(module.eval(), last, self.prepare, self.training.threads, device, rows)

    def _train(
        self, torch: Any, module: Any, features: Any, labels: Labels, rng: np.random.Generator, device: Any
    ) -> None:
        targets = torch.from_numpy(np.asarray(labels, np.int64)).to(device)

        def measure_loss(rows: Labels, generator: Any) -> Any:
            batch = load_batch(torch, self.prepare(features[rows]), device)
            if self.augment is not None:
                batch = self.augment(batch, generator)
            return torch.nn.functional.cross_entropy(module(batch), targets[rows])

        descend(torch, module, self.training, len(labels), measure_loss, rng)


@dataclass(frozen=True, eq=False)
class FittedNetwork:
    """A trained module, and its last linear layer."""

    module: Any
    last: Any
    prepare: Callable[[Any], Any]
    threads: int
    device: Any
    block_rows: int = PREDICT_ROWS

    def probabilities(self, features: Any) -> npt.NDArray[np.float32]:
        torch = import_torch()
        return self.predict(features, lambda batch: torch.softmax(self.module(batch), dim=1))

    def embeddings(self, features: Any) -> npt.NDArray[np.float32]:
        read: list[Any] = []
        hook = self.last.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))

        def embed(batch: Any) -> Any:
            self.module(batch)
            return read.pop().flatten(1)

        try:
            return self.predict(features, embed)
        finally:
            hook.remove()

    def predict(self, features: Any, action: Callable[[Any], Any]) -> npt.NDArray[np.float32]:
        """The output of `action` for all rows, float32 (n, width), computed `block_rows` rows at a time."""
        torch = import_torch()
        out: npt.NDArray[np.float32] | None = None
        with hold_steady(torch, self.threads, 0), torch.inference_mode():
            for start in range(0, len(features), self.block_rows):
                some = slice(start, start + self.block_rows)
                found = action(load_batch(torch, self.prepare(features[some]), self.device)).cpu().numpy()
                if out is None:
                    out = np.empty((len(features), found.shape[1]), np.float32)
                out[some] = found
        if out is None:
            raise InputError("features has no rows: there is nothing to predict")
        return out


def find_last(torch: Any, module: Any) -> Any:
    """The last linear layer, in the order of `module.modules()`."""
    linear = [part for part in module.modules() if isinstance(part, torch.nn.Linear)]
    if not linear:
        raise InputError(f"{type(module).__name__} has no linear layer: the input of the last one is the embedding")
    return linear[-1]


@contextmanager
def hold_steady(torch: Any, threads: int, seed: int) -> Iterator[None]:
    """Set the number of threads and seed torch's generator; restore both when the block ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)


def descend(
    torch: Any,
    module: Any,
    training: Training,
    n: int,
    measure_loss: Callable[[Labels, Any], Any],
    rng: np.random.Generator,
) -> None:
    """Train a module on n labels, by minibatches: `measure_loss(positions of labels, torch's generator)`."""
    minibatch = min(training.minibatch, n)
    steps = training.steps or training.epochs * max(1, n // minibatch)
    walk = draw_walk(n, steps * minibatch, rng).reshape(steps, minibatch)
    optimizer, schedule = make_optimizer(torch, module, training, steps)
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    module.train()
    for some in walk:
        loss = measure_loss(some, generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()


def make_optimizer(torch: Any, module: Any, training: Training, steps: int) -> tuple[Any, Any]:
    """The optimizer and its learning rate scheduler."""
    given: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    # Fused: one pass over each weight and its moments; the default makes one pass per term of the update.
    if training.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), fused=True, **given)
    elif training.optimizer == "sgd":
        optimizer = torch.optim.SGD(module.parameters(), momentum=training.momentum, fused=True, **given)
    else:
        optimizer = torch.optim.Adagrad(module.parameters(), **given)
    schedulers = torch.optim.lr_scheduler
    if training.schedule == "cosine":
        return optimizer, schedulers.CosineAnnealingLR(optimizer, T_max=steps)
    if training.schedule == "one-cycle":
        cycle = {"max_lr": training.learning_rate, "total_steps": steps, "cycle_momentum": False}
        return optimizer, schedulers.OneCycleLR(optimizer, **cycle)
    return optimizer, schedulers.ConstantLR(optimizer, factor=1.0)


def load_batch(torch: Any, prepared: Any, device: Any) -> Any:
    """A tensor, or a tuple of tensors for a tuple of arrays.

    Images get channels-last memory format: convolutions on a CPU are twice as fast with it.
    """
    if isinstance(prepared, tuple):
        return tuple(load_batch(torch, part, device) for part in prepared)
    batch = torch.from_numpy(prepared)
    return (batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch).to(device)


def choose_device(torch: Any, name: str) -> Any:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("TorchTrainer", "torch") from None
    return torch
