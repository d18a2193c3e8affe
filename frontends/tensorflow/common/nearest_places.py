"""The pixels that a nearest-neighbour resize takes, in TensorFlow's arithmetic and in ONNX's."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

HALF, ALIGNED, PLAIN = "half_pixel", "align_corners", "asymmetric"
"""ONNX's names of the three coordinate transformations."""


def nearest_places(size: int, wanted: int, mode: str) -> np.ndarray:
    """Return, for each of `wanted` pixels, its index among `size`, as the kernel computes it in float32.

    (tensorflow/core/kernels/image/resize_nearest_neighbor_op.cc, image_resizer_state.h)
    """
    if not wanted:
        return np.zeros(0, np.int64)
    steps, one = np.arange(wanted, dtype=np.float32), np.float32(1)
    aligned = mode == ALIGNED and wanted > 1
    scale = (np.float32(size) - one) / (np.float32(wanted) - one) if aligned else np.float32(size) / np.float32(wanted)
    at = (steps + np.float32(0.5)) * scale if mode == HALF else steps * scale
    found = np.floor(at)
    if mode == ALIGNED:
        found += at - found >= 0.5  # at + 0.5 could be rounded up to the next pixel
    return np.minimum(found.astype(np.int64), size - 1)


def computed_places(g: Graph, size: ir.Value, wanted: ir.Value, mode: str) -> ir.Value:
    """Return the same by float32 operators, for run-time sizes, int64 [1]."""
    one, half = (g.const(n, ir.DataType.FLOAT) for n in (1.0, 0.5))
    old, new = (g.Cast(n, to=ir.DataType.FLOAT) for n in (size, wanted))
    scale = g.Div(old, new)
    if mode == ALIGNED:
        scale = g.Where(g.Greater(new, one), g.Div(g.Sub(old, one), g.Max(g.Sub(new, one), one)), scale)
    steps = g.Cast(g.Range(0, g.Squeeze(wanted, [0]), 1), to=ir.DataType.FLOAT)
    at = g.Mul(g.Add(steps, half) if mode == HALF else steps, scale)
    found = g.Floor(at)
    if mode == ALIGNED:
        found = g.Where(g.GreaterOrEqual(g.Sub(at, found), half), g.Add(found, one), found)
    return g.Min(g.Cast(found, to=ir.DataType.INT64), g.Sub(size, np.int64(1)))


def is_resize_of_onnx(size: int, wanted: int, mode: str) -> bool:
    """Return whether ONNX's Resize takes the same pixels, computed in float64 and in float32 (as onnxruntime does)."""
    own = nearest_places(size, wanted, mode)
    return all(np.array_equal(_places_of_onnx(size, wanted, mode, kind), own) for kind in (np.float64, np.float32))


def _places_of_onnx(size: int, wanted: int, mode: str, kind: type[np.floating]) -> np.ndarray:
    """Return the indices by the formulas of Resize's specification; the last digit depends on the order of
    operations.
    """
    steps, half = np.arange(wanted).astype(kind), kind(0.5)
    scale = kind(wanted) / kind(size)
    if mode == ALIGNED:
        at = steps * kind(size - 1) / kind(max(wanted - 1, 1))
    else:
        at = (steps + half) / scale - half if mode == HALF else steps / scale
    found = np.floor(at) if mode == PLAIN else np.floor(at + half)
    return np.clip(found.astype(np.int64), 0, size - 1)
