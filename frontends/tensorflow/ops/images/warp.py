"""Projective transforms of images."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ...common.lazy_reshape import int64
from ...common.quantization_levels import round_half_away
from ...rules import tf_op

_FLOAT = ir.DataType.FLOAT
MODES = ("CONSTANT", "NEAREST", "REFLECT", "WRAP")


@tf_op("ImageProjectiveTransformV2")
def image_projective_transform_v2(
    g: Graph, images: ir.Value, transforms: ir.Value, output_shape: ir.Value, *, interpolation: str, fill_mode: str
) -> ir.Value:
    nothing = g.const(0.0, _FLOAT)
    return image_projective_transform_v3(
        g, images, transforms, output_shape, nothing, interpolation=interpolation, fill_mode=fill_mode
    )


@tf_op("ImageProjectiveTransformV3")
def image_projective_transform_v3(
    g: Graph, images: ir.Value, transforms: ir.Value, output_shape: ir.Value, fill_value: ir.Value,
    *, interpolation: str, fill_mode: str,
) -> ir.Value:  # fmt: skip
    """Return the image; each pixel is read from ((a₀x + a₁y + a₂) / k, (b₀x + b₁y + b₂) / k), with k = c₀x + c₁y + 1
    (image_ops.h).
    """
    if fill_mode not in MODES or interpolation not in ("NEAREST", "BILINEAR"):
        raise Unsupported(f"fill_mode={fill_mode!r} with interpolation={interpolation!r}")
    size = int64(g, output_shape)
    ys, xs = (_float_range(g, g.Slice(size, [i], [i + 1], [0])) for i in (0, 1))
    grid = (g.Unsqueeze(xs, [0, 1]), g.Unsqueeze(ys, [0, 2]))
    a = [g.Unsqueeze(g.Slice(transforms, [i], [i + 1], [1]), [2]) for i in range(8)]
    one = g.const(1.0, _FLOAT)
    below = g.Add(_weighted_sum(g, a[6:], grid), one)
    flat = g.Equal(below, g.const(0.0, _FLOAT))
    divisor = g.Where(flat, one, below)
    places = [g.Div(g.Add(_weighted_sum(g, a[i : i + 2], grid), a[i + 2]), divisor) for i in (0, 3)]
    dims = [g.Cast(g.Shape(images, start=i, end=i + 1), to=_FLOAT) for i in (2, 1)]
    x, y = (_map_coordinate(g, p, d, fill_mode) for p, d in zip(places, dims, strict=True))
    picture = g.Cast(images, to=_FLOAT) if images.dtype != _FLOAT else images
    if interpolation == "NEAREST":
        out = _gather_pixels(g, picture, round_half_away(g, x), round_half_away(g, y), dims, fill_value)
    else:
        out = _interpolate_bilinear(g, picture, x, y, dims, fill_value)
    out = g.Where(g.Unsqueeze(flat, [3]), fill_value, out)
    out = out if images.dtype == _FLOAT else g.Cast(out, to=g.dtype(images))
    batch, channels = g.shape(images)[0], g.shape(images)[3]
    known = g.static(output_shape)
    height, width = (None, None) if known is None else known.tolist()
    return g.facts(out, shape=[batch, height, width, channels])


def _float_range(g: Graph, count: ir.Value) -> ir.Value:
    return g.Cast(g.Range(0, g.Squeeze(count, [0]), 1), to=_FLOAT)


def _weighted_sum(g: Graph, factors: list[ir.Value], grid: tuple[ir.Value, ir.Value]) -> ir.Value:
    return g.Add(g.Mul(factors[0], grid[0]), g.Mul(factors[1], grid[1]))


def _map_coordinate(g: Graph, at: ir.Value, length: ir.Value, mode: str) -> ir.Value:
    """Map a coordinate outside 0 … length - 1 to one inside, according to `mode`."""
    if mode == "CONSTANT":
        return at
    zero, one = g.const(0.0, _FLOAT), g.const(1.0, _FLOAT)
    last = g.Sub(length, one)
    low, high = g.Less(at, zero), g.Greater(at, last)
    if mode == "REFLECT":
        twice = g.Add(length, length)
        up = g.Where(g.Less(at, twice), g.Add(at, g.Mul(twice, g.Floor(g.Div(g.Neg(at), twice)))), at)
        up = g.Where(g.Less(up, g.Neg(length)), g.Add(up, twice), g.Sub(g.Neg(up), one))
        down = g.Sub(at, g.Mul(twice, g.Floor(g.Div(at, twice))))
        down = g.Where(g.GreaterOrEqual(down, length), g.Sub(g.Sub(twice, down), one), down)
    elif mode == "WRAP":
        up = g.Add(at, g.Mul(length, g.Add(g.Floor(g.Div(g.Neg(at), last)), one)))
        down = g.Sub(at, g.Mul(length, g.Floor(g.Div(at, last))))
    else:
        up, down = zero, last
    single = g.LessOrEqual(length, one)
    at = g.Where(g.And(g.Or(low, high), single), zero, g.Where(low, up, g.Where(high, down, at)))
    return g.Min(g.Max(at, zero), last)


def _gather_pixels(
    g: Graph, picture: ir.Value, x: ir.Value, y: ir.Value, dims: list[ir.Value], fill: ir.Value
) -> ir.Value:
    """Return the pixels at integer coordinates [batch or 1, height, width], `fill` outside."""
    zero, one = g.const(0.0, _FLOAT), g.const(1.0, _FLOAT)
    inside = [g.And(g.GreaterOrEqual(v, zero), g.Less(v, d)) for v, d in zip((x, y), dims, strict=True)]
    x, y = (
        g.Cast(g.Min(g.Max(v, zero), g.Sub(d, one)), to=ir.DataType.INT64) for v, d in zip((x, y), dims, strict=True)
    )
    rows = g.Range(0, g.Squeeze(g.Shape(picture, start=0, end=1), [0]), 1)
    batch = g.Unsqueeze(rows, [1, 2])
    shape = g.Max(g.Shape(x), g.Concat(g.Shape(rows), np.ones(2, np.int64), axis=0))
    index = g.Concat(*(g.Unsqueeze(g.Expand(v, shape), [3]) for v in (batch, y, x)), axis=3)
    index = g.facts(index, shape=[None, None, None, 3])
    return g.Where(g.Unsqueeze(g.And(*inside), [3]), g.GatherND(picture, index), fill)


def _interpolate_bilinear(
    g: Graph, picture: ir.Value, x: ir.Value, y: ir.Value, dims: list[ir.Value], fill: ir.Value
) -> ir.Value:
    """Interpolate between the four surrounding pixels; those outside are `fill`."""
    one = g.const(1.0, _FLOAT)
    left, top = g.Floor(x), g.Floor(y)
    right, bottom = g.Add(left, one), g.Add(top, one)
    weights = [g.Unsqueeze(w, [3]) for w in (g.Sub(right, x), g.Sub(x, left), g.Sub(bottom, y), g.Sub(y, top))]
    rows = [
        g.Add(
            g.Mul(weights[0], _gather_pixels(g, picture, left, row, dims, fill)),
            g.Mul(weights[1], _gather_pixels(g, picture, right, row, dims, fill)),
        )
        for row in (top, bottom)
    ]
    return g.Add(g.Mul(weights[2], rows[0]), g.Mul(weights[3], rows[1]))
