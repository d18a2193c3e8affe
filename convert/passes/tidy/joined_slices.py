"""Lets slices of a Concat read its parts.

Detectors join boxes and scores, and suppression takes them apart again. In 8 bits the join rounds both to one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from convert.graph.model_names import ModelNames
from convert.graph.shape_inference import infer_facts
from convert.graph.values import constant_integers, is_used, known_dims

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE)


def slice_parts(model: ir.Model) -> bool:
    """Replace Slices and Splits of floating Concats by the parts, through transposes, reshapes and other Concats.

    This applies to a range inside one part, and to several whole parts. Returns whether there was one.
    """
    names, modified = None, False
    for node in list(model.graph.all_nodes()):
        for value, taken in list(_slices(node)):
            make = _plan(taken, node)
            if make is None or not is_used(value):
                continue
            names = names or ModelNames(model.graph)
            made = make(_Writer(node, names))
            if value.is_graph_output():
                made = _Writer(node, names).node("Identity", made)
                made.type, made.shape, name = value.type, value.shape, value.name
                value.name, made.name = names.unique(f"{name}_taken"), name
            ir.convenience.replace_all_uses_with(value, made, replace_graph_outputs=True)
            modified = True
    if modified:
        infer_facts(model)
    return modified


class _Range:
    """The elements `start` to `end` of a value along an axis."""

    def __init__(self, value: ir.Value, axis: int, start: int, end: int) -> None:
        self.value, self.axis, self.start, self.end = value, axis, start, end

    def of(self, value: ir.Value, axis: int) -> _Range:
        """Return the same range of another value."""
        return _Range(value, axis, self.start, self.end)


class _Writer:
    """Inserts nodes before another node, with its origin."""

    def __init__(self, at: ir.Node, names: ModelNames) -> None:
        self.at, self.names = at, names

    def node(self, operator: str, *inputs: ir.Value, **attributes: object) -> ir.Value:
        made = ir.node(operator, inputs, attributes)  # type: ignore[arg-type]
        made.metadata_props.update(self.at.metadata_props)
        made.name = self.names.unique(f"{self.at.name or operator}_{operator}")
        made.outputs[0].name = self.names.unique(f"{self.at.name or operator}_{operator}")
        assert self.at.graph is not None
        self.at.graph.insert_before(self.at, made)
        return made.outputs[0]

    def numbers(self, *content: int) -> ir.Value:
        return self.names.array("numbers", np.array(content, np.int64))


_Make = Callable[[_Writer], ir.Value]


def _slices(node: ir.Node) -> Iterator[tuple[ir.Value, _Range]]:
    """Yield each output of a Slice or Split along one known dim, with the range that it takes."""
    x = node.inputs[0] if node.inputs else None
    dims = known_dims(x) if x is not None and x.dtype in _FLOATS and not node.domain else None
    if x is None or dims is None or node.op_type not in ("Slice", "Split"):
        return
    if node.op_type == "Split":
        axis = node.attributes.get_int("axis", 0) % len(dims)
        sizes = [d[axis] for d in map(known_dims, node.outputs) if d and isinstance(d[axis], int)]
        if len(sizes) == len(node.outputs):
            ends = np.cumsum(np.array(sizes, np.int64)).tolist()
            for value, start, end in zip(node.outputs, [0, *ends], ends, strict=False):
                yield value, _Range(x, axis, start, end)
        return
    starts, ends, axes, steps = (
        constant_integers(node.inputs[i]) if len(node.inputs) > i and node.inputs[i] is not None else None
        for i in range(1, 5)
    )
    if starts and ends and axes and len(axes) == 1 and (steps or [1]) == [1]:
        size = dims[axes[0]]
        if isinstance(size, int):
            start, end, _ = slice(starts[0], ends[0]).indices(size)
            yield node.outputs[0], _Range(x, axes[0] % len(dims), start, end)


def _plan(taken: _Range, at: ir.Node) -> _Make | None:
    """Return a function that writes a range of joined parts without the join; None if the value is not joined."""
    node = taken.value.producer()
    if node is None or node.domain or node.graph is not at.graph:
        return None
    if node.op_type == "Concat":
        return _plan_of_join(node, taken, at)
    x = node.inputs[0] if node.inputs else None
    if x is None:
        return None
    if node.op_type == "Transpose" and "perm" in node.attributes:
        perm = node.attributes["perm"].as_ints()
        make = _plan(taken.of(x, perm[taken.axis]), at)
        return None if make is None else lambda w: w.node("Transpose", make(w), perm=perm)
    shape = constant_integers(node.inputs[1]) if node.op_type == "Reshape" else None
    before, after = known_dims(x), known_dims(taken.value)
    if shape is None or before is None or after is None or (0 in shape and node.attributes.get_int("allowzero", False)):
        return None
    behind = len(after) - taken.axis
    if behind > len(before) or before[-behind:] != after[-behind:] or not _are_known(before[-behind:]):
        return None
    inner = _plan(taken.of(x, len(before) - behind), at)
    if inner is None:
        return None
    shape[taken.axis] = taken.end - taken.start
    # A 0 copies a dim of the input by its place, and one -1 is found from the others.
    return lambda w: w.node("Reshape", inner(w), w.numbers(*shape))


def _are_known(dims: object) -> bool:
    return all(isinstance(d, int) for d in dims)  # type: ignore[attr-defined]


def _plan_of_join(node: ir.Node, taken: _Range, at: ir.Node) -> _Make | None:
    parts = [part for part in node.inputs if part is not None]
    dims = [known_dims(part) for part in parts]
    if any(d is None for d in dims):
        return None
    axis = node.attributes["axis"].as_int() % len(dims[0] or ())
    if axis != taken.axis:
        inner = [_plan(taken.of(part, taken.axis), at) for part in parts]
        if not all(inner):
            return None
        return lambda w: w.node("Concat", *(make(w) for make in inner if make), axis=axis)
    sizes = [(d or ())[axis] for d in dims]
    if not _are_known(sizes):
        return None
    starts = np.cumsum([0, *sizes]).tolist()
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        if start <= taken.start < taken.end <= end:
            ends = taken.start - start, taken.end - start
            if ends == (0, end - start):
                return lambda w, part=part: part  # type: ignore[misc]
            return lambda w, part=part, ends=ends: w.node("Slice", part, *(w.numbers(n) for n in (*ends, axis)))  # type: ignore[misc]
    if taken.start in starts and taken.end in starts and 0 < taken.end - taken.start < starts[-1]:
        whole = parts[starts.index(taken.start) : starts.index(taken.end)]
        return lambda w: w.node("Concat", *whole, axis=axis)
    return None
