"""The elements that a slice takes along one axis.

Source: ONNX Slice-13. Negative bounds count from the end; a start or end out of range is clamped to the nearest
element. So a slice with a negative step and a start before the first element begins with the first element, while
Python takes none.
"""

from __future__ import annotations


def slice_of(start: int, end: int, step: int, length: int) -> slice:
    """Return the Python slice that selects the elements of ONNX's Slice from `length` elements; `step` is not 0."""
    start, end = (n + length if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    return slice(max(min(start, length - 1), 0), None if end < 0 else end, step)
