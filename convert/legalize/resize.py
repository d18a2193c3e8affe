"""Resize with known sizes: a product with one matrix per axis, or a Gather for nearest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.semantics.interpolation import (
    Interpolation,
    keep_aspect_ratio,
    nearest_indices,
    resized_length,
    source_coordinates,
    weight_matrix,
)


def resize(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """Resize: one axis after the other, for each axis whose length changes."""
    x, _, scales, sizes = [*node.inputs, None, None, None][:4]
    assert x is not None
    given = g.static(scales), g.static(sizes)
    axes = [a % g.rank(x) for a in node.attributes.get_ints("axes", range(g.rank(x)))]
    how = _method(node)
    lengths = [g.shape(x)[a] for a in axes]
    if how.coordinates == "tf_crop_and_resize" or not any(v is not None and v.size for v in given):
        raise Unsupported("sizes that are computed, or this coordinate transformation")
    wanted = _wanted(lengths, given, node.attributes.get_string("keep_aspect_ratio_policy", "stretch"))
    for axis, length, (scale, size) in zip(axes, lengths, wanted, strict=True):
        if scale == 1 and (size is None or size == length):
            continue
        if not isinstance(length, int) or size is None:
            raise Unsupported("a dim of unknown size")
        x = _resized_axis(g, x, axis, length, size, scale, how)
    return [x]


def _method(node: ir.Node) -> Interpolation:
    attributes = node.attributes
    return Interpolation(
        attributes.get_string("mode", "nearest"),
        attributes.get_string("coordinate_transformation_mode", "half_pixel"),
        attributes.get_string("nearest_mode", "round_prefer_floor"),
        attributes.get_float("cubic_coeff_a", -0.75),
        bool(attributes.get_int("exclude_outside", 0)),
        bool(attributes.get_int("antialias", 0)),
    )


def _wanted(
    lengths: Sequence[int | str | None], given: tuple[np.ndarray | None, np.ndarray | None], policy: str
) -> list[tuple[float, int | None]]:
    """Return scale and size of each axis; the size is None if the length is unknown."""
    scales, sizes = given
    if scales is not None and scales.size:
        ends = [
            resized_length(n, float(s)) if isinstance(n, int) else None for n, s in zip(lengths, scales, strict=True)
        ]
        return list(zip(map(float, scales), ends, strict=True))
    assert sizes is not None
    numbers = [n if isinstance(n, int) else 0 for n in lengths]
    if 0 in numbers:
        raise Unsupported("a dim of unknown size that becomes a given one")
    if policy == "stretch":
        return [(int(m) / n, int(m)) for n, m in zip(numbers, sizes, strict=True)]
    ratio, ends_ = keep_aspect_ratio(numbers, [int(m) for m in sizes], policy)
    return [(ratio, m) for m in ends_]


def _resized_axis(
    g: Graph, x: ir.Value, axis: int, length: int, size: int, scale: float, how: Interpolation
) -> ir.Value:
    if how.mode == "nearest":
        chosen = nearest_indices(source_coordinates(length, size, scale, how), length, how.nearest)
        picked: ir.Value = g.Gather(x, chosen, axis=axis)
        return picked
    dtype, rank = g.dtype(x), g.rank(x)
    wide = x if dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else g.Cast(x, to=ir.DataType.FLOAT)
    matrix = g.const(rounded_tensor(weight_matrix(length, size, scale, how).T, g.dtype(wide)))
    perm = [i for i in range(rank) if i != axis] + [axis]
    y = g.MatMul(wide, matrix) if axis == rank - 1 else g.MatMul(g.Transpose(wide, perm=perm), matrix)
    y = y if axis == rank - 1 else g.Transpose(y, perm=[perm.index(i) for i in range(rank)])
    return y if g.dtype(y) == dtype else g.Cast(y, to=dtype)
