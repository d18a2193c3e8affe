"""Helpers of convolutions, pools and resizes: layouts, the spatial part of an attribute, and explicit padding.

The shared graph keeps TensorFlow's layout. An operator that ONNX has in channels-first only gets two Transposes, which
the layout pass removes where they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.semantics.windows import Window

from .lazy_reshape import transpose


def is_channels_last(data_format: str) -> bool:
    """Return whether the layout is NHWC, NDHWC …. Raises `Unsupported` for a packed layout."""
    if data_format not in ("NHWC", "NDHWC", "NCHW", "NCDHW"):
        raise Unsupported(f"data_format={data_format!r} is not handled")
    return data_format[-1] == "C"


def to_channels_first(g: Graph, x: ir.Value, data_format: str) -> ir.Value:
    """Return `x` in NCHW. An unknown rank follows from `data_format`."""
    rank = len(data_format)
    if x.shape is None:
        g.facts(x, shape=[None] * rank)
    if not is_channels_last(data_format):
        return x
    return transpose(g, x, [0, rank - 1, *range(1, rank - 1)])


def to_data_format(g: Graph, y: ir.Value, data_format: str) -> ir.Value:
    """Return a result in NCHW in `data_format`."""
    rank = len(data_format)
    return transpose(g, y, [0, *range(2, rank), 1]) if is_channels_last(data_format) else y


def spatial_entries(values: Sequence[int], data_format: str, what: str) -> list[int]:
    """Return the entries of `values` for height, width …. Raises `Unsupported` unless those for batch and channels are
    1.
    """
    last = is_channels_last(data_format)
    outer = (values[0], values[-1]) if last else (values[0], values[1])
    if outer != (1, 1):
        raise Unsupported(f"{what}={list(values)} reaches over batch or channels")
    return list(values[1:-1] if last else values[2:])


def padding_attributes(
    sizes: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str
) -> dict[str, Any]:
    """Return `pads` (or `auto_pad`) for TensorFlow's SAME and VALID over spatial dims of `sizes`."""
    if padding not in ("SAME", "VALID"):
        raise Unsupported(f"padding={padding!r} is not handled")
    given = Window.of(kernel, strides, dilations)
    known = [n if isinstance(n, int) else None for n in sizes]
    made = given if padding == "VALID" else given.with_auto_pad(known, "SAME_UPPER")
    return {"auto_pad": "SAME_UPPER"} if made is None else {"pads": made.pads}


def explicit_pads(paddings: Sequence[int], data_format: str) -> list[int]:
    """Return ONNX pads for `explicit_paddings`, which has (before, after) for every dim of `data_format`."""
    pairs = list(zip(paddings[0::2], paddings[1::2], strict=True))
    inner = pairs[1:-1] if is_channels_last(data_format) else pairs[2:]
    return [b for b, _ in inner] + [a for _, a in inner]
