"""Layers that TensorFlow writes as arithmetic, recognized as they are lowered: normalizations and Dense.

Each function looks backwards from the last operator of its layer and returns the layer's value, or None where the
operators before it are not that layer. What the layer replaces is dead code unless something else reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Dim, Graph
from convert.graph.tensors import dims_of

from ..common.lazy_reshape import reshape, transpose
from .matching import inputs_of, mean_over, operand_pairs, scalar_content, single_value, varies_along_last


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
        for found in (*_affine_readings(scaled, shift), *_centered_readings(scaled, shift)):
            constant = found.mean.const_value is not None and found.variance.const_value is not None
            layer = _batch_norm(g, found) if constant else _layer_norm(g, found)
            if layer is not None:
                return layer
    return None


def rms_normalization(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """RMSNormalization for a·b: x / √(mean of x² along the last dim + epsilon), times a constant."""
    for normal, gamma in ((a, b), (b, a)):
        if gamma.const_value is None or not gamma.const_value.shape:
            continue
        for x, found in _quotients(normal):
            mean = mean_over(found[0], g)
            if found[2] is not None or mean is None or x.shape is None:
                continue
            square, axes = mean
            size = g.shape(x)[-1]
            if inputs_of(square, "Mul") != [x, x] or axes != [len(x.shape) - 1] or not isinstance(size, int):
                continue
            if len(gamma.const_value.shape) <= len(x.shape) and varies_along_last(gamma, size):
                return g.RMSNormalization(x, reshape(g, gamma, [size]), axis=-1, epsilon=found[1])
    return None


def group_normalization(g: Graph, tensor: ir.Value, target: Sequence[Dim]) -> ir.Value | None:
    """GroupNormalization for a Reshape of a normalized tensor, as Keras ends it: [batch, …, groups, channels / groups].

    The mean is over everything but batch and groups, which are the last dim but one; `target` is the shape before.
    """
    for scaled, shift in operand_pairs(tensor, "Add"):
        for found in _affine_readings(scaled, shift):
            grouped = inputs_of(found.x, "Reshape")
            if not grouped or grouped[0].shape is None or found.x.shape is None:
                continue
            x, full = grouped[0], len(found.x.shape)
            before, after = g.shape(x), g.shape(found.x)
            channels, groups, inner = before[-1], after[-2], after[-1]
            sizes = all(isinstance(n, int) for n in (channels, groups, inner))
            same = len(before) + 1 == full > 3 and list(before) == list(target) and after[1:-2] == before[1:-1]
            if not sizes or not same or None in (*before[1:], before[0]):
                continue
            wanted = [a for a in range(1, full) if a != full - 2]
            if _moments_source(g, found) != (found.x, wanted):
                continue
            inside = [int(n) for n in (groups, inner) if isinstance(n, int)]
            gamma, beta = (_per_channel_vector(g, p, inside) for p in (found.gamma, found.beta))
            if gamma is None or beta is None:
                continue
            return _emit_group_norm(g, x, gamma, beta, int(groups), found.epsilon)  # type: ignore[arg-type]
    return None


def tensordot_as_matmul(g: Graph, tensor: ir.Value, target: Sequence[Dim]) -> ir.Value | None:
    """A product with a matrix for a Reshape of one, as tf.tensordot writes it: rows flattened and put back.

    TensorFlow Lite makes a Gemm with the matrix transposed of the product, and adds the bias to it.
    """
    product, gemm = inputs_of(tensor, "MatMul"), tensor.producer()
    turned = False
    if not product and gemm is not None and set(gemm.attributes) <= {"transB"}:
        product = inputs_of(tensor, "Gemm")
        turned = "transB" in gemm.attributes and gemm.attributes["transB"].as_int() == 1
    if len(product) < 2 or product[1].shape is None or len(product[1].shape) != 2:
        return None
    flat = inputs_of(product[0], "Reshape")
    if len(flat) != 2 or not flat[0].shape:
        return None
    x, (inner, outer) = flat[0], reversed(g.shape(product[1])) if turned else g.shape(product[1])
    rows = g.shape(x)[:-1]
    if not isinstance(inner, int) or None in rows or g.shape(x)[-1] != inner or list(target) != [*rows, outer]:
        return None
    y = g.MatMul(x, transpose(g, product[1], [1, 0]) if turned else product[1])
    return y if len(product) == 2 else g.Add(y, product[2])


def _affine_readings(scaled: ir.Value, shift: ir.Value) -> Iterator[Affine]:
    """Every reading of scaled + shift as a normalization."""
    for x, scale in operand_pairs(scaled, "Mul"):
        whole = _match_scale(scale)
        offset = _match_offset(shift, scale)
        if whole is not None and offset is not None:
            variance, epsilon, gamma = whole
            mean, beta = offset
            yield Affine(x, mean, variance, epsilon, gamma, beta)


def _centered_readings(scaled: ir.Value, beta: ir.Value) -> Iterator[Affine]:
    """Every reading of scaled + beta as (x - mean) / √(variance + epsilon)·gamma + beta, as it is written by hand."""
    for normal, gamma in ((scaled, None), *operand_pairs(scaled, "Mul")):
        for deviation, whole in _quotients(normal):
            difference = inputs_of(deviation, "Sub")
            if not difference or (gamma is not None and whole[2] is not None):
                continue
            yield Affine(difference[0], difference[1], whole[0], whole[1], gamma or whole[2], beta)


def _quotients(value: ir.Value) -> Iterator[tuple[ir.Value, tuple[ir.Value, float, ir.Value | None]]]:
    """x with variance, epsilon and gamma of x·gamma / √(variance + epsilon), as a quotient or a product."""
    for x, scale in operand_pairs(value, "Mul"):
        if (whole := _match_scale(scale)) is not None:
            yield x, whole
    quotient = inputs_of(value, "Div")
    if quotient and (below := _match_root(quotient[1])) is not None:
        yield quotient[0], (*below, None)


def _match_scale(scale: ir.Value) -> tuple[ir.Value, float, ir.Value | None] | None:
    """Variance, epsilon and gamma of gamma / √(variance + epsilon)."""
    for inverse, gamma in ((scale, None), *operand_pairs(scale, "Mul")):
        if (below := _match_root(single_value(inputs_of(inverse, "Reciprocal")))) is not None:
            return (*below, gamma)
    return None


def _match_root(root: ir.Value | None) -> tuple[ir.Value, float] | None:
    """Variance and epsilon of √(variance + epsilon)."""
    for variance, epsilon in operand_pairs(single_value(inputs_of(root, "Sqrt")), "Add"):
        if (small := scalar_content(epsilon)) is not None:
            return variance, small
    return None


def _match_offset(shift: ir.Value, scale: ir.Value) -> tuple[ir.Value, ir.Value | None] | None:
    """Mean and beta of beta - mean·scale, in the three ways that it is written."""
    parts = inputs_of(shift, "Sub")
    if parts and (mean := _other_factor(parts[1], scale)):
        return mean, parts[0]
    if mean := _other_negated_factor(shift, scale):
        return mean, None
    for product, beta in operand_pairs(shift, "Add"):
        if mean := _other_negated_factor(product, scale):
            return mean, beta
    return None


def _other_factor(product: ir.Value, scale: ir.Value) -> ir.Value | None:
    return next((mean for mean, factor in operand_pairs(product, "Mul") if factor is scale), None)


def _other_negated_factor(product: ir.Value, scale: ir.Value) -> ir.Value | None:
    return single_value(inputs_of(_other_factor(product, scale), "Neg"))


def _batch_norm(g: Graph, found: Affine) -> ir.Value | None:
    x = found.x
    rank = len(x.shape) if x.shape is not None else 0
    size = g.shape(x)[-1] if rank > 1 else None
    parts = (found.gamma, found.beta, found.mean, found.variance)
    if not isinstance(size, int) or not all(p is None or varies_along_last(p, size) for p in parts):
        return None
    if any(p is not None and g.rank(p) > rank for p in parts):
        return None
    gamma, beta, mean, variance = (None if p is None else reshape(g, p, [size]) for p in parts)
    inner = transpose(g, x, [0, rank - 1, *range(1, rank - 1)])
    ones, zeros = g.const(np.ones(size), x.dtype), g.const(np.zeros(size), x.dtype)
    y = g.BatchNormalization(inner, gamma or ones, beta or zeros, mean, variance, epsilon=found.epsilon)
    return transpose(g, y, [0, *range(2, rank), 1])


def _layer_norm(g: Graph, found: Affine) -> ir.Value | None:
    """LayerNormalization over the last dims, one or more."""
    x = found.x
    moments = _moments_source(g, found)
    if moments is None or x.shape is None or moments[0] is not x:
        return None
    rank, first = len(x.shape), moments[1][0]
    sizes = g.shape(x)[first:]
    if first == 0 or moments[1] != list(range(first, rank)) or not all(isinstance(n, int) for n in sizes):
        return None
    shape = [int(n) for n in sizes if isinstance(n, int)]
    if not all(p is None or (_covers_last_dims(p, shape) and g.rank(p) <= rank) for p in (found.gamma, found.beta)):
        return None
    gamma, beta = (None if p is None else reshape(g, p, shape) for p in (found.gamma, found.beta))
    ones = g.const(np.ones(shape), x.dtype)
    return g.LayerNormalization(x, gamma or ones, beta, axis=first - rank, epsilon=found.epsilon)


def _covers_last_dims(value: ir.Value, shape: Sequence[int]) -> bool:
    """Whether a constant has an element for each place in the last dims, and none for others."""
    tensor = value.const_value
    return tensor is not None and _without_leading_ones(dims_of(tensor)) == _without_leading_ones(shape)


def _without_leading_ones(shape: Sequence[int]) -> list[int]:
    first = next((i for i, d in enumerate(shape) if d != 1), len(shape))
    return list(shape[first:])


def _moments_source(g: Graph, found: Affine) -> tuple[ir.Value, list[int]] | None:
    """What mean and variance are of, and along which axes, if they are both of the same."""
    mean, squared = mean_over(found.mean, g), mean_over(found.variance, g)
    if mean is None or squared is None or mean[1] != squared[1]:
        return None
    deviation = inputs_of(squared[0], "Mul")
    difference = inputs_of(deviation[0], "Sub") if deviation and deviation[0] is deviation[1] else []
    if not difference or difference[0] is not mean[0]:
        return None
    again = mean if difference[1] is found.mean else mean_over(difference[1], g)
    return mean if again is not None and again[0] is mean[0] and again[1] == mean[1] else None


def _per_channel_vector(g: Graph, value: ir.Value | None, inside: Sequence[int]) -> ir.Value | None:
    """A constant [1, …, groups, channels / groups] by channel; None for others, and for none."""
    return reshape(g, value, [-1]) if value is not None and _covers_last_dims(value, inside) else None


def _emit_group_norm(g: Graph, x: ir.Value, gamma: ir.Value, beta: ir.Value, groups: int, epsilon: float) -> ir.Value:
    rank = g.rank(x)
    inner = transpose(g, x, [0, rank - 1, *range(1, rank - 1)])
    y = g.GroupNormalization(inner, gamma, beta, num_groups=groups, epsilon=epsilon)
    g.facts(y, x.dtype, g.shape(inner))
    return transpose(g, y, [0, *range(2, rank), 1])
