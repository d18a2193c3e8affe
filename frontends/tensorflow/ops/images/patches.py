"""Windows of images and volumes, each flattened to the last dim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from ...common.conv_layout import padding_attributes, spatial_entries
from ...rules import tf_op


@tf_op("ExtractImagePatches")
def extract_image_patches(
    g: Graph, images: ir.Value, *, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> ir.Value:
    """[n, rows, columns, kernel height · kernel width · depth]."""
    kernel, steps = spatial_entries(ksizes, "NHWC", "ksizes"), spatial_entries(strides, "NHWC", "strides")
    return _patches(g, images, kernel, steps, spatial_entries(rates, "NHWC", "rates"), padding)


@tf_op("ExtractVolumePatches")
def extract_volume_patches(
    g: Graph, input: ir.Value, *, ksizes: Sequence[int], strides: Sequence[int], padding: str
) -> ir.Value:
    """[n, planes, rows, columns, kernel · depth]."""
    kernel, steps = (spatial_entries(v, "NDHWC", what) for v, what in ((ksizes, "ksizes"), (strides, "strides")))
    return _patches(g, input, kernel, steps, [1, 1, 1], padding)


def _patches(
    g: Graph, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> ir.Value:
    """Emit one Gather per spatial dim, [n, h', kh, w', kw, c], and move the window dims together."""
    if x.shape is None:
        g.facts(x, shape=[None] * (len(kernel) + 2))
    batch, *sizes, depth = g.shape(x)
    if not isinstance(depth, int):
        raise Unsupported("patches of a picture whose number of channels is not static")
    if not depth:
        raise Unsupported("patches of a picture without channels")
    count = len(kernel)
    counts: list[Dim] = [None] * count
    if all(isinstance(d, int) for d in sizes):
        pads = list(padding_attributes(sizes, kernel, strides, rates, padding)["pads"])
        padded = [int(d or 0) + pads[i] + pads[i + count] for i, d in enumerate(sizes)]
        x = g.Pad(x, np.array([0, *pads[:count], 0, 0, *pads[count:], 0], np.int64)) if any(pads) else x
        counts = [(p - (k - 1) * r - 1) // s + 1 for p, k, s, r in zip(padded, kernel, strides, rates, strict=True)]
        places = [
            np.arange(n)[:, None] * s + np.arange(k) * r  # type: ignore[arg-type]
            for n, k, s, r in zip(counts, kernel, strides, rates, strict=True)
        ]
        whole = g.const(np.array([-1, *counts, int(np.prod(kernel)) * depth], np.int64))
    else:
        x, lengths = _padded_by_size(g, x, kernel, strides, rates, padding)
        ends = [g.Slice(lengths, [i], [i + 1], [0]) for i in range(count)]
        starts = [g.Mul(g.Range(0, g.Squeeze(e, [0]), 1), np.int64(s)) for e, s in zip(ends, strides, strict=True)]
        places = [g.Add(g.Unsqueeze(n, [1]), np.arange(k) * r) for n, k, r in zip(starts, kernel, rates, strict=True)]
        whole = g.Concat(g.Shape(x, start=0, end=1), lengths, [int(np.prod(kernel)) * depth], axis=0)
    for axis, index in enumerate(places):
        x = g.Gather(x, index, axis=1 + 2 * axis)
    order = [0, *range(1, 2 * count, 2), *range(2, 2 * count + 1, 2), 2 * count + 1]
    y = g.Reshape(g.Transpose(x, perm=order), whole)
    return g.facts(y, g.dtype(x), [batch, *counts, int(np.prod(kernel)) * depth])


def _padded_by_size(
    g: Graph, x: ir.Value, kernel: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> tuple[ir.Value, ir.Value]:
    """Return the padding of SAME for run-time sizes, and the number of windows in each dim."""
    count = len(kernel)
    sizes = g.Shape(x, start=1, end=1 + count)
    steps = np.array(strides, np.int64)
    reach = np.array([(k - 1) * r + 1 for k, r in zip(kernel, rates, strict=True)], np.int64)
    if padding == "VALID":
        return x, g.Div(g.Add(g.Sub(sizes, reach), steps), steps)
    if padding != "SAME":
        raise Unsupported(f"padding={padding!r} is not handled")
    lengths = g.Div(g.Add(sizes, steps - 1), steps)
    total = g.Max(g.Sub(g.Add(g.Mul(g.Sub(lengths, np.int64(1)), steps), reach), sizes), np.zeros(count, np.int64))
    before, none = g.Div(total, np.int64(2)), np.zeros(1, np.int64)
    return g.Pad(x, g.Concat(none, before, none, none, g.Sub(total, before), none, axis=0)), lengths
