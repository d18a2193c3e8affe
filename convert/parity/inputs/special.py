"""Generate the special inputs (NaN, infinities, zeros, denormals, limits of integers), and compare their outputs.

The plain verdict does not use them. Source, graph and target must have NaN and infinities in the same places, and
similar numbers elsewhere. Only elements that the source computes alike in float32 and float64 are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import RANGE_KEY
from convert.graph.tensors import nonfinite_kinds, numpy_dtype, widened_array

NEAR = 1e-2
"""Relative error allowed for a number and its row; the plain inputs check rounding more strictly."""
NEAR_OVERFLOW = 1e30
"""Numbers above this are close to overflow, which the order of a sum decides."""
TINY = float(np.finfo(np.float32).tiny)
"""Numbers below this may be flushed to 0, as TensorFlow does."""
NAN, INFINITIES, ZEROS, DENORMALS = "NaN", "infinities", "zeros", "denormals"
Rows: TypeAlias = Sequence[Sequence[str]]
"""The kinds of special values in each row of a batch. Zeros and denormals fill a row; the others are single numbers."""
EVERY_KIND: Rows = ((NAN,), (INFINITIES,), (ZEROS,), (DENORMALS,))
ROWS = len(EVERY_KIND)


def special_rows(*, denormals: bool, large: bool) -> Rows:
    """Return the kinds of special values in each row. denormals: whether to include these. large: of a large model.

    The time of large models counts: source and target run each row several times if they differ. They get two rows.
    Their weights and biases make ordinary numbers of denormals in any case.
    """
    if large:
        return (NAN, INFINITIES), (ZEROS,)
    return EVERY_KIND if denormals else EVERY_KIND[:-1]


def special_array(value: ir.Value, plain: np.ndarray, limited: bool, kinds: Rows = EVERY_KIND) -> np.ndarray:
    """Return a copy of `plain` with special values.

    Floats: each row along the first axis has the kinds of its place in `kinds`. If the last one is denormals, later
    rows are denormals, too. Arrays without rows have the kinds of the first one.

    Integers: the limits of the dtype, and a number beyond those of the next narrower dtype, unless `limited`.
    """
    array = plain.copy()
    if not array.size:
        return array
    if array.dtype.kind in "iu":
        if limited or not array.ndim or RANGE_KEY in value.metadata_props or reaches_shapes(value):
            return array
        ends = np.iinfo(array.dtype)
        # Not representable in the next narrower dtype; for 64 bits, not in float32 either.
        beyond = [(1 << ends.bits // 2) + 5] if ends.bits > 8 else []
        pool = [ends.max, 0, *beyond, 0] if ends.min == 0 else [ends.max, -1, ends.min, *beyond, 0, ends.min + 1]
        return np.resize(np.array(pool, array.dtype), array.shape)
    if limited or value.dtype is None or not value.dtype.is_floating_point() or numpy_dtype(value.dtype).kind != "f":
        return array
    rows = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(1, -1)
    for place, (row, wanted) in enumerate(zip(rows, kinds, strict=False)):
        _fill(row if DENORMALS not in wanted else rows[place:], wanted)
    return rows.reshape(array.shape)


def _fill(row: np.ndarray, kinds: Sequence[str]) -> None:
    """Write special values into a row, or into several rows of denormals."""
    count = row.shape[-1]
    middle = count // 2
    if ZEROS in kinds:
        row[:] = 0
    if DENORMALS in kinds:
        least = np.finfo(row.dtype).tiny / np.array(4, row.dtype)
        row[:] = np.resize(np.array([least, -least]), count)
    if INFINITIES in kinds:
        row[[0, middle]] = np.inf, -np.inf
    if NAN in kinds:
        row[(middle + count) // 2 if INFINITIES in kinds else middle] = np.nan


_SHAPES = {
    "Expand": 1, "Reshape": 1, "ConstantOfShape": 0, "Tile": 1, "Range": 0, "Resize": 1, "Slice": 1, "Loop": 0,
    "OneHot": 1, "Pad": 1, "TopK": 1, "RandomUniform": 0, "Upsample": 1, "Split": 1,
}  # fmt: skip
"""Operators whose output size depends on the content of an input, with the index of the first such input."""


def reaches_shapes(value: ir.Value) -> bool:
    """Return whether sizes of tensors, or numbers of iterations, may depend on the numbers in this value."""
    pending, seen = [value], {id(value)}
    while pending:
        for node, index in pending.pop().uses():
            if node.op_type in ("Shape", "Size"):  # these depend on its shape only
                continue
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
    """Return how `got` differs from the source in elements that are certain, or ''.

    source, exact: the source in float32 and, if available, in float64. graph: the shared graph in float64; None if it
    is judged itself. An element is certain if all of these agree.
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
            certain &= nonfinite_kinds(source) == nonfinite_kinds(other)
        wrong = certain & (nonfinite_kinds(given) != nonfinite_kinds(source))
        finite = certain & ~wrong & np.isfinite(source)
        noise = np.zeros(source.shape)
        for other in others:
            noise = np.maximum(noise, np.where(finite, np.abs(source - other), 0))
        size = np.where(finite, np.abs(source), 0)
        bound = TINY + NEAR * (size + _of_row(size)) + 16 * (noise + _of_row(noise))
        wrong |= finite & (size < NEAR_OVERFLOW) & (np.abs(np.where(finite, given - source, 0)) > bound)
    return wrong


def _of_row(size: np.ndarray) -> np.ndarray:
    """Return the largest number of each row along the first axis, ignoring numbers close to overflow."""
    if size.ndim < 2 or not size.size:
        return np.max(np.where(size < NEAR_OVERFLOW, size, 0), initial=0.0)
    behind = tuple(range(1, size.ndim))
    return np.max(np.where(size < NEAR_OVERFLOW, size, 0), axis=behind, keepdims=True, initial=0.0)


def _difference_text(got: np.ndarray, source: np.ndarray, wrong: np.ndarray) -> str:
    places = np.flatnonzero(wrong)
    if not places.size:
        return ""
    first = int(places[0])
    one, other = np.broadcast_to(got, wrong.shape).reshape(-1)[first], source.reshape(-1)[first]
    return f"{places.size} of {source.size} elements differ, such as {one} where the source has {other}"
