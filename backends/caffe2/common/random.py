"""Random numbers: Caffe2 fills tensors from its own generator, so the seed of a node has no effect."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..blob import Blob
from ..net import Net
from .dtypes import FLOAT, NUMBERS, cast, widen
from .shapes import dims


def random_fill(net: Net, operator: str, shape: Blob, args: dict[str, Any], like: Blob | None = None) -> Blob:
    """Return float32 numbers of `UniformFill` or `GaussianFill` with the dims in the int64 vector `shape`."""
    facts = None if like is None else like.shape
    if facts is None and shape.content is not None:
        facts = tuple(int(d) for d in shape.content.numpy())
    return net.facts(net.op(operator, [shape], input_as_shape=1, **args), FLOAT[0], facts)


def uniform_like(net: Net, x: Blob) -> Blob:
    """Return numbers from 0 to 1 in the shape of `x`."""
    return random_fill(net, "UniformFill", dims(net, x), {"min": 0.0, "max": 1.0}, x)


def apply_dropout(net: Net, x: Blob, share: float) -> list[Blob]:
    """Return `x` with the fraction `share` of its elements set to 0 and the others scaled up, and the mask of the
    elements that are kept.
    """
    kept = net.facts(net.GE(uniform_like(net, x), net.const(share)), ir.DataType.BOOL, x.shape)
    wide = widen(net, x, FLOAT)
    mask = net.facts(net.Cast(kept, to=NUMBERS[FLOAT[0]]), FLOAT[0], x.shape)
    scaled = net.Mul(net.Mul(wide, mask), net.const(1 / (1 - share) if share < 1 else 0.0))
    return [cast(net, scaled, x.dtype), kept]
