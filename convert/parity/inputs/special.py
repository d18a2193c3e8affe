"""The special inputs of a verification (NaN, infinities, zeros, denormals, limits of integers), and their outputs.

The plain verdict does not see them. Source, graph and target have to have NaN and infinities in the same places, and
numbers that are about the same elsewhere; only what the source computes alike in float32 and float64 counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import RANGE_KEY
from convert.graph.tensors import numpy_dtype, widened_array

NEAR = 1e-2
"""How far numbers may be off, of themselves and of their row: the plain inputs hold them to rounding."""
BEYOND = 1e30
"""Larger numbers are on their way to infinity, which the order of a sum decides."""
TINY = float(np.finfo(np.float32).tiny)
"""Smaller numbers may be taken for 0, as TensorFlow does."""
ROWS = 4
"""The rows of a batch: one with NaN, one with infinities, one of zeros, one of denormals."""


def special_array(value: ir.Value, plain: np.ndarray, limited: bool, denormals: bool = True) -> np.ndarray:
    """`plain` with special values: a NaN in the first row along the first axis, infinities in the second, a row of
    zeros, and denormals (or what is there) in those after it; one NaN where there are no rows. Integers have the limits
    of their dtype and a number beyond those of the next narrower one, unless `limited`.
    """
    array = plain.copy()
    if not array.size:
        return array
    if array.dtype.kind in "iu":
        if limited or not array.ndim or RANGE_KEY in value.metadata_props or reaches_shapes(value):
            return array
        ends = np.iinfo(array.dtype)
        # What the next narrower dtype does not hold, nor, of 64 bits, float32.
        beyond = [(1 << ends.bits // 2) + 5] if ends.bits > 8 else []
        pool = [ends.max, 0, *beyond, 0] if ends.min == 0 else [ends.max, -1, ends.min, *beyond, 0, ends.min + 1]
        return np.resize(np.array(pool, array.dtype), array.shape)
    if limited or value.dtype is None or not value.dtype.is_floating_point() or numpy_dtype(value.dtype).kind != "f":
        return array
    rows = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(1, -1)
    middle = rows.shape[1] // 2
    rows[0, middle] = np.nan
    if len(rows) > 1:
        rows[1, [0, middle]] = np.inf, -np.inf
    if len(rows) > 2:
        rows[2] = 0
    if len(rows) > 3 and denormals:
        least = np.finfo(array.dtype).tiny / np.array(4, array.dtype)
        rows[3:] = np.resize(np.array([least, -least]), rows.shape[1])
    return rows.reshape(array.shape)


_SHAPES = {
    "Expand": 1, "Reshape": 1, "ConstantOfShape": 0, "Tile": 1, "Range": 0, "Resize": 1, "Slice": 1, "Loop": 0,
    "OneHot": 1, "Pad": 1, "TopK": 1, "RandomUniform": 0, "Upsample": 1, "Split": 1,
}  # fmt: skip
"""Operators that make something as large as an input says, and from which of them on."""


def reaches_shapes(value: ir.Value) -> bool:
    """Whether sizes of tensors, or numbers of rounds, may depend on this value."""
    pending, seen = [value], {id(value)}
    while pending:
        for node, index in pending.pop().uses():
            sized = node.op_type in _SHAPES and index >= _SHAPES[node.op_type]
            if sized or any(isinstance(a.value, ir.Graph) for a in _attributes(node)):
                return True
            for output in node.outputs:
                if id(output) not in seen:
                    seen.add(id(output))
                    pending.append(output)
    return False


def _attributes(node: ir.Node) -> list[ir.Attr]:
    return [a for a in node.attributes.values() if isinstance(a, ir.Attr)]


def special_difference(source: np.ndarray, exact: np.ndarray | None, graph: np.ndarray | None, got: np.ndarray) -> str:
    """How `got` differs from the source where that is certain, or nothing.

    source and exact are the source in float32 and, where it can be had, in float64; `graph` is the shared graph in
    float64, which has to be of one mind with them, unless it is what is judged (None).
    """
    if source.dtype.kind in "OUS":
        return ""
    others = [o for o in (exact, graph) if o is not None]
    if any(o.shape != source.shape for o in others):
        return ""
    if got.shape != source.shape:
        return f"shape {list(got.shape)} where the source has {list(source.shape)}"
    if source.dtype.kind in "iub":
        certain = np.logical_and.reduce([source == o for o in others], initial=True, axis=0) if others else True
        wrong = np.asarray((got != source) & certain)
        return _difference_text(got, source, wrong)
    return _difference_text(got, source, _wrong_floats(widened_array(source), [widened_array(o) for o in others], got))


def _wrong_floats(source: np.ndarray, others: Sequence[np.ndarray], got: np.ndarray) -> np.ndarray:
    given = widened_array(got)
    with np.errstate(all="ignore"):
        certain = np.ones(source.shape, bool)
        for other in others:
            certain &= _kinds(source) == _kinds(other)
        wrong = certain & (_kinds(given) != _kinds(source))
        finite = certain & ~wrong & np.isfinite(source)
        noise = np.zeros(source.shape)
        for other in others:
            noise = np.maximum(noise, np.where(finite, np.abs(source - other), 0))
        size = np.where(finite, np.abs(source), 0)
        bound = TINY + NEAR * (size + _of_row(size)) + 16 * (noise + _of_row(noise))
        wrong |= finite & (size < BEYOND) & (np.abs(np.where(finite, given - source, 0)) > bound)
    return wrong


def _of_row(size: np.ndarray) -> np.ndarray:
    """The largest of each part along the first axis, without what is on its way to infinity."""
    if size.ndim < 2 or not size.size:
        return np.max(np.where(size < BEYOND, size, 0), initial=0.0)
    behind = tuple(range(1, size.ndim))
    return np.max(np.where(size < BEYOND, size, 0), axis=behind, keepdims=True, initial=0.0)


def _kinds(array: np.ndarray) -> np.ndarray:
    """0 for numbers, 1 for NaN, 2 and 3 for the infinities; of complex numbers, whether they are finite."""
    if array.dtype.kind == "c":
        return (~np.isfinite(array)).astype(np.int8)
    return (np.isnan(array) + 2 * (array == np.inf) + 3 * (array == -np.inf)).astype(np.int8)


def _difference_text(got: np.ndarray, source: np.ndarray, wrong: np.ndarray) -> str:
    places = np.flatnonzero(wrong)
    if not places.size:
        return ""
    first = int(places[0])
    one, other = np.broadcast_to(got, wrong.shape).reshape(-1)[first], source.reshape(-1)[first]
    return f"{places.size} of {source.size} elements differ, such as {one} where the source has {other}"
