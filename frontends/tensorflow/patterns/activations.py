"""Activations that TensorFlow writes as arithmetic, recognised at their last operator: Gelu, HardSwish, Mish, PRelu.

Each function returns the activation's value, or None where the operators before it are something else. All of them are
identities in exact arithmetic; those that ONNX takes a rounded number for (HardSigmoid's sixth) are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from .matching import close, inputs_of, number, only, other, pairs


def of_product(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """The activation that ends in a·b; `a` or `b` itself where the other is the number one."""
    return _unscaled(g, a, b) or gelu(g, a, b) or hard_swish(g, a, b) or mish(g, a, b)


def gelu(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Gelu for a·b: ½x·(1 + erf(x / √2)), ½x·erfc(-x / √2), or ½x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).

    The half may also stand with the curve, or behind both.
    """
    found = (_gelu(g, x, curve) for x, curve in _halved(a, b))
    return next((y for y in found if y is not None), None)


def _halved(a: ir.Value, b: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Every reading of a·b as ½·x·curve."""
    for left, right in ((a, b), (b, a)):
        if (x := other(left, "Mul", 0.5)) is not None:
            yield x, right
        if (curve := other(right, "Mul", 0.5)) is not None:
            yield left, curve
        if close(number(right), 0.5):
            yield from pairs(left, "Mul")


def _gelu(g: Graph, x: ir.Value, curve: ir.Value) -> ir.Value | None:
    """Gelu for ½·x·curve."""
    if _is_complement(curve, x):
        return g.Gelu(x)
    inner = other(curve, "Add", 1.0)
    if (erf := inputs_of(inner, "Erf")) and _is_scaled(erf[0], x, np.sqrt(0.5)):
        return g.Gelu(x)
    if (tanh := inputs_of(inner, "Tanh")) and _is_cubic(tanh[0], x):
        return g.Gelu(x, approximate="tanh")
    return None


def hard_swish(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """HardSwish for x·(min(max(x + 3, 0), 6) / 6)."""
    for x, gate in ((a, b), (b, a)):
        quotient = inputs_of(gate, "Div")
        if quotient and close(number(quotient[1]), 6.0) and _is_gate(quotient[0], x):
            return g.HardSwish(x)
    return None


def hard_swish_of_quotient(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """HardSwish for x·min(max(x + 3, 0), 6) / 6, which is a / b."""
    if not close(number(b), 6.0):
        return None
    return next((g.HardSwish(x) for x, gate in pairs(a, "Mul") if _is_gate(gate, x)), None)


def mish(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Mish for x·tanh(softplus(x))."""
    for x, curve in ((a, b), (b, a)):
        if only(inputs_of(only(inputs_of(curve, "Tanh")), "Softplus")) is x:
            return g.Mish(x)
    return None


def selu(g: Graph, condition: ir.Value, above: ir.Value, below: ir.Value) -> ir.Value | None:
    """Selu for λx where x > 0, else λα·(eˣ - 1), as TensorFlow Lite has it: it stores both numbers in float32 too."""
    sides = inputs_of(condition, "Greater")
    if len(sides) != 2 or number(sides[1]) != 0.0 or other(above, "Mul", 1.0507009873554805) is not sides[0]:
        return None
    curve = inputs_of(other(below, "Mul", 1.7580993408473766), "Sub")
    grown = only(inputs_of(curve[0], "Exp")) if curve and number(curve[1]) == 1.0 else None
    return g.Selu(sides[0]) if grown is sides[0] else None


def softplus(g: Graph, x: ir.Value) -> ir.Value | None:
    """Softplus for the logarithm of x = 1 + eᵗ. (Where eᵗ overflows, the logarithm is infinite and Softplus is t.)"""
    inner = only(inputs_of(other(x, "Add", 1.0), "Exp"))
    return None if inner is None else g.Softplus(inner)


def prelu(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """PRelu for relu(x) + (-α)·relu(-x) with a constant α, which is how Keras writes it."""
    for positive, negative in ((a, b), (b, a)):
        x = only(inputs_of(positive, "Relu"))
        for slope, part in pairs(negative, "Mul"):
            alpha, flipped = only(inputs_of(slope, "Neg")), only(inputs_of(part, "Relu"))
            if x is None or alpha is None or alpha.const_value is None or x.shape is None:
                continue
            if only(inputs_of(flipped, "Neg")) is x and len(alpha.const_value.shape) <= len(x.shape):
                return g.PRelu(x, alpha)
    return None


def _unscaled(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """x for x·1: `tf.nn.silu` multiplies by a β of one."""
    for x, one in ((a, b), (b, a)):
        if number(one) == 1.0 and x.shape is not None and len(x.shape) >= g.rank(one) and x.dtype == one.dtype:
            return x
    return None


def _is_gate(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is x + 3, clipped to 0 and 6."""
    clipped = inputs_of(value, "Clip")
    return (
        len(clipped) == 3
        and number(clipped[1]) == 0.0
        and number(clipped[2]) == 6.0
        and other(clipped[0], "Add", 3.0) is x
    )


def _is_scaled(value: ir.Value, x: ir.Value, factor: float) -> bool:
    """Whether `value` is x·factor, or x divided by its inverse."""
    quotient = inputs_of(value, "Div")
    if quotient and quotient[0] is x:
        return close(number(quotient[1]), 1 / factor)
    return any(y is x and close(number(constant), factor) for y, constant in pairs(value, "Mul"))


def _is_complement(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is erfc(-x / √2), which is lowered as 1 - erf(-x / √2)."""
    difference = inputs_of(value, "Sub")
    erf = inputs_of(difference[1], "Erf") if difference and close(number(difference[0]), 1.0) else []
    if not erf:
        return False
    factors = [y for y, constant in pairs(erf[0], "Mul") if close(number(constant), np.sqrt(0.5))]
    return any(only(inputs_of(f, "Neg")) is x for f in factors) or _is_scaled(erf[0], x, -np.sqrt(0.5))


def _is_cubic(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is √(2/π)·(x + 0.044715·x³)."""
    total = other(value, "Mul", float(np.sqrt(2 / np.pi)))
    return any(linear is x and _factors(cubic, x) == (3, 0.044715) for linear, cubic in pairs(total, "Add"))


def _factors(value: ir.Value, x: ir.Value, deep: int = 4) -> tuple[int, float]:
    """How often `x` is a factor of a product, and the number beside it; not a number where there is anything else."""
    constant, power, parts = number(value), inputs_of(value, "Pow"), inputs_of(value, "Mul")
    if value is x:
        return 1, 1.0
    if constant is not None:
        return 0, constant
    if power and power[0] is x and number(power[1]) == 3.0:
        return 3, 1.0
    if not parts or not deep:
        return 0, math.nan
    counts, numbers = zip(*(_factors(part, x, deep - 1) for part in parts), strict=True)
    return sum(counts), math.prod(numbers)
