"""Unrolls loops with a known number of iterations, for targets whose models have no subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph, register_initializer
from convert.graph.shape_inference import infer_facts, subgraphs
from convert.graph.values import constant, known_dims, names_in_use

_LARGEST = 2000
"""Largest number of nodes that a loop is unrolled to."""


def unroll_loops(model: ir.Model) -> bool:
    """Unroll every Loop and Scan with few iterations, if their number is known; return whether there was one.

    A Loop whose condition may end it early, and a body with subgraphs of its own, stay.
    """
    modified = False
    for node in list(model.graph):
        if node.op_type in ("Loop", "Scan") and not node.domain:
            modified |= _unroll_loop(model, node) if node.op_type == "Loop" else _unroll_scan(model, node)
    if modified:
        infer_facts(model)
    return modified


def is_known_loop(node: ir.Node) -> bool:
    """Return whether a node is a Scan or a Loop with a known maximum number of iterations."""
    if node.domain or node.op_type not in ("Loop", "Scan"):
        return False
    return (constant(node.inputs[0]) if node.op_type == "Loop" else _steps_of_scan(node)) is not None


def _steps_of_scan(node: ir.Node) -> int | None:
    """Return the number of iterations of a Scan, if a size says it."""
    given = node.attributes.get_int("num_scan_inputs")
    axes = node.attributes.get_ints("scan_input_axes", [0] * given)
    scanned = zip(node.inputs[len(node.inputs) - given :], axes, strict=True)
    sizes = [dims[axis] for x, axis in scanned if x is not None and (dims := known_dims(x)) is not None]
    return next((size for size in sizes if isinstance(size, int)), None)


def _unroll_loop(model: ir.Model, node: ir.Node) -> bool:
    body = node.attributes["body"].as_graph()
    most, given = constant(node.inputs[0]), constant(node.inputs[1])
    if most is None or (node.inputs[1] is not None and (given is None or not given.numpy().all())):
        return False
    again = _origin(body.outputs[0])
    goes_on = constant(again)
    if again is not body.inputs[1] and (goes_on is None or not goes_on.numpy().all()):
        return False
    count = int(most.numpy().ravel()[0])
    if not _is_small(body, count):
        return False
    writer = _Writer(model, node, body)
    states: list[ir.Value | None] = list(node.inputs[2:])
    collected: list[list[ir.Value]] = []
    for i in range(count):
        first = [writer.number(np.array(i, np.int64)), writer.number(np.array(True))]
        _, *made = writer.round(i, [*first, *states])
        states, row = list(made[: len(states)]), made[len(states) :]
        collected.append(row)
    scanned = [writer.stacked([row[k] for row in collected], 0) for k in range(len(collected[0]))]
    writer.finish([*states, *scanned])
    return True


def _unroll_scan(model: ir.Model, node: ir.Node) -> bool:
    body, a = node.attributes["body"].as_graph(), node.attributes
    given = a.get_int("num_scan_inputs")
    kept = len(node.inputs) - given
    results = len(body.outputs) - kept
    axes, count = a.get_ints("scan_input_axes", [0] * given), _steps_of_scan(node)
    if count is None or not _is_small(body, count):
        return False
    turned = a.get_ints("scan_input_directions", [0] * given)
    writer = _Writer(model, node, body)
    states: list[ir.Value | None] = list(node.inputs[:kept])
    collected: list[list[ir.Value]] = []
    for i in range(count):
        elements = [
            writer.element(x, count - 1 - i if turn else i, axis)
            for x, axis, turn in zip(node.inputs[kept:], axes, turned, strict=True)
        ]
        made = writer.round(i, [*states, *elements])
        states, row = list(made[:kept]), made[kept:]
        collected.append(row)
    out_axes, out_turned = (a.get_ints(f"scan_output_{n}", [0] * results) for n in ("axes", "directions"))
    scanned = [
        writer.stacked([row[k] for row in (collected[::-1] if out_turned[k] else collected)], out_axes[k])
        for k in range(results)
    ]
    writer.finish([*states, *scanned])
    return True


def _is_small(body: ir.Graph, count: int) -> bool:
    nested = any(subgraphs(a) for node in body for a in node.attributes.values())
    return not nested and 0 < count * max(len(body), 1) <= _LARGEST


def _origin(value: ir.Value) -> ir.Value:
    """Return the value at the start of a chain of Identity nodes."""
    while (maker := value.producer()) is not None and maker.op_type == "Identity" and maker.inputs[0] is not None:
        value = maker.inputs[0]
    return value


class _Writer:
    """Inserts copies of a loop's body before the loop."""

    def __init__(self, model: ir.Model, node: ir.Node, body: ir.Graph) -> None:
        self.model, self.node, self.body = model, node, body
        assert node.graph is not None
        self.insert: Callable[[ir.Node], None] = lambda made: node.graph.insert_before(node, made)  # type: ignore[union-attr]
        self.fixed: dict[ir.Value, ir.Value] = {}
        for value in body.initializers.values():
            assert value.const_value is not None
            self.fixed[value] = register_initializer(model.graph, value.name or "const", value.const_value)
        self.names = Graph()
        self.names.reserve(names_in_use(model))

    def number(self, content: np.ndarray) -> ir.Value:
        return register_initializer(self.model.graph, self.names.unique(f"{self.node.name}_const"), ir.tensor(content))

    def round(self, number: int, given: Sequence[ir.Value | None]) -> list[ir.Value]:
        """Insert one copy of the body with inputs `given`; return its outputs."""
        now: dict[ir.Value, ir.Value | None] = {**self.fixed, **dict(zip(self.body.inputs, given, strict=True))}
        for inner in self.body:
            inputs = [None if v is None else now.get(v, v) for v in inner.inputs]
            made = ir.Node(
                inner.domain, inner.op_type, inputs, list(inner.attributes.values()), num_outputs=len(inner.outputs),
                name=self.names.unique(f"{inner.name or inner.op_type}_round_{number}"),
                metadata_props=dict(inner.metadata_props),
            )  # fmt: skip
            for old, new in zip(inner.outputs, made.outputs, strict=True):
                new.name = self.names.unique(f"{old.name}_round_{number}") if old.name else old.name
                new.type, new.shape = old.type, old.shape
                now[old] = new
            self.insert(made)
        found = [now.get(v, v) for v in self.body.outputs]
        assert all(v is not None for v in found)
        return [v for v in found if v is not None]

    def element(self, x: ir.Value | None, place: int, axis: int) -> ir.Value:
        return self._add("Gather", [x, self.number(np.array(place, np.int64))], {"axis": axis})

    def stacked(self, parts: Sequence[ir.Value], axis: int) -> ir.Value:
        """Return the parts stacked along a new axis."""
        place = self.number(np.array([axis], np.int64))
        rows = [self._add("Unsqueeze", [p, place], {}) for p in parts]
        return rows[0] if len(rows) == 1 else self._add("Concat", rows, {"axis": axis})

    def finish(self, results: Sequence[ir.Value | None]) -> None:
        """Give the results the names of the node's outputs, and remove the node."""
        for old, result in zip(self.node.outputs, results, strict=True):
            tie = self._add("Identity", [result], {})
            name, tie.type, tie.shape = old.name, old.type, old.shape
            old.replace_all_uses_with(tie, replace_graph_outputs=True)
            old.name, tie.name = None, name
        assert self.node.graph is not None
        self.node.graph.remove(self.node, safe=True)

    def _add(self, operator: str, inputs: Sequence[ir.Value | None], attributes: dict[str, int]) -> ir.Value:
        made = ir.Node(
            "", operator, inputs, [ir.AttrInt64(k, v) for k, v in attributes.items()], num_outputs=1,
            name=self.names.unique(f"{self.node.name}_{operator}"), metadata_props=dict(self.node.metadata_props),
        )  # fmt: skip
        made.outputs[0].name = made.name
        self.insert(made)
        return made.outputs[0]
