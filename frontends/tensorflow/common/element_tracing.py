"""Traces single elements of small integer tensors to where they are computed, to find out whether two are equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from . import shape_values

_DEEPEST = 64


@dataclass(frozen=True)
class Element:
    """A run-time element of `value` plus a number; only the number if `value` is None."""

    value: ir.Value | None
    index: tuple[int, ...]
    plus: int = 0


def trace_element(g: Graph, value: ir.Value, index: tuple[int, ...], deep: int = _DEEPEST) -> Element:
    """Return the source of `value[index]`, through operators that only move elements, and sums with constants."""
    content = shape_values.content(value)
    if content is not None and content.ndim == len(index) and isinstance(content[index], int):
        return Element(None, (), int(content[index]))
    maker = value.producer()
    if maker is None or maker.domain or not deep or value.shape is None or maker.inputs[0] is None:
        return Element(value, index)
    if maker.op_type == "Add":
        return _trace_sum(g, maker, value, index, deep)
    before = _source_element(g, maker, index)
    return Element(value, index) if before is None else trace_element(g, *before, deep - 1)


def _trace_sum(g: Graph, maker: ir.Node, value: ir.Value, index: tuple[int, ...], deep: int) -> Element:
    parts = [
        x for x in maker.inputs if x is not None and x.shape is not None and list(x.shape) == list(value.shape or ())
    ]
    if len(parts) == 2:
        a, b = (trace_element(g, x, index, deep - 1) for x in parts)
        for left, right in ((a, b), (b, a)):
            if right.value is None:
                return Element(left.value, left.index, left.plus + right.plus)
    return Element(value, index)


def _source_element(g: Graph, maker: ir.Node, index: tuple[int, ...]) -> tuple[ir.Value, tuple[int, ...]] | None:
    """Return the value and the index that this element was moved from, or None if the operator does more than move."""
    x = maker.inputs[0]
    assert x is not None
    axes = g.static(maker.inputs[1]) if len(maker.inputs) > 1 else None
    if maker.op_type in ("Identity", "Cast"):
        return x, index
    if maker.op_type == "Unsqueeze" and axes is not None:
        gone = {int(a) % len(index) for a in axes.ravel()}
        return x, tuple(i for place, i in enumerate(index) if place not in gone)
    if maker.op_type == "Squeeze" and axes is not None and x.shape is not None:
        back = list(index)
        for a in sorted(int(a) % len(x.shape) for a in axes.ravel()):
            back.insert(a, 0)
        return x, tuple(back)
    if maker.op_type == "Concat":
        return _concat_source(maker, index)
    if maker.op_type == "Gather" and axes is not None and axes.ndim < 2:
        return _gather_source(maker, x, axes, index)
    if maker.op_type == "Slice":
        return _slice_source(g, maker, x, index)
    if maker.op_type == "Reshape" and x.shape is not None and all(isinstance(d, int) for d in x.shape):
        return _reshape_source(maker, x, index)
    return None


def _concat_source(maker: ir.Node, index: tuple[int, ...]) -> tuple[ir.Value, tuple[int, ...]] | None:
    axis = maker.attributes["axis"].as_int() % len(index)
    place = index[axis]
    for part in maker.inputs:
        size = part.shape[axis] if part is not None and part.shape is not None else None
        if part is None or not isinstance(size, int):
            return None
        if place < size:
            return part, (*index[:axis], place, *index[axis + 1 :])
        place -= size
    return None


def _gather_source(
    maker: ir.Node, x: ir.Value, picked: np.ndarray, index: tuple[int, ...]
) -> tuple[ir.Value, tuple[int, ...]] | None:
    if x.shape is None:
        return None
    axis = maker.attributes.get_int("axis", 0) % len(x.shape)
    size = x.shape[axis]
    at = int(picked) if picked.ndim == 0 else int(picked[index[axis]])
    if at < 0:
        if not isinstance(size, int):
            return None
        at += size
    return x, (*index[:axis], at, *index[axis + picked.ndim :])


def _slice_source(
    g: Graph, maker: ir.Node, x: ir.Value, index: tuple[int, ...]
) -> tuple[ir.Value, tuple[int, ...]] | None:
    starts, _, axes, steps = [*(g.static(v) for v in maker.inputs[1:]), None, None][:4]
    if starts is None or axes is None or (len(maker.inputs) > 4 and steps is None) or (starts < 0).any():
        return None
    back = list(index)
    for start, axis, step in zip(starts, axes, [1] * len(axes) if steps is None else steps, strict=True):
        back[int(axis)] = int(start) + int(step) * back[int(axis)]
    return x, tuple(back)


def _reshape_source(maker: ir.Node, x: ir.Value, index: tuple[int, ...]) -> tuple[ir.Value, tuple[int, ...]] | None:
    after = maker.outputs[0].shape
    if after is None or x.shape is None or not all(isinstance(d, int) for d in after):
        return None
    flat = int(np.ravel_multi_index(index, after.numpy())) if index else 0
    return x, tuple(int(i) for i in np.unravel_index(flat, x.shape.numpy()))
