"""Operators of newer opsets, written in older ones: crops, folds, argmax, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dtype_name
from convert.numerics.series import polynomial_ratio


def center_crop_pad(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """CenterCropPad: dims that are too long are cropped around the centre, then short dims are padded with zeros."""
    x, shape = node.inputs
    assert x is not None
    rank = g.rank(x)
    axes = [a % rank for a in node.attributes.get_ints("axes", range(rank))]
    wanted = g.static(shape)
    lengths = [g.shape(x)[a] for a in axes]
    if wanted is None or not all(isinstance(n, int) for n in lengths):
        raise Unsupported("sizes that are computed")
    before, after = np.zeros(rank, np.int64), np.zeros(rank, np.int64)
    for axis, length, size in zip(axes, lengths, wanted.tolist(), strict=True):
        assert isinstance(length, int)
        if size < length:
            start = (length - size) // 2
            x = g.Slice(x, np.array([start]), np.array([start + size]), np.array([axis]))
        elif size > length:
            before[axis] = (size - length) // 2
            after[axis] = size - length - before[axis]
    assert x is not None
    return [g.Pad(x, np.concatenate([before, after])) if before.any() or after.any() else g.Identity(x)]


def col2im(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Col2Im: a transposed convolution with one kernel for each position of a block, 1 there and 0 elsewhere."""
    x = node.inputs[0]
    assert x is not None
    image, block = (g.static(v) for v in node.inputs[1:3])
    if image is None or block is None or not g.dtype(x).is_floating_point():
        raise Unsupported("sizes that are computed, or integers")
    rank, size = len(image), [int(n) for n in block]
    ones = [1] * rank
    strides, dilations = (list(node.attributes.get_ints(n, ones)) for n in ("strides", "dilations"))
    pads = list(node.attributes.get_ints("pads", [0] * 2 * rank))
    span = [d * (k - 1) + 1 for d, k in zip(dilations, size, strict=True)]
    counts = [
        (int(n) + pads[i] + pads[rank + i] - span[i]) // strides[i] + 1 for i, n in enumerate(image)
    ]  # fmt: skip
    reached = [(c - 1) * s + w for c, s, w in zip(counts, strides, span, strict=True)]
    rest = [int(n) + pads[i] + pads[rank + i] - r for i, (n, r) in enumerate(zip(image, reached, strict=True))]
    weight = np.eye(prod(size), dtype=g.dtype(x).numpy()).reshape(prod(size), 1, *size)
    columns = g.Reshape(x, np.array([-1, prod(size), *counts]))
    y = g.ConvTranspose(columns, weight, strides=strides, dilations=dilations)
    # Add zeros beyond the last block, then remove the image's padding on both sides.
    y = g.Pad(y, np.array([0, 0, *[0] * rank, 0, 0, *rest])) if any(rest) else y
    ends = [pads[i] + int(n) for i, n in enumerate(image)]
    axes = np.arange(2, 2 + rank)
    y = g.Slice(y, np.array(pads[:rank]), np.array(ends), axes) if any(pads) else y
    channels = g.shape(x)[1]
    made = [-1, channels // prod(size)] if isinstance(channels, int) else [g.shape(x)[0], -1]
    if not all(isinstance(n, int) for n in made):
        raise Unsupported("a fold of unknown batch and channels")
    return [g.Reshape(y, np.array([*made, *(int(n) for n in image)]))]


def arg_last(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """ArgMax and ArgMin with select_last_index: the first of the equal elements, counted from the end."""
    x, axis = node.inputs[0], node.attributes.get_int("axis", 0)
    if not node.attributes.get_int("select_last_index", 0) or x is None:
        return None
    back = g.Slice(x, np.array([-1]), np.array([np.iinfo(np.int64).min]), np.array([axis]), np.array([-1]))
    found = g.node(node.op_type, [back], {"axis": axis, "keepdims": node.attributes.get_int("keepdims", 1)})
    last = g.Sub(g.Gather(g.dims(x), np.int64(axis % g.rank(x)), axis=0), np.int64(1))
    return [g.Sub(last, found)]


def equal(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Equal of floating-point numbers before opset 11: not less, not greater, and no NaN."""
    a, b = node.inputs
    assert a is not None
    if not g.dtype(a).is_floating_point():
        return None

    def is_number(x: ir.Value) -> ir.Value:
        low, high = (g.const(v, g.dtype(x)) for v in (-np.inf, np.inf))
        return g.Or(g.Less(x, high), g.Greater(x, low))

    assert b is not None
    other = g.Or(g.Less(a, b), g.Greater(a, b))
    return [g.And(g.Not(other), g.And(is_number(a), is_number(b)))]


def constant_of_shape(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """ConstantOfShape: one element, tiled along each dim."""
    shape, given = node.inputs[0], node.attributes.get_tensor("value")
    assert shape is not None
    (rank,) = g.shape(shape)
    if not isinstance(rank, int):
        raise Unsupported("a number of dims that is not known")
    element = np.zeros(1, np.float32) if given is None else given.numpy()
    dtype = ir.DataType.FLOAT if given is None else given.dtype
    return [g.Tile(g.const(element.reshape([1] * rank), dtype), shape)]


# Coefficients, highest power of x² first, of the rational function by which Eigen (Core/MathFunctionsImpl.h,
# generic_fast_erf_float) and XLA compute the error function of float32. Its error is 7 ulp; without the second Clip the
# result may exceed 1 by 1 ulp.
_ERF_ABOVE = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
              -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)  # fmt: skip
_ERF_BELOW = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
              -1.42647390514189e-02)  # fmt: skip


def erf(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """Erf as a rational function in float32, for float32 and narrower dtypes."""
    x = node.inputs[0]
    assert x is not None
    dtype = g.dtype(x)
    if dtype not in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        raise Unsupported(dtype_name(dtype))
    wide = x if dtype == ir.DataType.FLOAT else g.Cast(x, to=ir.DataType.FLOAT)
    inside = g.Clip(wide, np.float32(-4), np.float32(4))
    y = g.Clip(
        g.Mul(inside, polynomial_ratio(g, g.Mul(inside, inside), _ERF_ABOVE, _ERF_BELOW)), np.float32(-1), np.float32(1)
    )
    return [y if dtype == ir.DataType.FLOAT else g.Cast(y, to=dtype)]
