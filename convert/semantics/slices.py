"""Which elements a slice takes along one axis.

Source: ONNX Slice-13. Counted from the end where negative, a start or an end beyond either end is the nearest one: back
from before the first element begins with that one, of which Python takes none.
"""

from __future__ import annotations


def slice_of(start: int, end: int, step: int, length: int) -> slice:
    """The Python slice that takes of `length` elements what ONNX's Slice takes; `step` is not 0."""
    start, end = (n + length if n < 0 else n for n in (start, end))
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    return slice(max(min(start, length - 1), 0), None if end < 0 else end, step)
