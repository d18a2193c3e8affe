"""Convolutions of any layout become ONNX's Conv, channels first; with dilated inputs, they become ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import inverse_permutation

from ..rules import stablehlo_op
from ..types import FLOATS
from .elementwise import like
from .shape import int64, reverse
from .slices import padded, padded_by


def pairs(padding: object, rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial axis; zeros if the attribute is left out."""
    if padding is None:
        return [(0, 0)] * rank
    return [(int(a), int(b)) for a, b in np.asarray(padding).reshape(rank, 2)]


@stablehlo_op("convolution")
def convolution(
    g, x, kernel, *, dimension_numbers, feature_group_count, batch_group_count, result, window_strides=None,
    padding=None, lhs_dilation=None, rhs_dilation=None, window_reversal=None,
):  # fmt: skip
    """Batch groups occur in gradients of kernels; they become groups of features."""
    if result.dtype not in FLOATS:
        real = replace(result, dtype=ir.DataType.DOUBLE)
        return _integer_convolution(g, x, kernel, result.dtype, lambda a, b: convolution(
            g, a, b, dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
            batch_group_count=batch_group_count, result=real, window_strides=window_strides, padding=padding,
            lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation, window_reversal=window_reversal,
        ))  # fmt: skip
    n = dimension_numbers
    rank = len(n["input_spatial_dimensions"])
    strides, gaps, dilations = (list(v) if v is not None else [1] * rank
                                for v in (window_strides, lhs_dilation, rhs_dilation))  # fmt: skip
    pads = pairs(padding, rank)
    x, kernel = (v if v.dtype == result.dtype else g.Cast(v, to=result.dtype) for v in (x, kernel))
    x = _moved(g, x, [n["input_batch_dimension"], n["input_feature_dimension"], *n["input_spatial_dimensions"]])
    x = batch_groups_as_features(g, x, batch_group_count)
    groups = feature_group_count * batch_group_count
    kernel = _moved(g, kernel, [n["kernel_output_feature_dimension"], n["kernel_input_feature_dimension"],
                                *n["kernel_spatial_dimensions"]])  # fmt: skip
    if window_reversal is not None and any(window_reversal):
        axes = [2 + a for a, turned in enumerate(window_reversal) if turned]
        kernel = reverse(g, kernel, dimensions=axes)
    if rank == 0:
        found = _pointwise(g, x, kernel, groups)
    elif is_transposed(g, kernel, strides, gaps, dilations, pads):
        found = _transposed_conv(g, x, kernel, gaps, dilations, pads, groups)
    else:
        found = _plain_conv(g, x, kernel, strides, gaps, dilations, pads, groups)
    order = [n["output_batch_dimension"], n["output_feature_dimension"], *n["output_spatial_dimensions"]]
    return _moved(g, found, list(inverse_permutation(order)))


