"""Class probabilities from the probabilities of each pair of classes, as in libsvm's support vector machines.

Wu, Lin and Weng 2004, "Probability Estimates for Multi-class Classification by Pairwise Coupling", algorithm 2. The
stopping criterion affects the results; it follows libsvm and ONNX Runtime: 0.005 divided by the number of classes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

_STEPS = 100
_STEPS_OF_TWO = 3
"""Two classes need at most 2 steps: measured for 400,000 probabilities of the first from 1e-7 to 1 - 1e-7."""


def coupled_probabilities(g: Graph, shares: ir.Value, others: ir.Value, count: int) -> ir.Value:
    """Return float32 probabilities [rows, classes] from those of the two classes of each pair [rows, pairs].

    Uses a Loop, except for two classes, which need few steps.
    """
    first, second = np.triu_indices(count, 1)
    place = np.full((count, count), 2 * len(first))  # the index of the zeros
    place[first, second], place[second, first] = np.arange(len(first)), np.arange(len(first)) + len(first)
    zero = g.Mul(g.Slice(shares, [0], [1], [1]), 0.0)
    matrix = g.Gather(g.Concat(shares, others, zero, axis=1), place.T.copy(), axis=1)
    weights = g.ReduceSum(g.Mul(matrix, matrix), [2], keepdims=0)
    products = g.Neg(g.Mul(matrix, g.Transpose(matrix, perm=[0, 2, 1])))
    products = g.Add(products, g.Mul(g.Unsqueeze(weights, [2]), np.eye(count, dtype=np.float32)))
    start = g.Add(g.Mul(weights, 0.0), np.full(count, 1 / count, np.float32))
    if count == 2:
        for _ in range(_STEPS_OF_TWO):
            start, _ = _step(g, start, products, weights, count)
        return start
    body = g.body("loop")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    now = body.input("state", g.dtype(start), g.shape(start))
    after, far = _step(body, now, products, weights, count)
    again = body.ReduceMax(body.Cast(far, to=ir.DataType.INT32), keepdims=0)
    body.output(body.Cast(again, to=ir.DataType.BOOL), body.unique("again"))
    body.output(after, body.unique("result"))
    return g.facts(g.Loop(_STEPS, g.const(True), start, body=body), g.dtype(start), g.shape(start))


def _step(g: Graph, now: ir.Value, products: ir.Value, weights: ir.Value, count: int) -> tuple[ir.Value, ir.Value]:
    """Update one class after the other; return the probabilities, and which rows have not converged (`far`).

    Rows that have converged stay unchanged.
    """
    toward = g.Squeeze(g.MatMul(products, g.Unsqueeze(now, [2])), [2])
    total = g.ReduceSum(g.Mul(now, toward), [1], keepdims=1)
    error = g.ReduceMax(g.Abs(g.Sub(toward, total)), [1], keepdims=1)
    far = g.GreaterOrEqual(error, np.float32(0.005) / np.float32(count))
    after = now
    for place in range(count):
        here, weight = (g.Slice(v, [place], [place + 1], [1]) for v in (toward, weights))
        change = g.Div(g.Sub(total, here), weight)
        by = g.Add(change, 1.0)
        after = g.Div(g.Add(after, g.Mul(change, np.eye(count, dtype=np.float32)[place])), by)
        total = g.Div(g.Div(g.Add(total, g.Mul(change, g.Add(g.Mul(change, weight), g.Mul(here, 2.0)))), by), by)
        row = g.Gather(products, np.int64(place), axis=1)
        toward = g.Div(g.Add(toward, g.Mul(change, row)), by)
    return g.Where(far, after, now), far
