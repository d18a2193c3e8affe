"""Rules that sample an image at computed coordinates: regions, grids, folds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..common.indexing import fixed_dims
from ..common.padding import slice_axis
from ..common.shapes import broadcast, full_like, reshape_fixed, transpose
from ..net import Net
from ..rules import onnx_op
from .conv import conv_transpose

_INT64 = ir.DataType.INT64


@onnx_op("MaxRoiPool")
def max_roi_pool(net: Net, x: Blob, rois: Blob, *, pooled_shape: Sequence[int], spatial_scale: float) -> Blob:
    height, width = pooled_shape
    operands = [widen(net, v, FLOAT) for v in (x, rois)]
    y = net.op("RoIPool", operands, pooled_h=height, pooled_w=width, spatial_scale=spatial_scale, is_test=1)
    return cast(net, y, x.dtype)


_MAX = onnx_op.limit("RoiAlign", "mode='max': Caffe2's RoIAlign takes the mean of the samples")


@onnx_op("RoiAlign")
def roi_align(
    net: Net,
    x: Blob,
    rois: Blob,
    batch: Blob,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Blob:
    """RoiAlign-22. Caffe2's regions start with the index of their image."""
    if mode != "avg":
        raise Unsupported(_MAX)
    column = net.facts(net.ExpandDims(cast(net, batch, ir.DataType.FLOAT), dims=[1]), FLOAT[0], (None, 1))
    regions = net.op("Concat", [column, widen(net, rois, FLOAT)], axis=1, outputs=2)[0]
    y = net.op(
        "RoIAlign",
        [widen(net, x, FLOAT), regions],
        pooled_h=output_height,
        pooled_w=output_width,
        spatial_scale=spatial_scale,
        sampling_ratio=sampling_ratio,
        aligned=int(coordinate_transformation_mode == "half_pixel"),
    )
    return cast(net, y, x.dtype)


