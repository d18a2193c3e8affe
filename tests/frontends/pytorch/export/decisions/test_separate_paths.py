"""Decisions on data that do not depend on each other, in every combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import convert
from convert.errors import Unsupported
from tests.suites.programs.torch_program import Called

COUNT = 4


def each_scales(x: Tensor) -> Tensor:
    y = x
    for k in range(COUNT):
        y = y * (k + 2.0) if x[:, k].sum() > 0 else y - k
    return y


def each_is_skipped(x: Tensor) -> Tensor:
    """Skip an update if the condition holds."""
    y = torch.zeros_like(x)
    for k in range(COUNT):
        (rows,) = torch.where(x[:, k] > 0)
        if rows.numel() == 0:
            continue
        y = y.index_add(0, rows, x[rows] * (k + 1))
    return y


def each_fills_an_output(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(x[:, k].amax() if (x[:, k] > 0).any() else x.sum() for k in range(COUNT))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(COUNT, COUNT) for _ in range(COUNT))

    def forward(self, x: Tensor) -> Tensor:
        found, out = x.argmax(1), torch.zeros_like(x)
        for k, layer in enumerate(self.layers):
            mask = found == k
            if mask.any():
                out[mask] = layer(x[mask])
        return out


def signs() -> list[np.ndarray]:
    """Rows for every combination of positive and negative columns."""
    rng = np.random.default_rng(0)
    rows = np.abs(rng.standard_normal((2, COUNT))).astype(np.float32) + 0.1
    return [rows * np.array(s, np.float32) for s in itertools.product((1, -1), repeat=COUNT)]


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(Called(each_scales), id="scales"),
        pytest.param(Called(each_is_skipped), id="skipped", marks=pytest.mark.slow),
        pytest.param(Called(each_fills_an_output), id="outputs", marks=pytest.mark.slow),
        pytest.param(Experts(), id="experts", marks=pytest.mark.slow),
    ],
)
def test_every_combination_is_in_the_graph(module: nn.Module) -> None:
    torch.manual_seed(0)
    model = convert.to_onnx(module, torch.ones(2, COUNT), verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for x in signs():
        with torch.no_grad():
            want = module(torch.from_numpy(x))
        got = session.run(None, {"x": x})
        for w, g in zip(want if isinstance(want, tuple) else (want,), got, strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


def counts(x: Tensor) -> Any:
    """Keep a Python counter from one decision to the next."""
    n, y = 0, x
    for k in range(COUNT):
        if (x[:, k] > 0).any():
            n, y = n + 1, y * 2
    return y / max(n, 1)


def remembers(x: Tensor) -> Any:
    seen, y = False, x
    for k in range(COUNT):
        if (x[:, k] > 0).any():
            seen, y = True, y * 2
    return y + 1 if seen else y


def each_sees_the_last(x: Tensor) -> Tensor:
    """Each decision depends on earlier ones, through steps that look alike."""
    y = x
    for k in range(COUNT):
        if y[:, k].sum() > 0:
            y = y.roll(1, 1) - 0.1 * (k + 1)
    return y


def whether_an_odd_number(x: Tensor) -> Any:
    """Decide on the parity of five conditions: one changes the result, two together do not."""
    n = 0
    for k in range(5):
        if (x[:, k % COUNT] > k / 10).any():
            n += 1
    return torch.tanh(x) if n % 2 else torch.exp(x)


@pytest.mark.slow
@pytest.mark.parametrize("function", [counts, remembers, whether_an_odd_number, each_sees_the_last])
def test_those_that_depend_on_each_other_are_refused(function: Callable[[Tensor], Any]) -> None:
    with pytest.raises(Unsupported, match="more than 8 ways"):
        convert.to_onnx(Called(function), torch.ones(2, COUNT), verify=False)
