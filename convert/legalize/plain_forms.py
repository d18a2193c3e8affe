"""Activations, norms and others written in a few simpler operators.

Some function bodies in ONNX's schemas lose digits: ONNX computes a variance as E[x²] − E[x]², which cancels in float32
far from zero. Here it is E[(x − E[x])²].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _first(node: ir.Node) -> ir.Value:
    """Return the first input, which these operators always have."""
    x = node.inputs[0]
    assert x is not None
    return x


def gelu(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x = node.inputs[0]
    if node.attributes.get_string("approximate", "none") == "tanh":
        cube = g.Mul(g.Mul(x, x), x)
        inner = g.Mul(g.Add(x, g.Mul(cube, 0.044715)), math.sqrt(2 / math.pi))
        phi = g.Add(g.Tanh(inner), 1.0)
    else:
        phi = g.Add(g.Erf(g.Mul(x, math.sqrt(0.5))), 1.0)
    return [g.Mul(g.Mul(x, 0.5), phi)]


def mish(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x = node.inputs[0]
    return [g.Mul(x, g.Tanh(g.Softplus(x)))]


def hard_swish(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x = node.inputs[0]
    return [g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))]


def swish(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x, alpha = node.inputs[0], node.attributes.get_float("alpha", 1.0)
    return [g.Mul(x, g.Sigmoid(x if alpha == 1.0 else g.Mul(x, alpha)))]


def layer_normalization(g: Graph, node: ir.Node) -> Sequence[ir.Value | None] | None:
    x, scale, bias = _first(node), node.inputs[1], [*node.inputs, None][2]
    rank = g.rank(x)
    axes = np.arange(node.attributes.get_int("axis", -1) % rank, rank)
    y, mean, inverse = normalize(g, node, x, axes)
    y = g.Mul(_cast_back(g, y, x), scale)
    return [y if bias is None else g.Add(y, bias), mean, inverse][: len(node.outputs)]


def rms_normalization(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x, scale = _first(node), node.inputs[1]
    rank = g.rank(x)
    axes = np.arange(node.attributes.get_int("axis", -1) % rank, rank)
    wide = _cast_to_stash(g, node, x)
    power = g.ReduceMean(g.Mul(wide, wide), axes, keepdims=1)
    y = g.Div(wide, g.Sqrt(g.Add(power, node.attributes.get_float("epsilon", 1e-5))))
    return [g.Mul(_cast_back(g, y, x), scale)]


def group_normalization(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """GroupNormalization of opset 21 and later, with scale and bias per channel."""
    x, (scale, bias) = _first(node), node.inputs[1:]
    groups, rank = node.attributes.get_int("num_groups"), g.rank(x)
    grouped = g.Reshape(_cast_to_stash(g, node, x), np.array([0, groups, -1], dtype=np.int64))
    mean = g.ReduceMean(grouped, np.array([2]), keepdims=1)
    centred = g.Sub(grouped, mean)
    variance = g.ReduceMean(g.Mul(centred, centred), np.array([2]), keepdims=1)
    normal = g.Div(centred, g.Sqrt(g.Add(variance, node.attributes.get_float("epsilon", 1e-5))))
    y = _cast_back(g, g.Reshape(normal, g.dims(x)), x)
    by_channel = np.array([-1] + [1] * (rank - 2), dtype=np.int64)
    return [g.Add(g.Mul(y, g.Reshape(scale, by_channel)), g.Reshape(bias, by_channel))]


def mean_variance_normalization(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """MeanVarianceNormalization: (x − E[x]) / (√E[(x − E[x])²] + 1e-9); half precision is computed in float32."""
    x = _first(node)
    axes = np.array(node.attributes.get_ints("axes", [0, 2, 3]))
    wide = g.Cast(x, to=ir.DataType.FLOAT) if g.dtype(x) in _HALF else x
    centred = g.Sub(wide, g.ReduceMean(wide, axes, keepdims=1))
    variance = g.ReduceMean(g.Mul(centred, centred), axes, keepdims=1)
    return [_cast_back(g, g.Div(centred, g.Add(g.Sqrt(variance), 1e-9)), x)]


def trilu(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    x, k = _first(node), [*node.inputs, None][1]
    rank = g.rank(x)
    dims = g.dims(x)

    def numbers(axis: int) -> ir.Value:
        return g.Range(np.int64(0), g.Gather(dims, np.int64(axis), axis=0), np.int64(1))

    distance = g.Sub(g.Unsqueeze(numbers(rank - 1), [0]), g.Unsqueeze(numbers(rank - 2), [1]))
    place = np.int64(0) if k is None else k
    upper = node.attributes.get_int("upper", 1)
    # Opset 9 has Less; opset 11 still lacks the OrEqual forms. A difference would overflow for k = -2^63.
    outside = g.Less(distance, place) if upper else g.Less(place, distance)
    zero = g.const(np.zeros((), g.dtype(x).numpy()), g.dtype(x))
    return [g.Where(outside, zero, x)]


def mod(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Mod of floating-point numbers with the divisor's sign, also for a result of zero; None for cases that older
    opsets support.
    """
    a, b = node.inputs
    if a is None or b is None or node.attributes.get_int("fmod", 0) != 0 or not g.dtype(a).is_floating_point():
        return None
    rest = g.Mod(a, b, fmod=1)
    size, sign = g.Abs(rest), g.Sign(b)
    # A remainder of the other sign is one divisor too small in magnitude. The sign is applied last, because
    # onnxruntime's Where turns -0 into 0.
    same = g.Equal(g.Mul(size, sign), rest)
    return [g.Mul(g.Where(same, size, g.Sub(g.Abs(b), size)), sign)]


def normalize(g: Graph, node: ir.Node, x: ir.Value, axes: np.ndarray) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return `x` normalized to mean zero and variance one along `axes`, the mean, and the inverse of the deviation.

    Epsilon and dtype are those of the LayerNormalization `node`. If `node` has no output for the inverse of the
    deviation, the deviation itself is returned instead.
    """
    wide = _cast_to_stash(g, node, x)
    mean = g.ReduceMean(wide, axes, keepdims=1)
    centred = g.Sub(wide, mean)
    variance = g.ReduceMean(g.Mul(centred, centred), axes, keepdims=1)
    deviation = g.Sqrt(g.Add(variance, node.attributes.get_float("epsilon", 1e-5)))
    inverse = g.Reciprocal(deviation) if len(node.outputs) > 2 else deviation
    kept = [v if g.dtype(v) == _stash_dtype(node) else g.Cast(v, to=_stash_dtype(node)) for v in (mean, inverse)]
    return g.Div(centred, deviation), kept[0], kept[1]


def _cast_to_stash(g: Graph, node: ir.Node, x: ir.Value) -> ir.Value:
    """Return `x` in the dtype that the operator computes in: `stash_type`, but float64 stays, as in runtimes."""
    wanted = _stash_dtype(node)
    return x if g.dtype(x) in (wanted, ir.DataType.DOUBLE) else g.Cast(x, to=wanted)


def _stash_dtype(node: ir.Node) -> ir.DataType:
    return ir.DataType(node.attributes.get_int("stash_type", 1))


def _cast_back(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    return y if g.dtype(y) == g.dtype(x) else g.Cast(y, to=g.dtype(x))
