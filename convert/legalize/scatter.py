"""Scatters with a reduction (add, mul, max, min), applied one update after the other; and operators that scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_OPERATORS = {"add": "Add", "mul": "Mul", "max": "Max", "min": "Min"}
_UNROLLED = 4
"""Maximum number of steps that are unrolled; more steps become a Loop."""

Step = Callable[[Graph, ir.Value, ir.Value], ir.Value]


def scatter_elements(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """ScatterElements: one step for each index along the axis, so that no step writes to a position twice."""
    if (found := _reduced(node)) is None:
        return None
    data, indices, updates, operator = found
    axis = node.attributes.get_int("axis", 0) % g.rank(data)

    def step(body: Graph, number: ir.Value, old: ir.Value) -> ir.Value:
        places, given = (body.Gather(x, body.Reshape(number, np.array([1])), axis=axis) for x in (indices, updates))
        current = body.GatherElements(old, places, axis=axis)
        new = body.node(operator, [current, given])
        return body.ScatterElements(old, places, new, axis=axis)

    return [_repeated(g, data, g.shape(indices)[axis], lambda: g.Gather(g.Shape(indices), np.int64(axis)), step)]


def scatter_nd(g: Graph, node: ir.Node) -> Sequence[ir.Value] | None:
    """ScatterND: one step for each row of the indices, or a single step if they are constant and distinct."""
    if (found := _reduced(node)) is None:
        return None
    data, indices, updates, operator = found
    known = g.static(indices)
    if known is not None and _are_apart(known, g.shape(data)):
        return [g.ScatterND(data, indices, g.node(operator, [g.GatherND(data, indices), updates]))]
    depth, rank = g.shape(indices)[-1], g.rank(data)
    if not isinstance(depth, int):
        return None
    rows = g.Reshape(indices, np.array([-1, depth]))
    dims = g.Slice(g.Shape(data), np.array([depth]), np.array([rank]), np.array([0]))
    given = g.Reshape(updates, g.Concat(np.array([-1]), dims, axis=0))

    def step(body: Graph, number: ir.Value, old: ir.Value) -> ir.Value:
        place = body.Reshape(number, np.array([1]))
        row, new = body.Gather(rows, place, axis=0), body.Gather(given, place, axis=0)
        return body.ScatterND(old, row, body.node(operator, [body.GatherND(old, row), new]))

    return [_repeated(g, data, g.shape(rows)[0], lambda: g.Gather(g.Shape(rows), np.int64(0)), step)]


def tensor_scatter(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """TensorScatter: `update` along `axis` of the cache, from one index per batch element; `circular` wraps around."""
    cache, update, start = [*node.inputs, None][:3]
    assert cache is not None
    assert update is not None
    rank = g.rank(cache)
    axis = node.attributes.get_int("axis", -2) % rank
    size, count = (g.Gather(g.dims(x), np.int64(axis), axis=0) for x in (cache, update))
    places = g.Unsqueeze(g.Range(np.int64(0), count, np.int64(1)), np.array([i for i in range(rank) if i != axis]))
    if start is not None:
        places = g.Add(g.Unsqueeze(g.Cast(start, to=ir.DataType.INT64), np.arange(1, rank)), places)
    if node.attributes.get_string("mode", "linear") == "circular":
        places = g.Mod(places, size)
    return [g.ScatterElements(cache, g.Expand(places, g.dims(update)), update, axis=axis)]


def max_unpool(g: Graph, node: ir.Node) -> Sequence[ir.Value]:
    """MaxUnpool: zeros, with each element of x at its index into the smallest tensor that pools to x.

    A larger output is filled with zeros behind this tensor.
    """
    x, indices, wanted = [*node.inputs, None][:3]
    assert x is not None
    kernel = np.array(node.attributes.get_ints("kernel_shape"))
    rank = len(kernel)
    strides = np.array(node.attributes.get_ints("strides", [1] * rank))
    pads = np.array(node.attributes.get_ints("pads", [0] * 2 * rank)).reshape(2, rank).sum(0)
    dims, outer = g.dims(x), np.array([1, 1])
    scale, more = np.concatenate([outer, strides]), np.concatenate([0 * outer, kernel - pads - strides])
    shape = g.Add(g.Mul(dims, scale), more)
    zeros = g.Expand(g.const(0, g.dtype(x)), g.ReduceProd(shape, np.array([0]), keepdims=1))
    flat = np.array([-1])
    y = g.Reshape(g.ScatterElements(zeros, g.Reshape(indices, flat), g.Reshape(x, flat)), shape)
    if wanted is None:
        return [y]
    missing = g.Sub(g.Cast(wanted, to=ir.DataType.INT64), shape)
    return [g.Pad(y, g.Concat(np.zeros(rank + 2, np.int64), missing, axis=0))]


def _reduced(node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value, str] | None:
    """Return data, indices, updates and the reducing operator; None for a scatter without a reduction."""
    data, indices, updates = node.inputs
    operator = _OPERATORS.get(node.attributes.get_string("reduction", "none"))
    if data is None or indices is None or updates is None or operator is None:
        return None
    return data, indices, updates, operator


def _are_apart(indices: np.ndarray, shape: Sequence[object]) -> bool:
    """Return whether all rows of indices are distinct positions; indices may count from either end of a dim."""
    rows = indices.reshape(-1, indices.shape[-1]).copy()
    for dim, column in zip(shape, rows.T, strict=False):
        negative = column < 0
        if isinstance(dim, int):
            column[negative] += dim
        elif negative.any() and not negative.all():
            return False
    return len(np.unique(rows, axis=0)) == len(rows)


def _repeated(g: Graph, data: ir.Value, count: object, counted: Callable[[], ir.Value], step: Step) -> ir.Value:
    """Return `data` after `count` steps."""
    if isinstance(count, int) and count <= _UNROLLED:
        for i in range(count):
            data = step(g, g.const(np.int64(i)), data)
        return data
    body = g.body("updates")
    number = body.input("number", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    old = body.input("state", g.dtype(data), g.shape(data))
    new = step(body, number, old)
    body.output(body.Identity(g.const(True)), body.unique("again"))
    body.output(new, body.unique("result"))
    trips = g.const(np.int64(count)) if isinstance(count, int) else counted()
    made = g.Loop(trips, g.const(True), data, body=body)
    return g.facts(made, g.dtype(data), g.shape(data))