@onnx_op("Col2Im")
def col2im(
    net: Net,
    x: Blob,
    image_shape: Blob,
    block_shape: Blob,
    *,
    dilations: list[int] | None,
    pads: list[int] | None,
    strides: list[int] | None,
) -> Blob:
    """Col2Im-18 as a transposed convolution: each column element is added at its position in the window."""
    image = [int(d) for d in net.need(image_shape, "the image shape of Col2Im")]
    block = [int(d) for d in net.need(block_shape, "the block shape of Col2Im")]
    n, cells = len(image), int(np.prod(block))
    apart, steps, around = dilations or [1] * n, strides or [1] * n, pads or [0] * 2 * n
    batch, rows, _ = fixed_dims(net, x, "Col2Im")
    windows = [(image[i] + around[i] + around[n + i] - (block[i] - 1) * apart[i] - 1) // steps[i] + 1 for i in range(n)]
    kernel = np.tile(np.eye(cells, dtype=np.float32).reshape(cells, 1, *block), (rows // cells, *[1] * (n + 1)))
    # Elements that no window reaches are zero.
    extra = [
        image[i] + around[i] + around[n + i] - (windows[i] - 1) * steps[i] - (block[i] - 1) * apart[i] - 1
        for i in range(n)
    ]
    spread = reshape_fixed(net, widen(net, x, FLOAT), [batch, rows, *windows])
    y = conv_transpose(
        net, spread, net.const(kernel), None, auto_pad="NOTSET", dilations=apart, group=rows // cells,
        kernel_shape=block, output_padding=extra, output_shape=None, pads=around, strides=steps,
    )  # fmt: skip
    return cast(net, y, x.dtype)


@onnx_op("GridSample")
def grid_sample(net: Net, x: Blob, grid: Blob, *, align_corners: int, mode: str, padding_mode: str) -> Blob:
    """GridSample-22: the weighted sum of the elements around each coordinate, gathered from the flat image."""
    if net.root.aten and net.rank(x) == 4:
        arguments = {
            "interpolation_mode": ("linear", "nearest", "cubic").index(mode),
            "padding_mode": ("zeros", "border", "reflection").index(padding_mode),
            "align_corners": align_corners,
        }
        operands = [widen(net, v, FLOAT) for v in (x, grid)]
        sampled = net.op("ATen", operands, operator="grid_sampler", **arguments)
        return cast(net, net.facts(sampled, FLOAT[0], (*net.shape(x)[:2], *net.shape(grid)[1:-1])), x.dtype)
    shape, places = fixed_dims(net, x, "GridSample"), fixed_dims(net, grid, "GridSample")
    rank, sizes = len(shape) - 2, shape[2:]
    coordinates = widen(net, grid, FLOAT)
    indices, weights = [], []
    for axis, size in enumerate(sizes):
        # The grid has the axes in reverse order: x, y, z.
        one = slice_axis(net, coordinates, rank + 1, rank - 1 - axis, rank - axis)
        where = net.facts(net.Squeeze(one, dims=[rank + 1]), FLOAT[0], places[:-1])
        near, shares = _padded_neighbors(net, where, size, bool(align_corners), mode, padding_mode)
        indices.append(near)
        weights.append(shares)
    return cast(net, _gather_weighted(net, widen(net, x, FLOAT), places[:-1], indices, weights), x.dtype)


def _gather_weighted(
    net: Net, x: Blob, places: Sequence[int], indices: list[list[Blob]], weights: list[list[Blob]]
) -> Blob:
    """Return the weighted sum over all combinations of one neighbour per axis; `indices` and `weights` have the dims
    `places`.
    """
    batch, channels, *sizes = fixed_dims(net, x, "a sampled image")
    rank = len(sizes)
    last = transpose(net, x, [0, *range(2, rank + 2), 1])
    rows = reshape_fixed(net, last, [batch * int(np.prod(sizes)), channels])
    images = np.arange(batch, dtype=np.int64).reshape([batch, *[1] * (len(places) - 1)]) * int(np.prod(sizes))
    result: Blob | None = None
    for choice in itertools.product(*(range(len(p)) for p in indices)):
        linear, weight = net.const(images), None
        for axis, k in enumerate(choice):
            stride = net.const(np.array(int(np.prod(sizes[axis + 1 :]))))
            linear = net.Add(linear, net.Mul(indices[axis][k], stride))
            weight = weights[axis][k] if weight is None else net.Mul(weight, weights[axis][k])
        assert weight is not None
        cells = net.facts(net.Gather(rows, linear), FLOAT[0], (*places, channels))
        share = net.facts(net.ExpandDims(weight, dims=[len(places)]), FLOAT[0], (*places, 1))
        part = net.Mul(cells, share)
        result = part if result is None else net.Add(result, part)
    assert result is not None
    return transpose(net, result, [0, len(places), *range(1, len(places))])


def _padded_neighbors(
    net: Net, where: Blob, size: int, align: bool, mode: str, padding: str
) -> tuple[list[Blob], list[Blob]]:
    """Return the elements near each coordinate along one axis as int64, and their weights, which are 0 in the
    padding.
    """
    half, one = net.const(0.5), net.const(1.0)
    if align:
        where = net.Mul(net.Add(where, one), net.const((size - 1) / 2))
    else:
        where = net.Mul(net.Sub(net.Mul(net.Add(where, one), net.const(float(size))), one), half)
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    cubic = mode in ("cubic", "bicubic")
    if mode == "nearest":
        shift = net.const(1.5 * 2.0**23)
        where = net.Sub(net.Add(where, shift), shift)
    if padding == "border" and not cubic:
        where = net.Clip(where, min=0.0, max=size - 1.0)
    elif padding == "reflection":
        where = _reflect_coordinates(net, where, low, high)
    near, shares = _neighbors(net, where, mode)
    cells, weights = [], []
    for place, share in zip(near, shares, strict=True):
        if padding == "reflection":
            place = _reflect_coordinates(net, place, low, high)
        elif padding == "zeros":
            inside = net.And(net.GE(place, net.const(0.0)), net.LE(place, net.const(size - 1.0)))
            share = net.Mul(share, cast(net, net.facts(inside, shape=place.shape), FLOAT[0]))
        cells.append(cast(net, net.Clip(place, min=0.0, max=size - 1.0), _INT64))
        weights.append(share)
    return cells, weights


def _reflect_coordinates(net: Net, where: Blob, low: float, high: float) -> Blob:
    """Reflect coordinates at the borders until they lie between them."""
    if high <= low:
        return full_like(net, where, low, FLOAT[0])
    distance = net.Abs(net.Sub(where, net.const(low)))
    span = net.const(high - low)
    turns = net.Floor(net.Div(distance, span))
    rest = net.Sub(distance, net.Mul(turns, span))
    two = net.const(2.0)
    odd = net.Sub(turns, net.Mul(net.Floor(net.Div(turns, two)), two))
    back, forth = net.Sub(net.const(high), rest), net.Add(rest, net.const(low))
    return net.facts(net.Where(*broadcast(net, net.GT(odd, net.const(0.5)), back, forth)), FLOAT[0], where.shape)


def _neighbors(net: Net, where: Blob, mode: str) -> tuple[list[Blob], list[Blob]]:
    """Return the elements around a coordinate and their weights. The cubic kernel is that of R. Keys (1981) with
    parameter −0.75.
    """
    if mode == "nearest":
        return [where], [full_like(net, where, 1.0, FLOAT[0])]
    base, one = net.Floor(where), net.const(1.0)
    d = net.Sub(where, base)
    if mode in ("linear", "bilinear"):
        return [base, net.Add(base, one)], [net.Sub(one, d), d]
    if mode not in ("cubic", "bicubic"):
        raise Unsupported(f"mode={mode!r}")
    a = -0.75

    def polynomial(v: Blob, *coefficients: float) -> Blob:
        result = net.Mul(v, net.const(coefficients[0]))
        for c in coefficients[1:-1]:
            result = net.Mul(net.Add(result, net.const(c)), v)
        return net.Add(result, net.const(coefficients[-1]))

    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    e = net.Sub(one, d)
    shares = [polynomial(net.Add(d, one), *far), polynomial(d, *near), polynomial(e, *near),
              polynomial(net.Add(e, one), *far)]  # fmt: skip
    return [net.Add(base, net.const(float(k))) for k in (-1, 0, 1, 2)], shares


@onnx_op("DeformConv")
def deform_conv(
    net: Net,
    x: Blob,
    w: Blob,
    offset: Blob,
    b: Blob | None,
    mask: Blob | None,
    *,
    dilations: list[int] | None,
    group: int,
    kernel_shape: list[int] | None,
    offset_group: int,
    pads: list[int] | None,
    strides: list[int] | None,
) -> Blob:
    """DeformConv-22 in 2-D: every window element is sampled at its own coordinate (bilinear, zero outside), then
    weighted.
    """
    shape, sizes, moved = (fixed_dims(net, v, "DeformConv") for v in (x, w, offset))
    if len(shape) != 4:
        raise Unsupported("a DeformConv that is not 2-D")
    batch, channels, height, width = shape
    kernel, (rows, columns) = sizes[2:], moved[2:]
    apart, steps, around = dilations or [1, 1], strides or [1, 1], pads or [0] * 4
    taps, per = kernel[0] * kernel[1], channels // offset_group
    # [batch, groups, taps, 2, rows, columns]; each offset group becomes an image of its own.
    shifts = reshape_fixed(net, widen(net, offset, FLOAT), [batch * offset_group, taps, 2, rows, columns])
    grid = np.indices([kernel[0], kernel[1], rows, columns])
    places = [batch * offset_group, taps, rows, columns]
    indices, weights = [], []
    for axis, size in enumerate((height, width)):
        start = (grid[2 + axis] * steps[axis] + grid[axis] * apart[axis] - around[axis]).reshape(taps, rows, columns)
        shift = net.facts(net.Squeeze(slice_axis(net, shifts, 2, axis, axis + 1), dims=[2]), FLOAT[0], places)
        where = net.Add(shift, net.const(start.astype(np.float32)))
        near, shares = _neighbors(net, where, "linear")
        inside = [net.facts(net.And(net.GE(p, net.const(0.0)), net.LE(p, net.const(size - 1.0))), shape=places)
                  for p in near]  # fmt: skip
        indices.append([cast(net, net.Clip(p, min=0.0, max=size - 1.0), _INT64) for p in near])
        weights.append([net.Mul(s, cast(net, i, FLOAT[0])) for s, i in zip(shares, inside, strict=True)])
    images = reshape_fixed(net, widen(net, x, FLOAT), [batch * offset_group, per, height, width])
    cells = _gather_weighted(net, images, places, indices, weights)
    if mask is not None:
        factor = reshape_fixed(net, widen(net, mask, FLOAT), [batch * offset_group, 1, taps, rows, columns])
        cells = net.facts(net.Mul(cells, factor), FLOAT[0], [batch * offset_group, per, taps, rows, columns])
    # Windows side by side: a convolution with kernel and stride equal to the number of elements per window.
    inner = channels // group
    left = reshape_fixed(net, cells, [batch, group, inner * taps, rows * columns])
    right = reshape_fixed(net, widen(net, w, FLOAT), [1, group, sizes[0] // group, inner * taps])
    y = net.BatchMatMul(right, left, broadcast=1)
    y = reshape_fixed(net, net.facts(y, FLOAT[0], None), [batch, sizes[0], rows, columns])
    if b is not None:
        y = net.Add(y, reshape_fixed(net, widen(net, b, FLOAT), [sizes[0], 1, 1]))
    return cast(net, y, x.dtype)