def _integer_convolution(
    g: Graph, x: ir.Value, kernel: ir.Value, dtype: ir.DataType, convolve: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Return the convolution of integers, by convolutions in float64 of parts of 16 bits, which are exact for fewer
    than two million products. Sums wrap around, as those of integers do.
    """
    total = None
    for i, first in enumerate(_parts_of_16_bits(g, x, dtype)):
        for j, second in enumerate(_parts_of_16_bits(g, kernel, dtype)):
            shift = 16 * (i + j)
            if i + j and shift >= dtype.bitwidth:  # beyond the bits of the result
                continue
            part = g.Cast(convolve(first, second), to=ir.DataType.INT64)
            if shift:
                wrapped = g.Cast(part, to=ir.DataType.UINT64)
                moved = g.BitShift(wrapped, g.const(shift, ir.DataType.UINT64), direction="LEFT")
                part = g.Cast(moved, to=ir.DataType.INT64)
            total = part if total is None else g.Add(total, part)
    assert total is not None
    return total if dtype == ir.DataType.INT64 else g.Cast(total, to=dtype)


def _parts_of_16_bits(g: Graph, x: ir.Value, dtype: ir.DataType) -> list[ir.Value]:
    """Return integers as float64 tensors, the lowest 16 bits first. Bits above those of `dtype` are left out."""
    bits = min(g.dtype(x).bitwidth, dtype.bitwidth)
    if g.dtype(x).bitwidth <= 16:
        return [g.Cast(x, to=ir.DataType.DOUBLE)]
    rest, size, parts = g.Cast(x, to=ir.DataType.INT64), g.const(1 << 16, ir.DataType.INT64), []
    for start in range(0, bits, 16):
        last = start + 16 >= g.dtype(x).bitwidth  # the only part with a sign
        low = rest if last else g.Mod(rest, size)
        parts.append(g.Cast(low, to=ir.DataType.DOUBLE))
        rest = low if last else g.Div(g.Sub(rest, low), size)
    return parts


PADDING = stablehlo_op.limit("dynamic_conv", "computed padding of a dilated operand")


@stablehlo_op("dynamic_conv")
def dynamic_conv(
    g, x, kernel, padding, *, dimension_numbers, feature_group_count, batch_group_count, result, sizes,
    window_strides=None, lhs_dilation=None, rhs_dilation=None, window_reversal=None,
):  # fmt: skip
    """Return a convolution whose padding is an operand: JAX computes it from sizes for `SAME` and strides.

    If the amounts depend on sizes of inputs, the operand is padded before the convolution.
    """
    n = dimension_numbers
    rank = len(n["input_spatial_dimensions"])
    amounts = [None] * (2 * rank) if sizes[2] is None else [size.number for size in sizes[2].ravel().tolist()]
    known = None not in amounts
    if not known:
        if set(lhs_dilation or [1]) != {1}:
            raise Unsupported(PADDING)
        axes = list(n["input_spatial_dimensions"])
        every = [axes.index(a) if a in axes else rank for a in range(g.rank(x))]
        table = g.Concat(int64(g, padding), g.const(np.zeros((1, 2), np.int64)), axis=0)
        low, high = (g.Gather(g.Gather(table, np.int64(side), axis=1), np.array(every)) for side in (0, 1))
        x = padded_by(g, x, like(g, 0, x), low, high)
    return convolution(
        g, x, kernel, dimension_numbers=n, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, result=result, window_strides=window_strides,
        padding=amounts if known else None, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
        window_reversal=window_reversal,
    )  # fmt: skip


def _moved(g: Graph, x: ir.Value, axes: list[int]) -> ir.Value:
    return x if axes == sorted(axes) else g.Transpose(x, perm=axes)


def batch_groups_as_features(g: Graph, x: ir.Value, groups: int) -> ir.Value:
    """Return `x` (batch, features, …) with parts of its batch moved to the features."""
    if groups == 1:
        return x
    dims = [d for d in g.shape(x) if isinstance(d, int)]
    if len(dims) < g.rank(x):
        raise Unsupported("a convolution with batch groups of tensors of dynamic size")
    batch, features, *sizes = dims
    apart = g.Reshape(x, np.array([groups, batch // groups, features, *sizes], np.int64))
    beside = g.Transpose(apart, perm=[1, 0, *range(2, 3 + len(sizes))])
    return g.Reshape(beside, np.array([batch // groups, groups * features, *sizes], np.int64))


def _pointwise(g: Graph, x: ir.Value, kernel: ir.Value, groups: int) -> ir.Value:
    """Return a convolution without spatial axes, as one over an axis with a single element."""
    found = g.Conv(g.Unsqueeze(x, [2]), g.Unsqueeze(kernel, [2]), kernel_shape=[1], group=groups)
    return g.Squeeze(found, [2])


def _plain_conv(
    g: Graph, x: ir.Value, kernel: ir.Value, strides: list[int], gaps: list[int], dilations: list[int],
    pads: list[tuple[int, int]], groups: int,
) -> ir.Value:  # fmt: skip
    """Return a Conv; input dilation and negative padding become operators before it."""
    if any(gap != 1 for gap in gaps) or any(p < 0 for pair in pads for p in pair):
        low, high = ([0, 0, *(pair[side] for pair in pads)] for side in (0, 1))
        x = padded(g, x, like(g, 0, x), low, high, [0, 0, *(gap - 1 for gap in gaps)])
        pads = [(0, 0)] * len(pads)
    return g.Conv(
        x, kernel, kernel_shape=_spatial(g, kernel), strides=strides, dilations=dilations, group=groups,
        pads=[*(a for a, _ in pads), *(b for _, b in pads)],
    )  # fmt: skip


def _spatial(g: Graph, kernel: ir.Value) -> list[int]:
    dims = g.shape(kernel)[2:]
    if not all(isinstance(d, int) for d in dims):
        raise Unsupported("a kernel whose size is not known")
    return [int(d) for d in dims if isinstance(d, int)]


def is_transposed(
    g: Graph, kernel: ir.Value, strides: Sequence[int], gaps: Sequence[int], dilations: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> bool:  # fmt: skip
    """Return whether a convolution of a dilated input can be written as ConvTranspose."""
    if all(gap == 1 for gap in gaps) or any(step != 1 for step in strides):
        return False
    spans = [d * (k - 1) for d, k in zip(dilations, _spatial(g, kernel), strict=True)]
    # Elements to crop at each side; at the end, fewer elements than a stride may be added instead.
    cut = [(span - a, span - b) for span, (a, b) in zip(spans, pads, strict=True)]
    return all(a >= 0 and -b < gap for (a, b), gap in zip(cut, gaps, strict=True))


def _transposed_conv(
    g: Graph, x: ir.Value, kernel: ir.Value, gaps: list[int], dilations: list[int], pads: list[tuple[int, int]],
    groups: int,
) -> ir.Value:  # fmt: skip
    """Return the ConvTranspose; its kernel is the convolution's, flipped and with input and output channels swapped."""
    size = _spatial(g, kernel)
    spans = [d * (k - 1) for d, k in zip(dilations, size, strict=True)]
    turned = reverse(g, kernel, dimensions=[2 + a for a, k in enumerate(size) if k > 1])
    outputs, inputs = g.shape(kernel)[:2]
    if groups > 1:
        assert isinstance(outputs, int)
        assert isinstance(inputs, int)
        turned = g.Reshape(turned, np.array([groups, outputs // groups, inputs, *size], np.int64))
        turned = g.Transpose(turned, perm=[0, 2, 1, *range(3, 3 + len(size))])
        turned = g.Reshape(turned, np.array([groups * inputs, outputs // groups, *size], np.int64))
    else:
        turned = g.Transpose(turned, perm=[1, 0, *range(2, 2 + len(size))])
    before = [span - a for span, (a, _) in zip(spans, pads, strict=True)]
    behind = [span - b for span, (_, b) in zip(spans, pads, strict=True)]
    return g.ConvTranspose(
        x, turned, kernel_shape=size, strides=gaps, dilations=dilations, group=groups,
        pads=[*before, *(max(n, 0) for n in behind)], output_padding=[max(-n, 0) for n in behind],
    )  # fmt: skip
