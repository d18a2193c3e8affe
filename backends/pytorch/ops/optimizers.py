"""Optimizer steps of ONNX's training domain, and derivatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from convert.errors import Unsupported

from ..rules import onnx_op

_TRAINING = "ai.onnx.preview.training"


def _by_tensor(tensors: Sequence[Any], kinds: int) -> list[Sequence[Any]]:
    """Group X1 X2 … G1 G2 … as (X1, G1, …), (X2, G2, …) …."""
    count = len(tensors) // kinds
    return [tensors[i::count] for i in range(count)]


def _by_kind(results: Iterable[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the results per tensor as X1 X2 … V1 V2 …."""
    return tuple(y for kind in zip(*results, strict=True) for y in kind)


@onnx_op(f"{_TRAINING}::Adagrad")
def adagrad(t, rate, count, *tensors, decay_factor, epsilon, norm_coefficient):
    rate = rate / (1 + count.to(rate.dtype) * decay_factor)

    def step(x: Any, g: Any, h: Any) -> tuple[Any, Any]:
        g = g + norm_coefficient * x
        h = h + g * g
        return x - rate * g / (torch.sqrt(h) + epsilon), h

    return _by_kind(step(*row) for row in _by_tensor(tensors, 3))


@onnx_op(f"{_TRAINING}::Adam")
def adam(t, rate, count, *tensors, alpha, beta, epsilon, norm_coefficient, norm_coefficient_post):
    steps = count.to(rate.dtype)
    unbiased = rate * torch.sqrt(1 - torch.pow(beta, steps)) / (1 - torch.pow(alpha, steps))
    rate = torch.where(count > 0, unbiased, rate)

    def step(x: Any, g: Any, v: Any, h: Any) -> tuple[Any, Any, Any]:
        g = g + norm_coefficient * x
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        return (1 - norm_coefficient_post) * (x - rate * v / (torch.sqrt(h) + epsilon)), v, h

    return _by_kind(step(*row) for row in _by_tensor(tensors, 4))


@onnx_op(f"{_TRAINING}::Momentum")
def momentum(t, rate, count, *tensors, alpha, beta, mode, norm_coefficient):
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"Momentum with mode {mode!r}")
    share = torch.where(count > 0, beta, 1.0).to(rate.dtype)  # the first step uses the whole gradient

    def step(x: Any, g: Any, v: Any) -> tuple[Any, Any]:
        g = g + norm_coefficient * x
        v = alpha * v + share * g
        return x - rate * (g + alpha * v if mode == "nesterov" else v), v

    return _by_kind(step(*row) for row in _by_tensor(tensors, 3))
