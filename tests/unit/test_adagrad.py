"""Adagrad by the kernel is torch's own, whatever rows of a table a minibatch touches."""

import numpy as np
import pytest
import torch
from torch import nn

from hedgerow.models.adagrad import make_adagrad

BUCKETS, WIDTH = 50, 7
Steps = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def draw_steps(seed: int, grams: int) -> Steps:
    """Minibatches of (grams, where texts begin, targets); few buckets, so that most are named again and again."""
    rng = np.random.default_rng(seed)
    return [
        (
            torch.from_numpy(rng.integers(0, BUCKETS // (1 + number % 3), grams)),
            torch.arange(0, grams, 5),
            torch.from_numpy(rng.normal(size=(len(range(0, grams, 5)), 2)).astype(np.float32)),
        )
        for number in range(12)
    ]


def train(ours: bool, steps: Steps) -> list[torch.Tensor]:
    torch.manual_seed(0)
    table, layer = nn.EmbeddingBag(BUCKETS, WIDTH, mode="mean", sparse=True), nn.Linear(WIDTH, 2)
    parameters = [*table.parameters(), *layer.parameters()]
    optimizer = make_adagrad(torch, parameters, lr=0.1) if ours else torch.optim.Adagrad(parameters, lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    with torch.sparse.check_sparse_tensor_invariants(enable=True):
        for grams, starts, targets in steps:
            optimizer.zero_grad(set_to_none=True)
            nn.functional.mse_loss(layer(table(grams, starts)), targets).backward()
            optimizer.step()
            schedule.step()
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("grams", [1, 5, 40, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_torchs_adagrad(seed: int, grams: int) -> None:
    steps = draw_steps(seed, grams)
    before, theirs, ours = train(True, []), train(False, steps), train(True, steps)
    assert not torch.equal(before[0], ours[0])
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_rows_that_no_minibatch_touched_stay_as_they_were() -> None:
    steps = draw_steps(0, 40)[2::3]  # the lowest third of the buckets alone
    before, after = train(True, [])[0], train(True, steps)[0]
    torch.testing.assert_close(after[BUCKETS // 3 :], before[BUCKETS // 3 :], rtol=0, atol=0)
    assert not torch.equal(after[: BUCKETS // 3], before[: BUCKETS // 3])
