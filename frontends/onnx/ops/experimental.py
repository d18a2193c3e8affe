"""Experimental operators of ONNX 1.0 to 1.4. Old exporters wrote them, and ONNX Runtime still runs most of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..rules import runtime_op


@runtime_op("com.microsoft::ConstantFill")
def constant_fill(
    g: Graph, x: ir.Value | None = None, *, value: float = 0.0, dtype: int = 1, input_as_shape: int = 0,
    shape: Sequence[int] = (), extra_shape: Sequence[int] = (),
) -> ir.Value:  # fmt: skip
    """ConstantFill in the shape that `shape` says, that the input has, or that the input holds, then `extra_shape`."""
    if x is None:
        sizes = g.const(np.array(list(shape), np.int64))
    else:
        sizes = g.Cast(x, to=ir.DataType.INT64) if input_as_shape else g.dims(x)
    if extra_shape:
        sizes = g.Concat(sizes, list(extra_shape), axis=0)
    return g.Expand(g.const(value, ir.DataType(dtype)), sizes)


@runtime_op("com.microsoft::Affine")
def affine(g: Graph, x: ir.Value, *, alpha: float = 1.0, beta: float = 0.0) -> ir.Value:
    return g.Add(g.Mul(x, alpha), beta)


@runtime_op("com.microsoft::Scale")
def scale_by(g: Graph, x: ir.Value, *, scale: float = 1.0) -> ir.Value:
    return g.Mul(x, scale)


@runtime_op("com.microsoft::ImageScaler")
def image_scaler(g: Graph, x: ir.Value, *, bias: Sequence[float], scale: float = 1.0) -> ir.Value:
    return g.Add(g.Mul(x, scale), g.const(np.array(bias, np.float32).reshape(-1, 1, 1)))


@runtime_op("com.microsoft::ScaledTanh")
def scaled_tanh(g: Graph, x: ir.Value, *, alpha: float, beta: float) -> ir.Value:
    return g.Mul(g.Tanh(g.Mul(x, beta)), alpha)


@runtime_op("com.microsoft::ParametricSoftplus")
def parametric_softplus(g: Graph, x: ir.Value, *, alpha: float, beta: float) -> ir.Value:
    return g.Mul(g.Softplus(g.Mul(x, beta)), alpha)


@runtime_op("com.microsoft::ThresholdedRelu")
def thresholded_relu(g: Graph, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    return g.ThresholdedRelu(x, alpha=alpha)


@runtime_op("com.microsoft::Crop")
def crop(g: Graph, x: ir.Value, *, border: Sequence[int], scale: Sequence[int] = ()) -> ir.Value:
    """Crop: `border` is left, top, right, bottom; `scale` is the height and width that are kept."""
    if len(border) != 4 or len(scale) not in (0, 2):
        raise Unsupported(f"a border of {len(border)} numbers and a scale of {len(scale)}")
    left, top, right, bottom = border
    whole = np.iinfo(np.int64).max
    ends = [top + scale[0], left + scale[1]] if scale else [-bottom or whole, -right or whole]
    return g.Slice(x, [top, left], ends, [2, 3])


@runtime_op("com.microsoft::DynamicSlice")
def dynamic_slice(g: Graph, x: ir.Value, starts: ir.Value, ends: ir.Value, axes: ir.Value | None = None) -> ir.Value:
    return g.Slice(x, starts, ends, axes)
