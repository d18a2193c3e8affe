"""Resize by PyTorch's `interpolate`. Other forms are written out."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch.nn.functional as F

from convert.graph.values import constant, known_dims
from convert.legalize.resize import interpolation_of
from convert.semantics.interpolation import Interpolation, resized_length

from ..rules import host, onnx_op
from ..torch_internals import check

_MODES = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear", ("cubic", 2): "bicubic"}
_CENTRED = ("half_pixel", "pytorch_half_pixel")


def _is_own(node: ir.Node) -> bool:
    """Return whether `interpolate` computes the node."""
    x, _, scales, sizes = [*node.inputs, None, None, None][:4]
    dims, how = known_dims(x) if x is not None else None, interpolation_of(node)
    if x is None or x.dtype is None or not x.dtype.is_floating_point() or dims is None or len(dims) not in (3, 4, 5):
        return False
    if how.exclude_outside or how.antialias or not _is_known_method(how, len(dims) - 2):
        return False
    axes = [a % len(dims) for a in node.attributes.get_ints("axes", range(len(dims)))]
    given = constant(scales)
    if given is not None and given.size:
        return _scales_agree(dims, dict(zip(axes, map(float, given.numpy().ravel()), strict=True)), how)
    if sizes is None or node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    after = known_dims(node.outputs[0])
    ends = constant(sizes)
    numbers: dict[int, Any] = dict.fromkeys(axes)
    if ends is not None:
        numbers = dict(zip(axes, ends.numpy().ravel().tolist(), strict=True))
    if any(a < 2 and (dims[a] is None or dims[a] != (numbers[a] or (after and after[a]))) for a in axes):
        return False
    spatial = [(dims[a], numbers.get(a)) for a in axes if a > 1]
    if how.mode == "nearest":
        return all(isinstance(n, int) and n and m and m % n == 0 for n, m in spatial)
    return how.coordinates != "pytorch_half_pixel" or all(m is not None and m > 1 for _, m in spatial)


def _is_known_method(how: Interpolation, spatial: int) -> bool:
    if how.mode == "nearest":  # with integer factors all of these repeat each element
        floor = how.coordinates == "asymmetric" and how.nearest == "floor"
        return floor or (how.coordinates in _CENTRED and how.nearest.startswith("round"))
    if (how.mode, spatial) not in _MODES or (how.mode == "cubic" and how.cubic != -0.75):
        return False
    return how.coordinates in (*_CENTRED, "align_corners")


def _scales_agree(dims: tuple[Any, ...], factors: dict[int, float], how: Interpolation) -> bool:
    """Return whether each scale is the ratio of its sizes, as `interpolate` computes it from the sizes."""
    for axis, f in factors.items():
        n, whole = dims[axis], f == int(f) and f >= 1
        if (axis < 2 and f != 1) or (not whole and (how.mode == "nearest" or not isinstance(n, int))):
            return False
        if isinstance(n, int) and n:
            m = resized_length(n, f)
            if abs(m / n - f) > 1e-7 * f or (how.coordinates == "pytorch_half_pixel" and m == 1):
                return False
    return True


@onnx_op("Resize", when=_is_own)
@host("roi", "scales", "sizes")
def resize(
    t, x, roi, scales, sizes, *, axes, coordinate_transformation_mode, cubic_coeff_a, extrapolation_value,
    keep_aspect_ratio_policy, mode, nearest_mode,
):  # fmt: skip
    axes = [a % x.dim() for a in axes] if axes is not None else list(range(x.dim()))
    wanted = list(x.shape)
    if sizes is not None:
        for axis, n in zip(axes, t.ints(sizes), strict=True):
            if not isinstance(n, int):
                check(n >= 1)
            wanted[axis] = n if axis > 1 else wanted[axis]
    else:
        for axis, f in zip(axes, map(float, t.static(scales).ravel()), strict=True):
            n = wanted[axis]
            wanted[axis] = resized_length(n, f) if isinstance(n, int) else n * int(f)
    if mode == "nearest":
        return F.interpolate(x, wanted[2:], mode="nearest")
    corners = coordinate_transformation_mode == "align_corners"
    return F.interpolate(x, wanted[2:], mode=_MODES[mode, x.dim() - 2], align_corners=corners)
