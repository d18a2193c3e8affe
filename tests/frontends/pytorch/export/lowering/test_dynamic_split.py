"""Pieces, diagonals, windows, lengths and numbers along a length that is known at run time only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from convert.parity.inputs.size_guards import broken_guards
from tests.support.marks import slow
from tests.support.pytorch_tools import noise, read, run

LENGTHS = range(1, 10)


class Called(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def found(x: torch.Tensor) -> torch.Tensor:
    """Return rows that data selects, by way of another function's len."""
    places = (x.sum(1) > 0).nonzero(as_tuple=True)
    return x[places].view(len(places[0]), 3)


def windows(x: torch.Tensor) -> torch.Tensor:
    """Return overlapping windows of four of a length padded to a multiple of four, as in Longformer."""
    padded = torch.nn.functional.pad(x, (0, 0, 0, (4 - len(x) % 4) % 4)).clone()
    pieces = padded.view(torch.div(len(padded), 4, rounding_mode="trunc"), -1, 3)
    return pieces.as_strided((len(pieces) * 2 - 1, 4, 3), (6, 3, 1))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], bool]]] = {
    # The function, and the lengths for which it gives the captured number of pieces.
    "chunk 2": (lambda x: x.chunk(2), lambda n: n > 1),
    "chunk 3": (lambda x: x.chunk(3), lambda n: n not in (1, 2, 4)),
    "chunk 4": (lambda x: x.chunk(4)[-1] * 2, lambda n: True),
    "split": (lambda x: x.split(100)[0] + 1, lambda n: True),
    "halves": (lambda x: x.split(x.shape[0] // 2), lambda n: n % 2 == 0),
    "tensor_split": (lambda x: x.tensor_split(3), lambda n: True),
    "unfold": (lambda x: torch.cat((x, x)).unfold(0, 2, 1), lambda n: True),
    "diagonals": (lambda x: (x.diagonal(), x.diagonal(1), x.diagonal(-1)), lambda n: True),
    "diag_embed": (lambda x: (torch.diag_embed(x.t()), torch.diag(x[:, 0], -1)), lambda n: True),
    "linspace": (lambda x: torch.linspace(-1.5, 2, x.shape[0]), lambda n: True),
    "len": (lambda x: x.reshape(len(x), -1) / len(x) + len(x.shape), lambda n: True),
    "len of what is found": (lambda x: found(x).reshape(len(found(x)), -1), lambda n: True),
    "windows by strides": (lambda x: (x + 1).as_strided((len(x), 2, 2), (3, 1, 1)), lambda n: True),
    "windows by strides, behind a padding": (windows, lambda n: True),
    "turned, by strides": (lambda x: (x + 1).t().as_strided((len(x), 3), (1, len(x))), lambda n: True),
    "written by strides": (lambda x: (x + 1).as_strided_scatter(x[:, 0], (len(x),), (3,), 1), lambda n: True),
}


@pytest.mark.parametrize(
    "name",
    slow(FUNCTIONS, "windows by strides, behind a padding", "chunk 2", "chunk 3", "chunk 4", "diag_embed", "halves"),
)
def test_any_length(name: str) -> None:
    """The graph is right for every length that the capture holds for; for others it never silently gives another number
    of pieces.
    """
    function, holds = FUNCTIONS[name]
    module = Called(function)
    model = read(module, "x:float32[n,3]")
    assert json.loads(model.metadata_props["convert.dims"])["n"][1] in (None, 100)
    for n in LENGTHS:
        x = noise(n, 3)
        if not holds(n):
            with pytest.raises(Exception, match=r"only_if_n_|split"):
                run(model, x)
            continue
        want = module(torch.from_numpy(x))
        for a, b in zip(run(model, x), want if isinstance(want, (list, tuple)) else [want], strict=True):
            assert a.shape == tuple(b.shape)
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_an_example_of_which_a_slice_leaves_nothing_does_not_stand_for_all() -> None:
    """With two rows `x[1:-1:2]` is empty. From that example, a condition "at most two rows" was derived wrongly."""
    model = read(Called(lambda x: x[1:-1:2].flatten(1, 2)), "x:float32[b,n,3]")
    guards = json.loads(model.metadata_props.get("convert.guards", "[]"))
    for b in range(3, 9):
        assert not broken_guards(guards, {"b": b, "n": 4})
        x = noise(b, 4, 3)
        np.testing.assert_array_equal(run(model, x)[0], x[1:-1:2].reshape(-1, 12))


def test_pythons_len_is_as_it_was() -> None:
    read(Called(found), "x:float32[n,3]")
    assert "len" not in globals()
    assert "len" not in vars(nn.functional)
