"""Branches, loops and calls of subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput, Unsupported
from convert.graph import Dim, Graph

from ...common.lazy_reshape import cast
from ...ops.control import merge_branch_facts
from ..rules import AS_STORED, tflite_op

AS_STORED.update(("IF", "WHILE"))


@tflite_op("IF")
def if_(
    g: Graph, condition: ir.Value, *inputs: ir.Value, then_subgraph_index: Any, else_subgraph_index: Any
) -> list[ir.Value]:
    bodies = [g.body("then"), g.body("else")]
    for region, body in zip((then_subgraph_index, else_subgraph_index), bodies, strict=True):
        _check_input_count(region, inputs)
        for value in region(body, *inputs):
            body.output(value, body.unique("result"))
    sides = [body.graph.outputs for body in bodies]
    if len(sides[0]) != len(sides[1]):
        raise BadInput("branches with different numbers of results")
    condition = g.Squeeze(condition) if condition.shape is not None and len(condition.shape) else condition
    outputs = g.If(condition, then_branch=bodies[0], else_branch=bodies[1], outputs=len(sides[0]))
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return [merge_branch_facts(g, value, a, b) for value, a, b in zip(outputs, *sides, strict=True)]


@tflite_op("WHILE")
def while_(g: Graph, *inputs: ir.Value, cond_subgraph_index: Any, body_subgraph_index: Any) -> list[ir.Value]:
    """What a round passes on untouched stays outside of the ONNX Loop."""
    for region in (cond_subgraph_index, body_subgraph_index):
        _check_input_count(region, inputs)
    inner_graph = body_subgraph_index.subgraph
    carried = [k for k, (a, b) in enumerate(zip(inner_graph.inputs, inner_graph.outputs, strict=True)) if a != b]
    start = _scalar_condition(g, cond_subgraph_index(g, *inputs)[0])
    body = g.body("round")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("going", ir.DataType.BOOL, [])
    inner: list[ir.Value] = list(inputs)
    for k in carried:
        tensor = inner_graph.tensors[inner_graph.inputs[k]]
        inner[k] = body.input("state", g.dtype(inputs[k]), _invariant_dims(g, inputs[k], tensor.shape))
    results = body_subgraph_index(body, *inner)
    after = [results[k] if k in carried else inputs[k] for k in range(len(inputs))]
    body.output(_scalar_condition(body, cond_subgraph_index(body, *after)[0]), body.unique("goes_on"))
    for k in carried:
        body.output(cast(body, results[k], g.dtype(inputs[k])), body.unique("result"))
    states = [inputs[k] for k in carried]
    found = g.Loop(None, start, *states, body=body, outputs=len(carried)) if carried else []
    outputs = list(inputs)
    for k, value, state in zip(carried, found if isinstance(found, list) else [found], body.graph.outputs[1:],
                               strict=True):  # fmt: skip
        shape = None if inner[k].shape is None else g.shape(inner[k])
        outputs[k] = g.facts(value, state.dtype, shape)
    return outputs


def _check_input_count(region: Any, inputs: tuple[ir.Value, ...]) -> None:
    if len(region.subgraph.inputs) != len(inputs):
        raise BadInput(f"a subgraph of {len(region.subgraph.inputs)} inputs is called with {len(inputs)}")


def _scalar_condition(g: Graph, value: ir.Value) -> ir.Value:
    if value.dtype != ir.DataType.BOOL:
        raise Unsupported("a condition that is no boolean")
    return g.Reshape(value, np.array([], np.int64)) if value.shape is None or len(value.shape) else value


def _invariant_dims(g: Graph, value: ir.Value, stated: tuple[int | None, ...]) -> list[Dim] | None:
    """The dims of a state that hold in every round: those on which the file and the first round agree."""
    if value.shape is None:
        return None
    dims = g.shape(value)
    if len(stated) != len(dims):
        return None
    return [d if isinstance(s, int) and d == s else d if isinstance(d, str) and s is None else None
            for d, s in zip(dims, stated, strict=True)]  # fmt: skip
