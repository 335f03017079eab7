"""Torch's Adagrad with a faster step for large embedding tables of which a minibatch changes few rows.

Torch sorts and sums a sparse gradient, then makes one pass over it per term of the update, which is most of the time of
training on texts. Here it is summed and applied in one pass. The order of sums differs, so the last bits do too.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from hedgerow.kernels import adagrad as kernels


def make_adagrad(torch: Any, parameters: Iterable[Any], **given: Any) -> Any:
    """`torch.optim.Adagrad`, with the kernel for sparse gradients on the CPU."""

    class Adagrad(torch.optim.Adagrad):  # type: ignore[misc]
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for table in group["params"]:
                    if table.grad is not None and table.grad.is_sparse and table.device.type == "cpu":
                        _descend(table, self.state[table], np.float32(group["lr"]), np.float32(group["eps"]))
                        table.grad = None  # so that torch skips it
            return super().step(closure)

    return Adagrad(parameters, **given)


def _descend(table: Any, state: dict[str, Any], rate: np.float32, epsilon: np.float32) -> None:
    rows, gradients = table.grad._indices()[0].numpy(), table.grad._values().numpy()
    if "slots" not in state:
        state["slots"] = np.full(len(table), -1, np.int32)
    scratch = np.empty(len(rows), np.int64), np.empty(gradients.shape, np.float32)
    squares = state["sum"].numpy()
    kernels.step(table.detach().numpy(), squares, rows, gradients, rate, epsilon, state["slots"], *scratch)
