"""Resize of images of dynamic size by ResizeNearest. Every other Resize is written out."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from convert.graph.values import constant, known_dims
from convert.legalize.resize import interpolation_of

from ..blob import Blob
from ..common.dtypes import FLOAT, cast, widen
from ..net import Net
from ..rules import onnx_op


def _is_repetition(node: ir.Node) -> bool:
    """Return whether ResizeNearest computes the node: rows and columns repeated, of a number that is not known."""
    x, _, scales = [*node.inputs, None, None][:3]
    dims, given, how = known_dims(x) if x is not None else None, constant(scales), interpolation_of(node)
    if dims is None or len(dims) != 4 or given is None or how.mode != "nearest":
        return False
    axes = [a % 4 for a in node.attributes.get_ints("axes", range(4))]
    factors = {a: f for a, f in zip(axes, map(float, given.numpy().ravel()), strict=True) if f != 1}
    if not set(factors) <= {2, 3} or any(f != int(f) for f in factors.values()):
        return False
    same = (how.coordinates, how.nearest) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))
    return same and not all(isinstance(dims[a], int) for a in factors)


@onnx_op("Resize", when=_is_repetition)
def resize(
    net: Net, x: Blob, roi: Blob | None, scales: Blob,
    *, antialias: int, axes: Sequence[int] | None, coordinate_transformation_mode: str, cubic_coeff_a: float,
    exclude_outside: int, extrapolation_value: float, keep_aspect_ratio_policy: str, mode: str, nearest_mode: str,
) -> Blob:  # fmt: skip
    """Resize-19 of the nearest rows and columns; the other attributes are for other modes."""
    over = range(4) if axes is None else [net.axis(x, a) for a in axes]
    factors = dict(zip(over, map(float, net.need(scales, "the scales of Resize").ravel()), strict=True))
    y = net.ResizeNearest(widen(net, x, FLOAT), height_scale=factors.get(2, 1.0), width_scale=factors.get(3, 1.0))
    return cast(net, y, x.dtype)
