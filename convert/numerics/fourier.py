"""Fourier transforms of complex tensors by ONNX's DFT, and real inverse ones by products with matrices."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.metadata import WIDER_KEY
from convert.graph.tensors import rounded_tensor
from convert.numerics.complexes import Complex
from convert.semantics.turns import cos_sin


def inverse_real_transform(g: Graph, input: Complex, length: int) -> ir.Value:
    """Return the real inverse transform, as products with matrices: every frequency except the first (and the middle
    one) counts twice.
    """
    have, want = g.shape(input.real)[-1], length // 2 + 1
    parts = [input.real, input.imag]
    if have != want:
        parts = [g.Slice(p, [0], [want], [-1]) for p in parts]
    cos, sin = cos_sin(np.outer(np.arange(want), np.arange(length)), length)
    weight = np.full((want, 1), 2.0 / length)
    weight[0] = 1.0 / length
    if length % 2 == 0:
        weight[-1] = 1.0 / length
    dtype = g.dtype(input.real)
    cosines, sines = (g.const(rounded_tensor(m, dtype)) for m in (weight * cos, -weight * sin))
    return g.Add(g.MatMul(parts[0], cosines), g.MatMul(parts[1], sines))


def transform(
    g: Graph, x: ir.Value, length: int | ir.Value | None, axis: int, *, onesided: int = 0, inverse: int = 0
) -> ir.Value:
    """Return ONNX's transform of [..., parts] along `axis`, with a batch dim in front, which ONNX requires.

    The transform is computed in float64 except for powers of two, because onnxruntime loses digits for other lengths.
    An inverse in float64 is the transform with both parts swapped, because onnxruntime 1.32 divides by the length in
    float32.
    """
    alone, dtype = g.rank(x) + axis == 0, g.dtype(x)
    points = g.shape(x)[axis] if length is None else length
    if inverse and dtype == ir.DataType.DOUBLE and isinstance(points, int) and points & (points - 1):
        exchanged = transform(g, g.Gather(x, [1, 0], axis=-1), length, axis)
        return g.Div(g.Gather(exchanged, [1, 0], axis=-1), g.const(float(points), dtype))
    wide = not isinstance(points, int) or points & (points - 1) != 0
    x = g.Cast(x, to=ir.DataType.DOUBLE) if wide else x
    x = g.Unsqueeze(x, [0]) if alone else x
    count = g.const(length) if isinstance(length, int) else length
    y = g.DFT(x, count, g.const(np.array(axis + g.rank(x), np.int64)), onesided=onesided, inverse=inverse)
    if wide and dtype == ir.DataType.FLOAT and (node := y.producer()) is not None:
        node.metadata_props[WIDER_KEY] = "onnxruntime"
    return g.Cast(g.Squeeze(y, [0]) if alone else y, to=dtype)
