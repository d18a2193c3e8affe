"""Converts StridedSlice's begin, end, strides and masks back to a subscript: `x[..., 0, 1:-1, None]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

Item = slice | int | EllipsisType | None


def subscript(
    begin: Sequence[Any], end: Sequence[Any], strides: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[Item, ...]:
    """Return the Python subscript for TensorFlow's masks (strided_slice in array_ops.cc); open ends are None.

    Elements of `begin` and `end` may be any objects (dynamic ones too); they are only moved.
    """
    begin_mask, end_mask = attributes.get("begin_mask", 0), attributes.get("end_mask", 0)
    ellipsis, new_axis = attributes.get("ellipsis_mask", 0), attributes.get("new_axis_mask", 0)
    shrink = attributes.get("shrink_axis_mask", 0)
    items: list[Item] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis & bit:
            items.append(Ellipsis)
        elif new_axis & bit:
            items.append(None)
        elif shrink & bit:
            items.append(first)
        else:
            items.append(slice(None if begin_mask & bit else first, None if end_mask & bit else last, step))
    return tuple(items)
