"""Layers that TensorFlow writes as arithmetic, recognised as they are lowered: normalisations, Gelu, Dense.

Each function looks backwards from the last operator of its layer and returns the layer's value, or None where the
operators before it are not that layer. What the layer replaces is dead code unless something else reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, Graph
from convert.runners.constants import as_written

from .shaping import reshape, transpose


@dataclass(frozen=True)
class Affine:
    """x·scale + (beta - mean·scale) with scale = gamma / √(variance + epsilon)."""

    x: ir.Value
    mean: ir.Value
    variance: ir.Value
    epsilon: float
    gamma: ir.Value | None
    beta: ir.Value | None


def normalization(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """BatchNormalization or LayerNormalization for a + b, as tf.nn.batch_normalization and Keras end them."""
    for scaled, shift in ((a, b), (b, a)):
        for found in _affine(scaled, shift):
            constant = found.mean.const_value is not None and found.variance.const_value is not None
            layer = _batch_norm(g, found) if constant else _layer_norm(g, found)
            if layer is not None:
                return layer
    return None


def gelu(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Gelu for a·b: ½x·(1 + erf(x / √2)), ½x·erfc(-x / √2), or ½x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))."""
    for half, curve in ((a, b), (b, a)):
        x = _other(half, "Mul", 0.5)
        inner = _other(curve, "Add", 1.0)
        if x is not None and _is_complement(curve, x):
            return g.Gelu(x)
        if x is None or inner is None:
            continue
        if (erf := _inputs(inner, "Erf")) and _is_scaled(erf[0], x, np.sqrt(0.5)):
            return g.Gelu(x)
        if (tanh := _inputs(inner, "Tanh")) and _is_cubic(tanh[0], x):
            return g.Gelu(x, approximate="tanh")
    return None


def dense(g: Graph, tensor: ir.Value, target: Sequence[Dim]) -> ir.Value | None:
    """A product with a matrix for a Reshape of one, as tf.tensordot writes it: rows flattened and put back."""
    product = _inputs(tensor, "MatMul")
    if len(product) != 2 or product[1].shape is None or len(product[1].shape) != 2:
        return None
    flat = _inputs(product[0], "Reshape")
    if len(flat) != 2 or flat[0].shape is None:
        return None
    x, (inner, outer) = flat[0], g.shape(product[1])
    rows = g.shape(x)[:-1]
    kept = list(target) == [*rows, outer] and None not in rows and g.shape(x)[-1] == inner
    return g.MatMul(x, product[1]) if kept and isinstance(inner, int) else None


def _affine(scaled: ir.Value, shift: ir.Value) -> Iterator[Affine]:
    """Every reading of scaled + shift as a normalisation."""
    for x, scale in _pairs(scaled, "Mul"):
        whole = _scale(scale)
        offset = _offset(shift, scale)
        if whole is not None and offset is not None:
            variance, epsilon, gamma = whole
            mean, beta = offset
            yield Affine(x, mean, variance, epsilon, gamma, beta)


def _scale(scale: ir.Value) -> tuple[ir.Value, float, ir.Value | None] | None:
    """Variance, epsilon and gamma of gamma / √(variance + epsilon)."""
    for root, gamma in ((scale, None), *_pairs(scale, "Mul")):
        square = _inputs(_only(_inputs(root, "Reciprocal")), "Sqrt")
        for variance, epsilon in _pairs(_only(square), "Add"):
            number = _number(epsilon)
            if number is not None:
                return variance, number, gamma
    return None


def _offset(shift: ir.Value, scale: ir.Value) -> tuple[ir.Value, ir.Value | None] | None:
    """Mean and beta of beta - mean·scale, in the three ways that it is written."""
    parts = _inputs(shift, "Sub")
    if parts and (mean := _factor(parts[1], scale)):
        return mean, parts[0]
    if mean := _negated_factor(shift, scale):
        return mean, None
    for product, beta in _pairs(shift, "Add"):
        if mean := _negated_factor(product, scale):
            return mean, beta
    return None


def _factor(product: ir.Value, scale: ir.Value) -> ir.Value | None:
    return next((mean for mean, other in _pairs(product, "Mul") if other is scale), None)


def _negated_factor(product: ir.Value, scale: ir.Value) -> ir.Value | None:
    return _only(_inputs(_factor(product, scale), "Neg"))


def _batch_norm(g: Graph, found: Affine) -> ir.Value | None:
    x = found.x
    rank = len(x.shape) if x.shape is not None else 0
    size = g.shape(x)[-1] if rank > 1 else None
    parts = (found.gamma, found.beta, found.mean, found.variance)
    if not isinstance(size, int) or not all(p is None or _along_last(p, size) for p in parts):
        return None
    gamma, beta, mean, variance = (None if p is None else reshape(g, p, [size]) for p in parts)
    inner = transpose(g, x, [0, rank - 1, *range(1, rank - 1)])
    ones, zeros = g.const(np.ones(size), x.dtype), g.const(np.zeros(size), x.dtype)
    y = g.BatchNormalization(inner, gamma or ones, beta or zeros, mean, variance, epsilon=found.epsilon)
    return transpose(g, y, [0, *range(2, rank), 1])


