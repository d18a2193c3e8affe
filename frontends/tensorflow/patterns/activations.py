"""Activations that TensorFlow writes as arithmetic, recognized at their last operator: Gelu, HardSwish, Mish, PRelu.

Each function returns the activation's value, or None where the operators before it are something else. All of them are
identities in exact arithmetic; those that ONNX takes a rounded number for (HardSigmoid's sixth) are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from .matching import inputs_of, is_close, operand_pairs, other_operand, scalar_content, single_value


def activation_of_product(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """The activation that ends in a·b; `a` or `b` itself where the other is the number one."""
    return _drop_unit_scale(g, a, b) or gelu(g, a, b) or hard_swish(g, a, b) or mish(g, a, b)


def gelu(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Gelu for a·b: ½x·(1 + erf(x / √2)), ½x·erfc(-x / √2), or ½x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).

    The half may also stand with the curve, or behind both.
    """
    found = (_gelu(g, x, curve) for x, curve in _half_products(a, b))
    return next((y for y in found if y is not None), None)


def _half_products(a: ir.Value, b: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Every reading of a·b as ½·x·curve."""
    for left, right in ((a, b), (b, a)):
        if (x := other_operand(left, "Mul", 0.5)) is not None:
            yield x, right
        if (curve := other_operand(right, "Mul", 0.5)) is not None:
            yield left, curve
        if is_close(scalar_content(right), 0.5):
            yield from operand_pairs(left, "Mul")


def _gelu(g: Graph, x: ir.Value, curve: ir.Value) -> ir.Value | None:
    """Gelu for ½·x·curve."""
    if _is_complement(curve, x):
        return g.Gelu(x)
    inner = other_operand(curve, "Add", 1.0)
    if (erf := inputs_of(inner, "Erf")) and _is_scaled(erf[0], x, np.sqrt(0.5)):
        return g.Gelu(x)
    if (tanh := inputs_of(inner, "Tanh")) and _is_cubic(tanh[0], x):
        return g.Gelu(x, approximate="tanh")
    return None


def hard_swish(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """HardSwish for x·(min(max(x + 3, 0), 6) / 6)."""
    for x, gate in ((a, b), (b, a)):
        quotient = inputs_of(gate, "Div")
        if quotient and is_close(scalar_content(quotient[1]), 6.0) and _is_gate(quotient[0], x):
            return g.HardSwish(x)
    return None


def hard_swish_of_quotient(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """HardSwish for x·min(max(x + 3, 0), 6) / 6, which is a / b."""
    if not is_close(scalar_content(b), 6.0):
        return None
    return next((g.HardSwish(x) for x, gate in operand_pairs(a, "Mul") if _is_gate(gate, x)), None)


def mish(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """Mish for x·tanh(softplus(x))."""
    for x, curve in ((a, b), (b, a)):
        if single_value(inputs_of(single_value(inputs_of(curve, "Tanh")), "Softplus")) is x:
            return g.Mish(x)
    return None


def selu(g: Graph, condition: ir.Value, above: ir.Value, below: ir.Value) -> ir.Value | None:
    """Selu for λx where x > 0, else λα·(eˣ - 1), as TensorFlow Lite has it: it stores both numbers in float32 too."""
    sides = inputs_of(condition, "Greater")
    if (
        len(sides) != 2
        or scalar_content(sides[1]) != 0.0
        or other_operand(above, "Mul", 1.0507009873554805) is not sides[0]
    ):
        return None
    curve = inputs_of(other_operand(below, "Mul", 1.7580993408473766), "Sub")
    grown = single_value(inputs_of(curve[0], "Exp")) if curve and scalar_content(curve[1]) == 1.0 else None
    return g.Selu(sides[0]) if grown is sides[0] else None


def softplus(g: Graph, x: ir.Value) -> ir.Value | None:
    """Softplus for the logarithm of x = 1 + eᵗ. (Where eᵗ overflows, the logarithm is infinite and Softplus is t.)"""
    inner = single_value(inputs_of(other_operand(x, "Add", 1.0), "Exp"))
    return None if inner is None else g.Softplus(inner)


def prelu(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """PRelu for relu(x) + (-α)·relu(-x) with a constant α, which is how Keras writes it."""
    for positive, negative in ((a, b), (b, a)):
        x = single_value(inputs_of(positive, "Relu"))
        for slope, part in operand_pairs(negative, "Mul"):
            alpha, flipped = single_value(inputs_of(slope, "Neg")), single_value(inputs_of(part, "Relu"))
            if x is None or alpha is None or alpha.const_value is None or x.shape is None:
                continue
            if single_value(inputs_of(flipped, "Neg")) is x and len(alpha.const_value.shape) <= len(x.shape):
                return g.PRelu(x, alpha)
    return None


def _drop_unit_scale(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value | None:
    """x for x·1: `tf.nn.silu` multiplies by a β of one."""
    for x, one in ((a, b), (b, a)):
        if scalar_content(one) == 1.0 and x.shape is not None and len(x.shape) >= g.rank(one) and x.dtype == one.dtype:
            return x
    return None


def _is_gate(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is x + 3, clipped to 0 and 6."""
    clipped = inputs_of(value, "Clip")
    return (
        len(clipped) == 3
        and scalar_content(clipped[1]) == 0.0
        and scalar_content(clipped[2]) == 6.0
        and other_operand(clipped[0], "Add", 3.0) is x
    )


def _is_scaled(value: ir.Value, x: ir.Value, factor: float) -> bool:
    """Whether `value` is x·factor, or x divided by its inverse."""
    quotient = inputs_of(value, "Div")
    if quotient and quotient[0] is x:
        return is_close(scalar_content(quotient[1]), 1 / factor)
    return any(y is x and is_close(scalar_content(constant), factor) for y, constant in operand_pairs(value, "Mul"))


def _is_complement(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is erfc(-x / √2), which is lowered as 1 - erf(-x / √2), and otherwise where that is small."""
    sides = inputs_of(value, "Where")
    difference = inputs_of(sides[2] if sides else value, "Sub")
    erf = inputs_of(difference[1], "Erf") if difference and is_close(scalar_content(difference[0]), 1.0) else []
    if not erf:
        return False
    factors = [y for y, constant in operand_pairs(erf[0], "Mul") if is_close(scalar_content(constant), np.sqrt(0.5))]
    return any(single_value(inputs_of(f, "Neg")) is x for f in factors) or _is_scaled(erf[0], x, -np.sqrt(0.5))


def _is_cubic(value: ir.Value, x: ir.Value) -> bool:
    """Whether `value` is √(2/π)·(x + 0.044715·x³)."""
    total = other_operand(value, "Mul", float(np.sqrt(2 / np.pi)))
    return any(
        linear is x and _power_and_factor(cubic, x) == (3, 0.044715) for linear, cubic in operand_pairs(total, "Add")
    )


def _power_and_factor(value: ir.Value, x: ir.Value, deep: int = 4) -> tuple[int, float]:
    """How often `x` is a factor of a product, and the number beside it; not a number where there is anything else."""
    constant, power, parts = scalar_content(value), inputs_of(value, "Pow"), inputs_of(value, "Mul")
    if value is x:
        return 1, 1.0
    if constant is not None:
        return 0, constant
    if power and power[0] is x and scalar_content(power[1]) == 3.0:
        return 3, 1.0
    if not parts or not deep:
        return 0, math.nan
    counts, numbers = zip(*(_power_and_factor(part, x, deep - 1) for part in parts), strict=True)
    return sum(counts), math.prod(numbers)
