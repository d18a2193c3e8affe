"""Weights that are described to a capture without watchers are described as PyTorch describes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.patch import in_place
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode

ROWS = [row for row in TABLE if row.targets and row.targets[0].endswith("from_real_tensor")]


class Calls(TorchFunctionMode):
    """Counts the calls that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


class Own(torch.Tensor):
    """A tensor that describes itself by its own functions."""


def described(tensor: torch.Tensor) -> tuple[Any, int]:
    """Return the properties that a capture knows of `tensor`, and the number of calls that a mode saw."""
    with Calls() as calls, FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as mode:
        fake = mode.from_tensor(tensor)
    known = (type(fake), fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device, fake.requires_grad)
    return (*known, isinstance(fake, torch.nn.Parameter), fake.is_leaf, fake._is_view(), fake.layout), calls.count


@pytest.mark.parametrize(
    "tensor",
    [
        torch.nn.Parameter(torch.ones(3, 4)),
        torch.nn.Parameter(torch.ones(3, 4), requires_grad=False),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(6, 4)[2:, 1:3],
        torch.ones(4, dtype=torch.int64),
        torch.ones(()),
        torch.eye(3).to_sparse(),
    ],
    ids=["parameter", "frozen", "channels last", "view", "integers", "scalar", "sparse"],
)
def test_plain_tensors_are_described_alike(tensor: torch.Tensor) -> None:
    before, count_before = described(tensor)
    with in_place(ROWS):
        after, count = described(tensor)
    assert after == before
    assert count < count_before


def test_tensors_with_functions_of_their_own_stay_watched() -> None:
    tensor = torch.ones(3, 4).as_subclass(Own)
    before = described(tensor)
    with in_place(ROWS):
        assert described(tensor) == before
