"""Interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.semantics.interpolation import resized_length

from ..common.sizes import size, static_sizes, vector
from ..rules import torch_op

# -- interpolation ----------------------------------------------------------------------------------------------------


def emit_resize(
    g: Graph, x: ir.Value, output_size: Any, scales: Sequence[float | None] | None, **attributes: Any
) -> ir.Value:
    """Resize of the dims behind the channels, to sizes or by factors.

    A factor that the user gave also sets the distance of samples, in PyTorch as in ONNX, so it is passed on.
    """
    known = [float(s) for s in scales or () if s is not None]
    if scales is not None and len(known) == len(scales):
        factors = g.const(rounded_tensor(np.array([1.0, 1.0, *known]), ir.DataType.FLOAT))
        if _same_sizes(g, x, output_size, known):
            return g.Resize(x, None, factors, **attributes)
    if output_size is None:
        raise Unsupported("interpolation with neither sizes nor factors")
    if all(isinstance(n, int) for n in output_size):  # a batch of any size needs no computed shape then
        sizes = g.const(np.array(output_size, dtype=np.int64))
        return g.Resize(x, None, None, sizes, axes=list(range(2, 2 + len(output_size))), **attributes)
    outer = [size(g, x, 0), size(g, x, 1)]
    return g.Resize(x, None, None, vector(g, [*outer, *output_size]), **attributes)


def _same_sizes(g: Graph, x: ir.Value, output_size: Any, scales: Sequence[float]) -> bool:
    """True if the factors alone give the size that is asked for, also after ONNX has them in float32."""
    if output_size is None:
        return True
    for length, wanted, scale in zip(g.shape(x)[2:], output_size, scales, strict=True):
        if not isinstance(length, int) or not isinstance(wanted, int) or resized_length(length, scale) != wanted:
            return False
    return True


def _nearest_rule(exact: bool) -> Any:
    """floor(i / scale), or exactly the nearest sample."""
    mode, place = ("round_prefer_ceil", "half_pixel") if exact else ("floor", "asymmetric")

    def vec(g: Graph, x: ir.Value, output_size: Any, scale_factors: Any = None) -> ir.Value:
        return emit_resize(
            g, x, output_size, scale_factors, mode="nearest", nearest_mode=mode, coordinate_transformation_mode=place
        )

    return vec


def _linear_rule(mode: str) -> Any:
    def vec(g: Graph, x: ir.Value, output_size: Any, align_corners: bool, scale_factors: Any = None) -> ir.Value:
        place = "align_corners" if align_corners else "half_pixel"
        cubic = -0.75 if mode == "cubic" else None
        if output_size is None and align_corners:
            output_size = _scaled_sizes(g, x, scale_factors)
        return emit_resize(
            g,
            x,
            output_size,
            None if align_corners else scale_factors,
            mode=mode,
            coordinate_transformation_mode=place,
            cubic_coeff_a=cubic,
        )

    return vec


def _scaled_sizes(g: Graph, x: ir.Value, scale_factors: Sequence[float]) -> list[int]:
    lengths = static_sizes(g.shape(x)[2:], "interpolation by a factor with align_corners of pictures of unknown size")
    return [int(n * f) for n, f in zip(lengths, scale_factors, strict=True)]


def _antialiased_rule(mode: str) -> Any:
    def vec(g: Graph, x: ir.Value, output_size: Any, align_corners: bool, scale_factors: Any = None) -> ir.Value:
        """A constant matrix for each axis: PyTorch's filter differs from what runtimes make of ONNX's attribute."""
        output_size = _scaled_sizes(g, x, scale_factors) if output_size is None else output_size
        for i, (out, factor) in enumerate(zip(output_size, scale_factors or (None, None), strict=True)):
            length = g.shape(x)[i + 2]
            if not isinstance(length, int) or not isinstance(out, int):
                raise Unsupported("antialiased interpolation of pictures of unknown size")
            matrix = _filter_matrix(length, out, mode, align_corners, factor)
            table = rounded_tensor(matrix if i == 0 else np.ascontiguousarray(matrix.T), g.dtype(x))
            x = g.MatMul(table, x) if i == 0 else g.MatMul(x, table)
        return x

    return vec


def _filter_matrix(length: int, out: int, mode: str, align_corners: bool, factor: float | None) -> np.ndarray:
    """Weights [out, length] of a triangle or cubic filter, as wide as the step between samples where that is above 1.

    The formula is that of `aten/src/ATen/native/cpu/UpSampleKernel.cpp` (after Pillow's).
    """
    if align_corners:
        step = (length - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = length / out if not factor else 1 / factor
    wide = max(step, 1.0)
    matrix = np.zeros((out, length))
    for i in range(out):
        centre = step * (i + 0.5)
        reach = wide * (2.0 if mode == "cubic" else 1.0)
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), length)
        weights = _filter_weights((np.arange(first, last) - centre + 0.5) / wide, mode)
        matrix[i, first:last] = weights / weights.sum()
    return matrix


def _filter_weights(x: np.ndarray, mode: str) -> np.ndarray:
    x = np.abs(x)
    if mode == "linear":
        return np.maximum(1 - x, 0)
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _per_dim_overload(vec: Any, dims: int, aligned: bool) -> Any:
    """The overload without `.vec` names a factor for each dim: scales_h, scales_w …."""
    if dims == 1:
        if aligned:
            return lambda g, x, output_size, align_corners, scales=None: vec(g, x, output_size, align_corners, [scales])
        return lambda g, x, output_size, scales=None: vec(g, x, output_size, [scales])
    if dims == 2:
        if aligned:
            return lambda g, x, output_size, align_corners, scales_h=None, scales_w=None: vec(
                g, x, output_size, align_corners, [scales_h, scales_w]
            )
        return lambda g, x, output_size, scales_h=None, scales_w=None: vec(g, x, output_size, [scales_h, scales_w])
    if aligned:
        return lambda g, x, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None: vec(
            g, x, output_size, align_corners, [scales_d, scales_h, scales_w]
        )
    return lambda g, x, output_size, scales_d=None, scales_h=None, scales_w=None: vec(
        g, x, output_size, [scales_d, scales_h, scales_w]
    )


def _register(name: str, vec: Any, dims: int, aligned: bool) -> None:
    torch_op(f"{name}.vec")(vec)
    torch_op(name)(_per_dim_overload(vec, dims, aligned))


for _dims in (1, 2, 3):
    _register(f"upsample_nearest{_dims}d", _nearest_rule(False), _dims, False)
    _register(f"_upsample_nearest_exact{_dims}d", _nearest_rule(True), _dims, False)
for _name, _dims, _mode in (
    ("linear1d", 1, "linear"),
    ("bilinear2d", 2, "linear"),
    ("trilinear3d", 3, "linear"),
    ("bicubic2d", 2, "cubic"),
):
    _register(f"upsample_{_name}", _linear_rule(_mode), _dims, True)
for _name, _mode in (("bilinear2d", "linear"), ("bicubic2d", "cubic")):
    _register(f"_upsample_{_name}_aa", _antialiased_rule(_mode), 2, True)
