"""Loops over elementwise states that run until every element has converged."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph

STEPS = 100_000
"""More steps than orders of 1e8 need; a loop ends as soon as all its elements have converged."""


def loop_body(g: Graph, like_this: ir.Value, states: int) -> tuple[Graph, ir.Value, list[ir.Value]]:
    """Return the body of a loop, its iteration number, and its states, all with the shape of `like_this`."""
    body = g.body("loop")
    number = body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    return body, number, [body.input("state", g.dtype(like_this), g.shape(like_this)) for _ in range(states)]


def run_until_converged(
    g: Graph, body: Graph, far: ir.Value, results: list[ir.Value], starts: list[ir.Value]
) -> list[ir.Value]:
    """Return the states after the last step. The loop continues while any element of `far` is true."""
    again = body.ReduceMax(body.Cast(far, to=ir.DataType.INT32), keepdims=0)
    body.output(body.Cast(again, to=ir.DataType.BOOL), body.unique("again"))
    for value in results:
        body.output(value, body.unique("result"))
    found = g.Loop(g.const(STEPS), g.const(True), *starts, body=body, outputs=len(starts))
    found = found if isinstance(found, list) else [found]
    return [g.facts(v, g.dtype(s), g.shape(s)) for v, s in zip(found, starts, strict=True)]
