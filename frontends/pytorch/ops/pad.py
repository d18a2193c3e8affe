"""Padding, image patches, and operators that move pixels to channels and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import reshape, size, vector
from ..common.values import as_value, cast
from ..rules import torch_op
from .cat_split import _static_length
from .shape import END

# -- padding ----------------------------------------------------------------------------------------------------------


def emit_pad(g: Graph, x: ir.Value, pad: Sequence[int | ir.Value], mode: str, value: Any = None) -> ir.Value:
    """Pad with PyTorch's order of amounts: (last dim's begin, end, the dim before's begin, end …)."""
    rank = g.rank(x)
    begins: list[Any] = [0] * rank
    ends: list[Any] = [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if all(isinstance(n, int) and n == 0 for n in pad):
        return x
    if mode == "constant":
        filler = as_value(g, 0 if value is None else value, g.dtype(x))
        return g.Pad(x, vector(g, [*begins, *ends]), filler, mode=mode)
    return _pad_by_content(g, x, begins, ends, mode)


def _pad_by_content(g: Graph, x: ir.Value, begins: list[Any], ends: list[Any], mode: str) -> ir.Value:
    """Crop by negative amounts after padding. Circular padding, which onnxruntime lacks ("wrap"), comes before."""
    more = [[max(n, 0) if isinstance(n, int) else n for n in amounts] for amounts in (begins, ends)]
    if mode == "wrap":
        return _pad_circular(g, _crop(g, x, begins, ends), *more)
    if any(not isinstance(n, int) or n for n in (*more[0], *more[1])):
        x = g.Pad(x, vector(g, [*more[0], *more[1]]), mode=mode)
    return _crop(g, x, begins, ends)


def _crop(g: Graph, x: ir.Value, begins: list[Any], ends: list[Any]) -> ir.Value:
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        first, last = (n if isinstance(n, int) and n < 0 else 0 for n in (begin, end))
        if first or last:
            x = g.Slice(x, [-first], [last or END], [axis])
    return x


def _pad_circular(g: Graph, x: ir.Value, begins: list[Any], ends: list[Any]) -> ir.Value:
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if not isinstance(begin, int) or not isinstance(end, int):
            x = _pad_circular_axis(g, x, axis, begin, end)
            continue
        length = g.shape(x)[axis]
        if isinstance(length, int) and max(begin, end) > length:
            raise Unsupported("circular padding by more than a negative amount leaves: PyTorch gives unwritten memory")
        parts = [x]
        if begin:
            parts.insert(0, g.Slice(x, [-begin], [END], [axis]))
        if end:
            parts.append(g.Slice(x, [0], [end], [axis]))
        x = g.Concat(*parts, axis=axis) if len(parts) > 1 else x
    return x


def _pad_circular_axis(g: Graph, x: ir.Value, axis: int, begin: Any, end: Any) -> ir.Value:
    """Pad circularly by run-time amounts: gather the elements, starting before the first one."""
    cut = [g.Max(g.Neg(as_value(g, n, ir.DataType.INT64)), 0) for n in (begin, end)]
    left = g.Sub(as_value(g, size(g, x, axis), ir.DataType.INT64), g.Add(*cut))
    place = g.Range(g.Neg(g.Max(begin, 0)), g.Add(left, g.Max(end, 0)), g.const(1))
    return g.Gather(x, g.Add(g.Mod(place, left), cut[0]), axis=axis)


@torch_op("constant_pad_nd")
def constant_pad_nd(g, x, pad, value=0):
    return emit_pad(g, x, pad, "constant", value)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@torch_op("pad")
def pad(g, x, pad, mode="constant", value=None):
    return emit_pad(g, x, pad, _MODES[mode], value)


def _pad_rule(mode: str) -> Any:
    def rule(g: Graph, x: ir.Value, padding: Any) -> ir.Value:
        return emit_pad(g, x, padding, mode)

    return rule


for _dims in (1, 2, 3):
    torch_op(f"reflection_pad{_dims}d")(_pad_rule("reflect"))
    torch_op(f"replication_pad{_dims}d")(_pad_rule("edge"))


@torch_op("pad_sequence")
def pad_sequence(g, sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences, each padded to the longest, in the dtype of the first, as in ATen."""
    trailing = [g.shape(x)[1:] for x in sequences]
    pairs = [pair for sizes in trailing for pair in zip(sizes, trailing[0], strict=True)]
    if any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs):
        raise Unsupported("pad_sequence of sequences that differ in more than their length")
    lengths = [size(g, x, 0) for x in sequences]
    longest = _longest(g, lengths)
    rows = []
    for x, length in zip(sequences, lengths, strict=True):
        missing = longest - length if isinstance(longest, int) else g.Sub(longest, length)
        amounts = [missing, 0] if padding_side == "left" else [0, missing]
        x = emit_pad(
            g, cast(g, x, g.dtype(sequences[0])), [*[0, 0] * (g.rank(x) - 1), *amounts], "constant", padding_value
        )
        rows.append(g.Unsqueeze(x, [0 if batch_first else 1]))
    return g.Concat(*rows, axis=0 if batch_first else 1) if len(rows) > 1 else rows[0]


def _longest(g: Graph, lengths: Sequence[int | ir.Value]) -> int | ir.Value:
    """Return the maximum of some lengths: a number if all are known."""
    known = [n for n in lengths if isinstance(n, int)]
    if len(known) == len(lengths):
        return max(known)
    unknown = [n for n in lengths if not isinstance(n, int)]
    return g.Max(*unknown, *([g.const(max(known))] if known else []))


# -- patches ----------------------------------------------------------------------------------------------------------


@torch_op("im2col")
def im2col(g, x, kernel_size, dilation, padding, stride):
    """Patches as columns: gather rows, then columns, and reorder the dims."""
    lone = g.rank(x) == 3
    x = g.Unsqueeze(x, [0]) if lone else x
    x = emit_pad(g, x, [padding[1], padding[1], padding[0], padding[0]], "constant")
    batch, channels = (size(g, x, axis) for axis in (0, 1))
    rows, columns = (
        _patch_places(g, size(g, x, i + 2), kernel_size[i], dilation[i], stride[i]) for i in (0, 1)
    )  # fmt: skip
    both = g.Gather(g.Gather(x, rows, axis=2), columns, axis=4)
    ordered = g.Transpose(both, perm=[0, 1, 2, 4, 3, 5])
    count = _product(g, size(g, rows, 1), size(g, columns, 1))
    patches = reshape(g, ordered, [batch, _product(g, channels, math.prod(kernel_size)), count])
    return g.Squeeze(patches, [0]) if lone else patches


def _patch_places(g: Graph, length: int | ir.Value, kernel: int, dilation: int, stride: int) -> ir.Value:
    """Return the indices along one dim of each element of a patch: [kernel, patches]."""
    beyond = dilation * (kernel - 1)
    offsets = np.arange(kernel, dtype=np.int64)[:, None] * dilation
    if isinstance(length, int):
        return g.const(np.arange(0, length - beyond, stride, dtype=np.int64) + offsets)
    return g.Add(g.Unsqueeze(g.Range(g.const(0), g.Sub(length, beyond), g.const(stride)), [0]), g.const(offsets))


def _product(g: Graph, a: int | ir.Value, b: int | ir.Value) -> int | ir.Value:
    return a * b if isinstance(a, int) and isinstance(b, int) else g.Mul(a, b)


# -- pixels to channels and back --------------------------------------------------------------------------------------


@torch_op("pixel_shuffle")
def pixel_shuffle(g, x, upscale_factor):
    return _apply_to_images(g, x, lambda p: g.DepthToSpace(p, blocksize=upscale_factor, mode="CRD"))


@torch_op("pixel_unshuffle")
def pixel_unshuffle(g, x, downscale_factor):
    """SpaceToDepth orders the position in a block before the channel, PyTorch after it: reorder the channels."""

    def lower(p: ir.Value) -> ir.Value:
        channels = _static_length(g, p, 1, "pixel_unshuffle")
        blocks = g.SpaceToDepth(p, blocksize=downscale_factor)
        if channels == 1:
            return blocks
        places = downscale_factor**2
        order = np.arange(places * channels, dtype=np.int64).reshape(places, channels).T.ravel()
        return g.Gather(blocks, order, axis=1)

    return _apply_to_images(g, x, lower)


@torch_op("channel_shuffle")
def channel_shuffle(g, x, groups):
    channels = _static_length(g, x, 1, "channel_shuffle")
    order = np.arange(channels, dtype=np.int64).reshape(groups, channels // groups).T.ravel()
    return g.Gather(x, order, axis=1)


def _apply_to_images(g: Graph, x: ir.Value, lower: Any) -> ir.Value:
    """Apply `lower`, which takes [N, C, H, W], to [..., C, H, W]."""
    rank = g.rank(x)
    if rank == 4:
        return lower(x)
    if rank == 3:
        return g.Squeeze(lower(g.Unsqueeze(x, [0])), [0])
    outer = [size(g, x, d) for d in range(rank - 3)]
    out = lower(reshape(g, x, [-1, *(size(g, x, d) for d in (-3, -2, -1))]))
    return reshape(g, out, [*outer, *(size(g, out, d) for d in (1, 2, 3))])
