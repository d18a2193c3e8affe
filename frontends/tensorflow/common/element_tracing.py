"""Traces single elements of small integer tensors to where they are computed, to find out whether two are equal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.movements import MOVEMENTS, move

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
    operator = "Identity" if maker.op_type == "Cast" else maker.op_type
    if operator not in MOVEMENTS or len(maker.outputs) > 1:
        return None
    count = len(maker.inputs) if operator == "Concat" else 1
    parts = [v for v in maker.inputs[:count] if v is not None and v.shape is not None and v.shape.is_static()]
    sizes = [v.shape.numpy() for v in parts if v.shape is not None]
    constants = [None if v is None else g.static(v) for v in maker.inputs[count:]]
    unknown = any(c is None and v is not None for c, v in zip(constants, maker.inputs[count:], strict=True))
    ends = np.cumsum([math.prod(size) for size in sizes])
    if len(parts) < count or unknown or ends[-1] > shape_values.LARGEST:
        return None
    places = [np.arange(end - math.prod(size), end).reshape(size) for size, end in zip(sizes, ends, strict=True)]
    attributes = {} if operator == "Identity" else {a.name: a.value for a in maker.attributes.values()}
    place = int(move(operator, *places, *constants, **attributes)[0][index])
    part = int(np.searchsorted(ends, place, side="right"))
    return parts[part], tuple(int(i) for i in np.unravel_index(place - places[part].flat[0], sizes[part]))
