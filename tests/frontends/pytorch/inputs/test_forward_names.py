"""Inputs have the names of forward's parameters, including upper case, and the source runs with these names."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import convert


class Plain(nn.Module):
    def forward(self, X: Tensor, Mask: Tensor | None = None, x: Tensor | None = None) -> Tensor:
        y = 2 * X
        y = y if Mask is None else y * Mask
        return y if x is None else y - x


class Nested(nn.Module):
    def forward(self, batch: dict[str, Tensor], *, Scale: Tensor) -> Tensor:
        return batch["A"] * Scale - batch["a_2"]


class Same(nn.Module):
    def forward(self, Q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return Q, Q + k


class Written(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        X += 1
        return X * 2


def draw(seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32))


CASES: dict[str, tuple[nn.Module, dict[str, Tensor]]] = {
    "one": (Plain(), {"X": draw(0)}),
    "with the second": (Plain(), {"X": draw(0), "Mask": draw(1)}),
    "two that differ in case": (Plain(), {"X": draw(0), "x": draw(1)}),
    "all, in another order": (Plain(), {"x": draw(2), "Mask": draw(1), "X": draw(0)}),
    "keys of a dict": (Nested(), {"batch_A": draw(0), "batch_a_2": draw(1), "Scale": draw(2)}),
    "an output": (Same(), {"Q": draw(0), "k": draw(1)}),
    "written into": (Written(), {"X": draw(0)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_inputs_keep_their_case(name: str) -> None:
    module, inputs = CASES[name]
    session = onnxruntime.InferenceSession(convert.to_onnx(module, inputs).SerializeToString())
    assert {i.name for i in session.get_inputs()} == set(inputs)
    longer = {n: torch.cat([x, -x]) for n, x in inputs.items()}
    got = session.run(None, {n: x.numpy() for n, x in longer.items()})
    want: Any = (
        module({"A": longer["batch_A"], "a_2": longer["batch_a_2"]}, Scale=longer["Scale"])
        if isinstance(module, Nested)
        else module(**{n: x.clone() for n, x in longer.items()})
    )
    for one, other in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-6)
