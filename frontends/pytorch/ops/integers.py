"""Greatest common divisors and least common multiples."""

from __future__ import annotations

import onnx_ir as ir

from convert.graph import Graph

from ..common.values import constant_like, promote_operands
from ..rules import torch_op

# Euclid's algorithm halves the numbers at least every second step.
_STEPS = 128


@torch_op("gcd")
def gcd(g, x, y):
    return _greatest_common_divisor(g, *promote_operands(g, x, y))


@torch_op("lcm")
def lcm(g, x, y):
    a, b = promote_operands(g, x, y)
    divisor = _greatest_common_divisor(g, a, b)
    none = g.Equal(divisor, constant_like(g, 0, a))
    return g.Abs(g.Mul(g.Div(a, g.Where(none, constant_like(g, 1, a), divisor)), b))


def _greatest_common_divisor(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the greatest common divisor of the absolute values by Euclid's algorithm."""
    shape = g.Shape(g.Add(a, b))
    a, b = g.Expand(g.Abs(a), shape), g.Expand(g.Abs(b), shape)
    body = g.body("loop")
    body.input("iteration", ir.DataType.INT64, [])
    body.input("condition", ir.DataType.BOOL, [])
    large, small = (body.input("state", g.dtype(a), g.shape(a)) for _ in range(2))
    done = body.Equal(small, constant_like(body, 0, small))
    rest = body.Mod(large, body.Where(done, constant_like(body, 1, small), small))
    left = body.Not(body.Equal(body.Where(done, small, rest), constant_like(body, 0, small)))
    again = body.ReduceMax(body.Cast(left, to=ir.DataType.INT32), keepdims=0)
    body.output(body.Cast(again, to=ir.DataType.BOOL), body.unique("again"))
    body.output(body.Where(done, large, small), body.unique("result"))
    body.output(body.Where(done, small, rest), body.unique("result"))
    found = g.Loop(g.const(_STEPS), g.const(True), a, b, body=body, outputs=2)
    return g.facts(found[0], g.dtype(a), g.shape(a))
