"""Derives the sizes and integers that a decoder with GroupQueryAttention takes.

Its file declares four free dims: the length of the mask, of the earlier keys, of the new tokens, and the head size. The
operator fails unless the first is the sum of the next two. The lengths that are numbers, `seqlens_k` and
`total_sequence_length`, must agree with them, and positions must be rows of its tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from convert.graph.metadata import DIMS_KEY, GUARDS_KEY, RANGE_KEY
from convert.graph.values import Dim, known_dims

_OPERATOR = "GroupQueryAttention"
_QUERY, _KEY, _PASTS, _LAST, _TOTAL, _COSINES, _POSITIONS = 0, 1, (3, 4), 5, 6, 7, 9
_ON_THE_WAY = frozenset({"Cast", "Gather", "Identity", "ReduceSum", "Reshape", "Shape", "Slice", "Squeeze", "Sub",
                         "Unsqueeze"})  # fmt: skip
"""Operators by which files compute lengths from a mask."""


@dataclass(frozen=True)
class _Call:
    """The dims of one GroupQueryAttention: rows and new tokens, the name of the earlier ones, and the head size."""

    rows: Dim
    new: str
    past: str
    size: int

    @property
    def total(self) -> str:
        return f"{self.past}+{self.new}"


def bind_calls(model: ir.Model) -> None:
    """Write the sizes of `model` that follow from others in terms of these, and note what its integer inputs may be."""
    for node in [node for node in model.graph if node.op_type == _OPERATOR]:
        call = _call_of(node)
        if call is None:
            continue
        names = dict(_head_sizes(node, call))
        last, total = (_source(_input(node, place)) for place in (_LAST, _TOTAL))
        for value in (last, total):
            dims = known_dims(value) if value is not None else None
            if dims is not None and len(dims) == 2 and isinstance(dims[1], str):
                names[dims[1]] = call.total
        _rename(model, {old: new for old, new in names.items() if old != new})
        _note_integers(node, call, last, total)
        _note_sizes(model, node, call)


def _input(node: ir.Node, place: int) -> ir.Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _call_of(node: ir.Node) -> _Call | None:
    """Return the dims of a node whose cache is inputs of the model; None if they are not known well enough."""
    past = [known_dims(v) for place in _PASTS if (v := _input(node, place)) is not None and v.is_graph_input()]
    query, key = _input(node, _QUERY), _input(node, _KEY)
    dims = known_dims(query) if query is not None else None
    if len(past) != 2 or dims is None or len(dims) != 3 or any(p is None or len(p) != 4 for p in past):
        return None
    heads, kv_heads = (node.attributes.get_int(name, 0) for name in ("num_heads", "kv_num_heads"))
    parts = heads if key is not None else heads + 2 * kv_heads
    length, new, width = (past[0] or ())[2], dims[1], dims[2]
    if not isinstance(new, str) or not isinstance(length, str) or not isinstance(width, int) or not parts:
        return None
    return _Call(dims[0], new, length, width // parts)


def _head_sizes(node: ir.Node, call: _Call) -> list[tuple[str, str | int]]:
    """Return the names of dims of the cache that are the head size."""
    found = [known_dims(v) or () for place in _PASTS if (v := _input(node, place)) is not None]
    return [(dims[3], call.size) for dims in found if isinstance(dims[3], str)]


def _source(value: ir.Value | None) -> ir.Value | None:
    """Return the input of the model that a length is computed from."""
    while value is not None and not value.is_graph_input():
        node = value.producer()
        if node is None or node.op_type not in _ON_THE_WAY or node.domain or not node.inputs:
            return None
        value = node.inputs[0]
    return value


def _rename(model: ir.Model, names: Mapping[str, str | int]) -> None:
    if not names:
        return
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.outputs, *(v for node in graph for v in node.outputs)):
            dims = known_dims(value)
            if dims is not None and any(d in names for d in dims if isinstance(d, str)):
                value.shape = ir.Shape([names.get(d, d) if isinstance(d, str) else d for d in dims])


def _note_integers(node: ir.Node, call: _Call, last: ir.Value | None, total: ir.Value | None) -> None:
    """Note that masks are ones, what lengths are, and that positions are rows of the tables.

    The operator does not define what a query after the end of its row returns, so rows have no such queries.
    """
    for value, shift in ((last, "-1"), (total, "")):
        if value is None or value.dtype is None or not value.dtype.is_integer():
            continue
        is_mask = len(known_dims(value) or ()) == 2 and value is not _input(node, _LAST)
        bound = 1 if is_mask else f"{call.total}{shift}"
        value.metadata_props[RANGE_KEY] = json.dumps([bound, bound])
    positions, rows = _input(node, _POSITIONS), _rows(node)
    if positions is not None and positions.is_graph_input() and rows:
        positions.metadata_props[RANGE_KEY] = json.dumps([0, rows - 1])


def _rows(node: ir.Node) -> int:
    """Return the number of positions in the tables of cosines and sines; 0 if it is not known."""
    cosines = _input(node, _COSINES)
    rows = (known_dims(cosines) or (None,))[0] if cosines is not None else None
    return rows if isinstance(rows, int) else 0


def _note_sizes(model: ir.Model, node: ir.Node, call: _Call) -> None:
    """Note that the first cache may be empty, and the sizes that onnxruntime 1.32 refuses."""
    guards = json.loads(model.metadata_props.get(GUARDS_KEY, "[]"))
    added = [f"{call.past} + {call.new} <= {_rows(node)}"] if _rows(node) else []
    one_row = f"{call.rows} == 1 or " if isinstance(call.rows, str) else ""
    if call.rows != 1:
        added.append(f"{one_row}{call.new} == 1 or {call.past} == 0")
    model.metadata_props[GUARDS_KEY] = json.dumps([*guards, *(text for text in added if text not in guards)])
    bounds = json.loads(model.metadata_props.get(DIMS_KEY, "{}"))
    bounds.setdefault(call.past, [0, None])
    model.metadata_props[DIMS_KEY] = json.dumps(bounds)