def _layer_norm(g: Graph, found: Affine) -> ir.Value | None:
    x = found.x
    size = g.shape(x)[-1] if x.shape is not None and len(x.shape) > 1 else None
    squared = _reduced(found.variance, g)
    if not isinstance(size, int) or _reduced(found.mean, g) is not x or squared is None:
        return None
    deviation = _inputs(squared, "Mul")
    if not deviation or deviation[0] is not deviation[1] or _inputs(deviation[0], "Sub") != [x, found.mean]:
        return None
    if not all(p is None or _along_last(p, size) for p in (found.gamma, found.beta)):
        return None
    gamma, beta = (None if p is None else reshape(g, p, [size]) for p in (found.gamma, found.beta))
    ones = g.const(np.ones(size), x.dtype)
    return g.LayerNormalization(x, gamma or ones, beta, axis=-1, epsilon=found.epsilon)


def _reduced(mean: ir.Value, g: Graph) -> ir.Value | None:
    """What `mean` is the mean of along its last axis, which is kept."""
    maker = mean.producer()
    if maker is None or maker.op_type != "ReduceMean" or len(maker.inputs) != 2:
        return None
    x, axes = maker.inputs[0], g.static(maker.inputs[1])
    kept = "keepdims" not in maker.attributes or maker.attributes["keepdims"].as_int() == 1
    if not kept or x is None or axes is None or x.shape is None:
        return None
    return x if axes.tolist() in ([-1], [len(x.shape) - 1]) else None


def _is_scaled(value: ir.Value, x: ir.Value, factor: float) -> bool:
    """Whether `value` is x·factor, or x divided by its inverse."""
    quotient = _inputs(value, "Div")
    if quotient and quotient[0] is x:
        return _close(_number(quotient[1]), 1 / factor)
    return any(other is x and _close(_number(number), factor) for other, number in _pairs(value, "Mul"))


def _is_complement(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is erfc(-x / √2), which is lowered as 1 - erf(-x / √2)."""
    difference = _inputs(value, "Sub")
    erf = _inputs(difference[1], "Erf") if difference and _close(_number(difference[0]), 1.0) else []
    if not erf:
        return False
    factors = [other for other, number in _pairs(erf[0], "Mul") if _close(_number(number), np.sqrt(0.5))]
    return any(_only(_inputs(f, "Neg")) is x for f in factors) or _is_scaled(erf[0], x, -np.sqrt(0.5))


def _is_cubic(value: ir.Value, x: ir.Value) -> bool:
    total = _other(value, "Mul", float(np.sqrt(2 / np.pi)))
    for linear, cubic in _pairs(total, "Add"):
        power = _inputs(_other(cubic, "Mul", 0.044715), "Pow")
        if linear is x and power and power[0] is x and _close(_number(power[1]), 3.0):
            return True
    return False


def _inputs(value: ir.Value | None, operator: str) -> list[ir.Value]:
    """The inputs of the node that makes `value` if it is of that type, else none."""
    maker = value.producer() if value is not None else None
    if maker is None or maker.op_type != operator or maker.domain:
        return []
    return [v for v in maker.inputs if v is not None]


def _pairs(value: ir.Value | None, operator: str) -> list[tuple[ir.Value, ir.Value]]:
    """The two inputs of a commutative operator, both ways round."""
    found = _inputs(value, operator)
    return [(found[0], found[1]), (found[1], found[0])] if len(found) == 2 else []


def _other(value: ir.Value | None, operator: str, number: float) -> ir.Value | None:
    """What is combined with that number to make `value`."""
    return next((x for x, constant in _pairs(value, operator) if _close(_number(constant), number)), None)


def _only(values: list[ir.Value]) -> ir.Value | None:
    return values[0] if len(values) == 1 else None


def _number(value: ir.Value) -> float | None:
    """The content of a constant with one element, as the program wrote it."""
    tensor = value.const_value
    if tensor is None or tensor.size != 1:
        return None
    number = float(tensor.numpy().item())
    return as_written(number) if tensor.dtype == ir.DataType.FLOAT else number


def _close(number: float | None, wanted: float) -> bool:
    """Equal up to the rounding of a float32 constant (a float16 model's constants are not recognised)."""
    return number is not None and abs(number - wanted) <= 1e-6 * abs(wanted)


def _along_last(value: ir.Value, size: int) -> bool:
    """Whether a constant varies along the last dim only, which has `size` elements."""
    tensor = value.const_value
    return tensor is not None and tensor.size == size and bool(tensor.shape) and int(tensor.shape[-1]) == size
