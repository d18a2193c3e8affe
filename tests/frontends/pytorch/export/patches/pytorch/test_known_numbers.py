"""Numbers that forward reads from a module's constants, which torch.export forgets: compared with the module itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from convert.errors import Unsupported
from tests.support.pytorch_tools import agrees, noise, read, shape_of


class Reads(nn.Module):
    """A module whose strides are neither weights nor buffers, as in Ultralytics' detectors."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.strides, self.counts = torch.tensor([8.0, 16.0]), torch.tensor([[2, 1]])
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def number_in_a_loop(m: Any, x: Tensor) -> Tensor:
    return torch.cat([torch.full((x.shape[0], 1), float(s)) * x for s in m.strides])


def filled_with_a_tensor(m: Any, x: Tensor) -> Tensor:
    return torch.cat([torch.full((x.shape[0], 3), s) + x for s in m.strides])


def of_integers(m: Any, x: Tensor) -> Tensor:
    return x.new_full((x.shape[0], 1), m.counts[0, 0]) * x.repeat(int(m.counts[0, 1]), m.counts.tolist()[0][0])[:, :3]


def part(m: Any, x: Tensor) -> Tensor:
    return x[:, : int(m.counts[0, :1])] * m.strides[:1]


@pytest.mark.parametrize(
    "function", [number_in_a_loop, filled_with_a_tensor, of_integers, part], ids=lambda f: f.__name__
)
def test_they_leave_the_batch_dynamic(function: Callable[[Any, Tensor], Tensor]) -> None:
    module = Reads(function)
    model = read(module, examples={0: torch.rand(1, 3).numpy()})
    assert shape_of(model.graph.inputs[0]) == ["batch", 3]
    for rows in (1, 2, 5):
        agrees(module, model, noise(rows, 3))


def test_one_that_forward_writes_to_is_none() -> None:
    def counts(m: Any, x: Tensor) -> Tensor:
        m.strides.add_(1)
        return x * float(m.strides[0])

    with pytest.raises(Unsupported):
        read(Reads(counts), "x:float32[n,3]")
