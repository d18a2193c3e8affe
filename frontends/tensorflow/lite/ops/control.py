"""Branches, loops and calls of subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Dim, Graph
from convert.graph.values import known_dims

from ...common.lazy_reshape import cast
from ...ops.control import merge_branch_facts
from ..rules import AS_STORED, tflite_op
from ..state import restored

AS_STORED.update(("IF", "WHILE"))


@tflite_op("IF")
def if_(
    g: Graph, condition: ir.Value, *inputs: ir.Value, then_subgraph_index: Any, else_subgraph_index: Any
) -> list[ir.Value]:
    """IF. The results are followed by the variables that a branch changes."""
    regions, bodies = (then_subgraph_index, else_subgraph_index), [g.body("then"), g.body("else")]
    for region in regions:
        _check_input_count(region, inputs)
    states = list(dict.fromkeys(v for region in regions for v in region.changed(*inputs)))
    for region, body in zip(regions, bodies, strict=True):
        with restored(states, body):
            for value in (*region(body, *inputs), *(state.read(body) for state in states)):
                if not isinstance(value, ir.Value):
                    raise Unsupported("branches that choose between resources")
                body.output(value, body.unique("result"))
    sides = [body.graph.outputs for body in bodies]
    if len(sides[0]) != len(sides[1]):
        raise BadInput("branches with different numbers of results")
    condition = g.Squeeze(condition) if condition.shape is not None and len(condition.shape) else condition
    outputs = g.If(condition, then_branch=bodies[0], else_branch=bodies[1], outputs=len(sides[0])) if sides[0] else []
    outputs = outputs if isinstance(outputs, list) else [outputs]
    results = [merge_branch_facts(g, value, a, b) for value, a, b in zip(outputs, *sides, strict=True)]
    for state in reversed(states):
        state.write(g, results.pop())
    return results


@tflite_op("WHILE")
def while_(g: Graph, *inputs: ir.Value, cond_subgraph_index: Any, body_subgraph_index: Any) -> list[ir.Value]:
    """WHILE. Invariants stay outside the ONNX Loop; variables that an iteration changes are loop-carried."""
    for region in (cond_subgraph_index, body_subgraph_index):
        _check_input_count(region, inputs)
    inner_graph = body_subgraph_index.subgraph
    carried = [k for k, (a, b) in enumerate(zip(inner_graph.inputs, inner_graph.outputs, strict=True)) if a != b]
    if any(not isinstance(inputs[k], ir.Value) for k in carried):
        raise Unsupported("a loop that changes a resource for another")
    start = _scalar_condition(g, cond_subgraph_index(g, *inputs)[0])
    states = body_subgraph_index.changed(*inputs) + cond_subgraph_index.changed(*inputs)
    states = list(dict.fromkeys(states))
    befores = [state.read(g) for state in states]
    body = g.body("round")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("going", ir.DataType.BOOL, [])
    inner: list[ir.Value] = list(inputs)
    for k in carried:
        tensor = inner_graph.tensors[inner_graph.inputs[k]]
        inner[k] = body.input("state", g.dtype(inputs[k]), _invariant_dims(g, inputs[k], tensor.shape))
    with restored(states, body):
        for state, before in zip(states, befores, strict=True):
            state.value = body.input("variable", g.dtype(before), known_dims(before))
        results = body_subgraph_index(body, *inner)
        after = [results[k] if k in carried else inputs[k] for k in range(len(inputs))]
        body.output(_scalar_condition(body, cond_subgraph_index(body, *after)[0]), body.unique("goes_on"))
        for k in carried:
            body.output(cast(body, results[k], g.dtype(inputs[k])), body.unique("result"))
        for state in states:
            body.output(state.read(body), body.unique("variable_next"))
    starts = [*(inputs[k] for k in carried), *befores]
    found = g.Loop(None, start, *starts, body=body, outputs=len(starts)) if starts else []
    found = found if isinstance(found, list) else [found]
    outputs = list(inputs)
    for k, value, state in zip(carried, found, body.graph.outputs[1:], strict=False):
        shape = None if inner[k].shape is None else g.shape(inner[k])
        outputs[k] = g.facts(value, state.dtype, shape)
    for state, value, before in zip(states, found[len(carried) :], befores, strict=True):
        state.write(g, g.facts(value, before.dtype, known_dims(before)))
    return outputs


def _check_input_count(region: Any, inputs: tuple[ir.Value, ...]) -> None:
    if len(region.subgraph.inputs) != len(inputs):
        raise BadInput(f"a subgraph of {len(region.subgraph.inputs)} inputs is called with {len(inputs)}")


def _scalar_condition(g: Graph, value: ir.Value) -> ir.Value:
    if value.dtype != ir.DataType.BOOL:
        raise Unsupported("a condition that is no boolean")
    return g.Reshape(value, np.array([], np.int64)) if value.shape is None or len(value.shape) else value


def _invariant_dims(g: Graph, value: ir.Value, stated: tuple[int | None, ...]) -> list[Dim] | None:
    """Return the dims of a state that hold in every iteration: those on which the file and the first iteration
    agree.
    """
    if value.shape is None:
        return None
    dims = g.shape(value)
    if len(stated) != len(dims):
        return None
    return [d if isinstance(s, int) and d == s else d if isinstance(d, str) and s is None else None
            for d, s in zip(dims, stated, strict=True)]  # fmt: skip
