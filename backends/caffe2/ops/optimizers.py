"""Optimizer steps of ONNX's training domain."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import FLOAT, cast
from ..common.shapes import broadcast
from ..net import Net
from ..rules import onnx_op

_TRAINING = "ai.onnx.preview.training"

onnx_op.gap("gradients are taken while a net is written, not between named tensors of one", f"{_TRAINING}::Gradient")


@onnx_op(f"{_TRAINING}::Adagrad")
def adagrad(
    net: Net, rate: Blob, count: Blob, *tensors: Blob, decay_factor: float, epsilon: float, norm_coefficient: float
) -> list[Blob]:
    """H ← H + g², X ← X − R·g / (√H + ε), where the rate R decays."""
    decay = net.Add(net.Mul(_cast_to_float(net, count), net.const(decay_factor)), net.const(1.0))
    current = net.Div(rate, decay)
    results = []
    for x, given, h in _group_by_tensor(tensors, 3):
        g = _regularize_gradient(net, x, given, norm_coefficient)
        sums = net.Add(h, net.Mul(g, g))
        step = net.Div(net.Mul(current, g), net.Add(net.Sqrt(sums), net.const(epsilon)))
        results.append([net.Sub(x, step), sums])
    return _interleave_results(results)


@onnx_op(f"{_TRAINING}::Adam")
def adam(
    net: Net,
    rate: Blob,
    count: Blob,
    *tensors: Blob,
    alpha: float,
    beta: float,
    epsilon: float,
    norm_coefficient: float,
    norm_coefficient_post: float,
) -> list[Blob]:
    """V ← αV + (1 − α)g, H ← βH + (1 − β)g², X ← X − R·V / (√H + ε); after the first step R is corrected for bias."""
    time, one = _cast_to_float(net, count), net.const(1.0)
    powers = [net.Pow(*broadcast(net, net.const(v), time)) for v in (alpha, beta)]
    corrected = net.Div(net.Mul(rate, net.Sqrt(net.Sub(one, powers[1]))), net.Sub(one, powers[0]))
    current = net.Where(*broadcast(net, net.GT(time, net.const(0.0)), corrected, rate))
    kept = net.const(1 - norm_coefficient_post)
    results = []
    for x, given, v, h in _group_by_tensor(tensors, 4):
        g = _regularize_gradient(net, x, given, norm_coefficient)
        mean = net.Add(net.Mul(v, net.const(alpha)), net.Mul(g, net.const(1 - alpha)))
        square = net.Add(net.Mul(h, net.const(beta)), net.Mul(net.Mul(g, g), net.const(1 - beta)))
        step = net.Div(net.Mul(current, mean), net.Add(net.Sqrt(square), net.const(epsilon)))
        results.append([net.Mul(net.Sub(x, step), kept), mean, square])
    return _interleave_results(results)


@onnx_op(f"{_TRAINING}::Momentum")
def momentum(
    net: Net, rate: Blob, count: Blob, *tensors: Blob, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> list[Blob]:
    """V ← αV + βg, X ← X − R·V, or X − R·(g + αV); the first step uses the whole gradient."""
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"mode={mode!r}")
    later = cast(net, net.GT(_cast_to_float(net, count), net.const(0.0)), FLOAT[0])
    factor = net.Add(net.Mul(later, net.const(beta - 1)), net.const(1.0))
    results = []
    for x, given, v in _group_by_tensor(tensors, 3):
        g = _regularize_gradient(net, x, given, norm_coefficient)
        moved = net.Add(net.Mul(v, net.const(alpha)), net.Mul(g, factor))
        step = moved if mode == "standard" else net.Add(g, net.Mul(moved, net.const(alpha)))
        results.append([net.Sub(x, net.Mul(step, rate)), moved])
    return _interleave_results(results)


def _cast_to_float(net: Net, count: Blob) -> Blob:
    return cast(net, count, ir.DataType.FLOAT)


def _regularize_gradient(net: Net, x: Blob, g: Blob, coefficient: float) -> Blob:
    if x.dtype not in FLOAT:
        raise Unsupported("a step of an optimizer in another dtype than float32")
    return net.Add(g, net.Mul(x, net.const(float(coefficient))))


def _group_by_tensor(tensors: Sequence[Blob], kinds: int) -> list[list[Blob]]:
    """Group X1 X2 … G1 G2 … as (X1, G1, …), (X2, G2, …) …."""
    count = len(tensors) // kinds
    return [[tensors[k * count + i] for k in range(kinds)] for i in range(count)]


def _interleave_results(results: list[list[Blob]]) -> list[Blob]:
    """Return the results per tensor as X1 X2 … V1 V2 …."""
    return [value for row in zip(*results, strict=True) for value in row]
