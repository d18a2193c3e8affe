"""Higher-order operators: branches, loops and scans over subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from convert.graph import Graph

from ..common.values import as_value
from ..rules import torch_op

Region = Callable[..., list[Any]]


@torch_op("higher_order::cond")
def cond(g, pred, true_graph, false_graph, operands=()):
    """If, whose branches capture their operands."""
    branches = []
    count = 0
    for name, build in (("then_branch", true_graph), ("else_branch", false_graph)):
        body = g.body(name)
        results = build(body, *operands)
        _add_outputs(body, results)
        branches.append(body)
        count = len(results)
    pred = as_value(g, pred, ir.DataType.BOOL)
    return _as_list(g.If(pred, then_branch=branches[0], else_branch=branches[1], outputs=count))


@torch_op("higher_order::while_loop")
def while_loop(g, cond_graph, body_graph, carried_inputs, additional_inputs=()):
    """Loop without a trip count; the condition is computed before it and at the end of every iteration."""
    carried = [_as_tensor(g, x) for x in carried_inputs]
    (first,) = cond_graph(g, *carried, *additional_inputs)
    body = g.body("loop")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    inner = [body.input("state", g.dtype(x), g.shape(x)) for x in carried]
    results = body_graph(body, *inner, *additional_inputs)
    (again,) = cond_graph(body, *results, *additional_inputs)
    _add_outputs(body, [again, *results])
    return _as_list(g.Loop(None, first, *carried, body=body, outputs=len(carried)))


@torch_op("higher_order::scan")
def scan(g, combine_graph, init, xs, additional_inputs=()):
    """Scan over the first dim: states are loop-carried, elements are read and stacked."""
    states = [_as_tensor(g, x) for x in init]
    return _emit_scan(g, lambda body, *values: combine_graph(body, *values, *additional_inputs), states, list(xs))


@torch_op("higher_order::map_impl")
def map_impl(g, f, xs, pos_args=()):
    return _emit_scan(g, lambda body, *values: f(body, *values, *pos_args), [], list(xs))


def _emit_scan(g: Graph, build: Region, states: Sequence[ir.Value], xs: Sequence[ir.Value]) -> list[ir.Value]:
    body = g.body("scan")
    inner = [body.input("state", g.dtype(x), g.shape(x)) for x in states]
    inner += [body.input("element", g.dtype(x), g.shape(x)[1:]) for x in xs]
    results = build(body, *inner)
    _add_outputs(body, results)
    return _as_list(g.Scan(*states, *xs, body=body, num_scan_inputs=len(xs), outputs=len(results)))


def _as_tensor(g: Graph, x: Any) -> ir.Value:
    """Return a state as a tensor: numbers are carried as int64 or float32."""
    return x if isinstance(x, ir.Value) else g.const(x)


def _add_outputs(body: Graph, results: Sequence[Any]) -> None:
    for value in results:
        body.output(_as_tensor(body, value), body.unique("result"))


def _as_list(found: Any) -> list[ir.Value]:
    return found if isinstance(found, list) else [found]


torch_op.gap(
    "reads memory by strides that another tensor shares, or whose sizes are unknown; write it with reshape or indexing",
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
)
torch_op.gap("sparse tensors have no equivalent in the graph", "_to_sparse", "to_sparse", "sparse_coo_tensor")
torch_op.gap("hashes the bytes of a tensor, which ONNX cannot read", "hash_tensor")
