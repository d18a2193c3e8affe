"""Branches and loops as functions: If, Case and While; loop invariants stay outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph

from ..common import shape_values
from ..common.lazy_reshape import cast
from ..common.tensor_lists import TensorList, merge_dims, stack_elements, tensor_list_from_stacked
from ..graph.variables import Variable
from ..loops.whileloop import while_loop
from ..rules import tf_op

Region = Callable[..., list[Any]]


@tf_op("If", "StatelessIf")
def if_(
    g: Graph, cond: ir.Value, input: Sequence[Any], *, then_branch: Region, else_branch: Region, output_shapes: Any
) -> list[Any]:
    """If. ONNX's branches capture what they need. (`output_shapes` follows from the branches.)"""
    return _emit_if(g, _bool_condition(g, cond), [then_branch, else_branch], input)


@tf_op("Case", "StatelessCase")
def case(
    g: Graph, branch_index: ir.Value, input: Sequence[Any], *, branches: Sequence[Region], output_shapes: Any
) -> list[Any]:
    """Case as one If per branch except the last, which also takes every other index."""

    def branch_chain(number: int) -> Region:
        if number == len(branches) - 1:
            return branches[number]

        def build(body: Graph, *arguments: Any) -> list[Any]:
            here = body.Equal(branch_index, body.const(number, branch_index.dtype))
            return _emit_if(body, here, [branches[number], branch_chain(number + 1)], arguments)

        return build

    return branch_chain(0)(g, *input)


@tf_op("While", "StatelessWhile")
def while_(g: Graph, input: Sequence[Any], *, cond: Any, body: Any, output_shapes: Any) -> list[Any]:
    """While. (`output_shapes` are the invariants that the loop was checked against; they hold anyway.)"""
    return while_loop(g, list(input), cond, body)


def _bool_condition(g: Graph, value: ir.Value) -> ir.Value:
    if value.shape is None or len(value.shape):
        raise Unsupported("a condition that is not a scalar")
    if value.dtype == ir.DataType.STRING:
        raise Unsupported("a condition that is a string")
    return cast(g, value, ir.DataType.BOOL)


def _emit_if(g: Graph, condition: ir.Value, regions: Sequence[Region], arguments: Sequence[Any]) -> list[Any]:
    fixed = g.static(condition)
    if fixed is not None:
        return regions[0 if fixed.item() else 1](g, *arguments)
    bodies = [g.body("then"), g.body("else")]
    states = [a for a in arguments if isinstance(a, Variable) and a.state and a.home is g]
    results = [_branch_results(region, body, arguments, states) for region, body in zip(regions, bodies, strict=True)]
    _state_element_dims(results)
    same = [a is b for a, b in zip(*results, strict=True)]
    lists = [isinstance(a, TensorList) for a in results[0]]
    for body, found in zip(bodies, results, strict=True):
        for value, shared in zip(found, same, strict=True):
            if not shared:
                body.output(_require_tensor(body, value), body.unique("result"))
    count = same.count(False)
    outputs = g.If(condition, then_branch=bodies[0], else_branch=bodies[1], outputs=count) if count else []
    left = iter(outputs if isinstance(outputs, list) else [outputs])
    pairs = iter(zip(bodies[0].graph.outputs, bodies[1].graph.outputs, strict=True))
    merged = []
    for value, shared, is_list in zip(results[0], same, lists, strict=True):
        if shared:
            merged.append(value)
            continue
        result = merge_branch_facts(g, next(left), *next(pairs))
        merged.append(tensor_list_from_stacked(g, result) if is_list else result)
    for variable in reversed(states):
        variable.value = merged.pop()
    return merged


def _state_element_dims(results: Sequence[list[Any]]) -> None:
    """Give a list that only one branch writes to the same element dims in the other branch."""
    for k, (a, b) in enumerate(zip(*results, strict=True)):
        if a is not b and isinstance(a, TensorList) and isinstance(b, TensorList):
            results[0][k] = replace(a, element=merge_dims(a.element, b.element)) if a.unwritten else a
            results[1][k] = replace(b, element=merge_dims(b.element, a.element)) if b.unwritten else b


def _branch_results(region: Region, body: Graph, arguments: Sequence[Any], states: Sequence[Variable]) -> list[Any]:
    """Return the results of a branch, followed by the values of the variables that it may change."""
    before = [(variable.read(body), variable.home) for variable in states]
    for variable in states:
        variable.home = body
    results = [*region(body, *arguments), *(variable.read(body) for variable in states)]
    for variable, (value, home) in zip(states, before, strict=True):
        variable.value, variable.home = value, home
    return results


def _require_tensor(body: Graph, value: Any) -> ir.Value:
    if isinstance(value, TensorList):
        return stack_elements(body, value)
    if not isinstance(value, ir.Value):
        raise Unsupported("branches that choose between resources")
    return value


def merge_branch_facts(g: Graph, value: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    """Set the facts of an If's output that both branches agree on."""
    if a.dtype != b.dtype:
        raise Unsupported("branches that give different dtypes")
    g.facts(value, a.dtype)
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape: list[Dim] = [x if x == y else None for x, y in zip(g.shape(a), g.shape(b), strict=True)]
        g.facts(value, shape=shape)
        first, second = shape_values.content(a), shape_values.content(b)
        if first is not None and second is not None and np.array_equal(first, second):
            shape_values.set_content(value, first)
    return value
