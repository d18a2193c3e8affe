"""Complex numbers as pairs of real tensors, which ONNX has arithmetic for, with infinities and signed zeros as in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph


@dataclass(frozen=True)
class Complex:
    """A complex tensor: two real tensors of the same shape."""

    real: ir.Value
    imag: ir.Value

    @property
    def dtype(self) -> ir.DataType:
        """COMPLEX64 or COMPLEX128."""
        return ir.DataType.COMPLEX128 if self.real.dtype == ir.DataType.DOUBLE else ir.DataType.COMPLEX64

    @property
    def shape(self) -> ir.Shape | None:
        """The shape of both parts."""
        return self.real.shape


def stack_parts(g: Graph, z: Complex) -> ir.Value:
    """Return a complex tensor in the form of the graph: real and imaginary part in a last dim of 2."""
    return g.Concat(g.Unsqueeze(z.real, [-1]), g.Unsqueeze(z.imag, [-1]), axis=-1)


def split_parts(g: Graph, pair: ir.Value) -> Complex:
    """Return the complex tensor for a tensor of this form."""
    return Complex(g.Gather(pair, np.int64(0), axis=-1), g.Gather(pair, np.int64(1), axis=-1))


def length_of(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return √(a² + b²), computed by dividing by the larger of the two, so that large numbers do not overflow."""
    a, b = g.Abs(a), g.Abs(b)
    large, small = g.Max(a, b), g.Min(a, b)
    zero, one = _number(g, 0.0, a), _number(g, 1.0, a)
    ratio = g.Div(small, g.Where(g.Equal(large, zero), one, large))
    length = g.Mul(large, g.Sqrt(g.Add(one, g.Mul(ratio, ratio))))
    infinite = g.Or(g.IsInf(a), g.IsInf(b))  # infinity even if the other part is NaN, as in C
    return g.Where(infinite, _number(g, np.inf, a), length)


def arctangent(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    """Return atan(y / x) in the right quadrant: half a turn further for negative x, a quarter turn for x = 0; signed
    zeros as in C.

    If both are infinite, the result is on a diagonal.
    """
    diagonal = g.And(g.IsInf(x), g.IsInf(y))
    x, y = (g.Where(diagonal, g.Sign(v), v) for v in (x, y))
    zero, one, pi, quarter = (_number(g, n, x) for n in (0.0, 1.0, 3.141592653589793, 1.5707963267948966))
    above = g.Equal(x, zero)
    upright = g.And(above, g.Greater(g.Abs(y), zero))  # False for NaN
    angle = g.Atan(g.Div(y, g.Where(above, one, x)))
    turned = g.Add(angle, g.Where(is_negative(g, y), g.Neg(pi), pi))
    angle = g.Where(is_negative(g, x), turned, angle)
    return g.Where(upright, g.Mul(g.Sign(y), quarter), angle)


def is_negative(g: Graph, x: ir.Value) -> ir.Value:
    """Return whether the sign bit is set, also for zeros."""
    zero = _number(g, 0.0, x)
    return g.Less(g.Where(g.Equal(x, zero), g.Div(_number(g, 1.0, x), x), x), zero)


def _number(g: Graph, number: float, like: ir.Value) -> ir.Value:
    return g.const(number, g.dtype(like))


def multiply_by(g: Graph, run: Callable[[Sequence[Any]], list[Any]], x: Complex, y: Complex) -> Complex:
    """Return the product of complex tensors, computed with `run`, a product of real tensors."""
    ((rr,), (ii,), (ri,), (ir_,)) = (
        run([a, b]) for a, b in ((x.real, y.real), (x.imag, y.imag), (x.real, y.imag), (x.imag, y.real))
    )
    return Complex(g.Sub(rr, ii), g.Add(ri, ir_))


def product(g: Graph, x: Complex, y: Complex) -> Complex:
    """The product."""
    return multiply_by(g, lambda pair: [g.Mul(*pair)], x, y)


def square(g: Graph, x: Complex) -> Complex:
    """The square."""
    return product(g, x, x)


def quotient(g: Graph, x: Complex, y: Complex) -> Complex:
    """x·ȳ / |y|²."""
    size = g.Add(g.Mul(y.real, y.real), g.Mul(y.imag, y.imag))
    real = g.Add(g.Mul(x.real, y.real), g.Mul(x.imag, y.imag))
    imag = g.Sub(g.Mul(x.imag, y.real), g.Mul(x.real, y.imag))
    return Complex(g.Div(real, size), g.Div(imag, size))


def reciprocal(g: Graph, x: Complex) -> Complex:
    """1 / x."""
    size = g.Add(g.Mul(x.real, x.real), g.Mul(x.imag, x.imag))
    return Complex(g.Div(x.real, size), g.Neg(g.Div(x.imag, size)))


def exponential(g: Graph, x: Complex) -> Complex:
    """exp(a + bi) = exp a (cos b + i sin b)."""
    size = g.Exp(x.real)
    return Complex(g.Mul(size, g.Cos(x.imag)), g.Mul(size, g.Sin(x.imag)))


def cosine(g: Graph, x: Complex) -> Complex:
    """cos(a + bi) = cos a cosh b - i sin a sinh b."""
    real = g.Mul(g.Cos(x.real), g.Cosh(x.imag))
    return Complex(real, g.Neg(g.Mul(g.Sin(x.real), g.Sinh(x.imag))))


def sine(g: Graph, x: Complex) -> Complex:
    """sin(a + bi) = sin a cosh b + i cos a sinh b."""
    return Complex(g.Mul(g.Sin(x.real), g.Cosh(x.imag)), g.Mul(g.Cos(x.real), g.Sinh(x.imag)))


def hyperbolic_cosine(g: Graph, x: Complex) -> Complex:
    """cosh(a + bi) = cosh a cos b + i sinh a sin b."""
    return Complex(g.Mul(g.Cosh(x.real), g.Cos(x.imag)), g.Mul(g.Sinh(x.real), g.Sin(x.imag)))


def hyperbolic_sine(g: Graph, x: Complex) -> Complex:
    """sinh(a + bi) = sinh a cos b + i cosh a sin b."""
    return Complex(g.Mul(g.Sinh(x.real), g.Cos(x.imag)), g.Mul(g.Cosh(x.real), g.Sin(x.imag)))


def logarithm(g: Graph, x: Complex) -> Complex:
    """log z = log |z| + i arg z."""
    return Complex(g.Log(length_of(g, x.real, x.imag)), arctangent(g, x.imag, x.real))


def logarithm_plus_one(g: Graph, x: Complex, real_function: Callable[[Graph, ir.Value], ir.Value]) -> Complex:
    """Return log(1 + a + bi), whose real part is log1p(a (2 + a) + b²) / 2 near 0; `real_function` computes log1p."""
    one, two, half = (_number(g, n, x.real) for n in (1.0, 2.0, 0.5))
    above = g.Add(x.real, one)
    near = g.Add(g.Mul(x.real, g.Add(x.real, two)), g.Mul(x.imag, x.imag))
    small = g.Less(g.Max(g.Abs(x.real), g.Abs(x.imag)), half)
    real = g.Where(small, g.Mul(real_function(g, near), half), g.Log(length_of(g, above, x.imag)))
    return Complex(real, arctangent(g, x.imag, above))


def sigmoid(g: Graph, x: Complex) -> Complex:
    """1 / (1 + exp(-z))."""
    found = exponential(g, Complex(g.Neg(x.real), g.Neg(x.imag)))
    return reciprocal(g, Complex(g.Add(found.real, _number(g, 1.0, x.real)), found.imag))


def angle_of_pair(g: Graph, y: Complex, x: Complex) -> Complex:
    """Return atan2 of complex numbers as XLA defines it: -i log((x + iy) / √(x² + y²))."""
    above = Complex(g.Sub(x.real, y.imag), g.Add(x.imag, y.real))
    first, second = square(g, x), square(g, y)
    below = root(g, Complex(g.Add(first.real, second.real), g.Add(first.imag, second.imag)))
    found = logarithm(g, quotient(g, above, below))
    return Complex(found.imag, g.Neg(found.real))


def larger(g: Graph, x: Complex, y: Complex) -> Complex:
    """Return the larger one, compared by real parts, then by imaginary parts."""
    return _chosen(g, _is_greater(g, x, y), x, y)


def smaller(g: Graph, x: Complex, y: Complex) -> Complex:
    """Return the smaller one, compared by real parts, then by imaginary parts."""
    return _chosen(g, _is_greater(g, y, x), x, y)


def _is_greater(g: Graph, x: Complex, y: Complex) -> ir.Value:
    same = g.And(g.Equal(x.real, y.real), g.Greater(x.imag, y.imag))
    return g.Or(g.Greater(x.real, y.real), same)


def _chosen(g: Graph, first: ir.Value, x: Complex, y: Complex) -> Complex:
    return Complex(g.Where(first, x.real, y.real), g.Where(first, x.imag, y.imag))


def root(g: Graph, x: Complex) -> Complex:
    """Return the root of z with a non-negative real part: with t = √((|a| + |z|) / 2) it is t + i b/2t, and for a < 0
    it is |b|/2t ± i t.
    """
    half, zero = g.const(0.5, g.dtype(x.real)), g.const(0, g.dtype(x.real))
    t = g.Sqrt(g.Mul(g.Add(g.Abs(x.real), length_of(g, x.real, x.imag)), half))
    other = g.Where(g.Greater(t, zero), g.Div(g.Mul(x.imag, half), t), zero)
    right, up = g.GreaterOrEqual(x.real, zero), g.GreaterOrEqual(x.imag, zero)
    return Complex(
        g.Where(right, t, g.Abs(other)),
        g.Where(right, other, g.Where(up, t, g.Neg(t))),
    )


def power(g: Graph, x: Complex, y: Complex) -> Complex:
    """Return exp(y log x), and 0 if x is 0, whose logarithm has no angle."""
    found = exponential(g, product(g, y, logarithm(g, x)))
    zero = g.const(0, g.dtype(x.real))
    nothing = g.And(g.Equal(x.real, zero), g.Equal(x.imag, zero))
    return Complex(g.Where(nothing, zero, found.real), g.Where(nothing, zero, found.imag))


def reciprocal_root(g: Graph, x: Complex) -> Complex:
    """1 / √x."""
    return reciprocal(g, root(g, x))


def hyperbolic_tangent(g: Graph, x: Complex) -> Complex:
    """Return tanh z with e = exp(-2|a|): (±(1 - e²) + 4i e sin b cos b) / ((1 - e)² + 4e cos² b).

    Nothing overflows, and 1 - e is computed from tanh |a|, which keeps the digits of small numbers.
    """
    one, two, four = (g.const(n, g.dtype(x.real)) for n in (1.0, 2.0, 4.0))
    size = g.Abs(x.real)
    e, tanh = g.Exp(g.Neg(g.Mul(size, two))), g.Tanh(size)
    rest = g.Div(g.Mul(tanh, two), g.Add(tanh, one))
    sine, cosine = g.Sin(x.imag), g.Cos(x.imag)
    turn = g.Mul(g.Mul(e, cosine), four)
    below = g.Add(g.Mul(rest, rest), g.Mul(turn, cosine))
    real = g.Mul(g.Sign(x.real), g.Div(g.Mul(rest, g.Add(e, one)), below))
    return Complex(real, g.Div(g.Mul(turn, sine), below))


def tangent(g: Graph, x: Complex) -> Complex:
    """tan z = -i tanh iz."""
    turned = hyperbolic_tangent(g, Complex(g.Neg(x.imag), x.real))
    return Complex(turned.imag, g.Neg(turned.real))


def exponential_minus_one(g: Graph, x: Complex, real_function: Callable[[Graph, ir.Value], ir.Value]) -> Complex:
    """Return exp(a + bi) - 1 = (exp a - 1) cos b - 2 sin²(b/2) + i exp a sin b; `real_function` computes exp a - 1."""
    half = g.Sin(g.Mul(x.imag, g.const(0.5, g.dtype(x.imag))))
    lower = g.Mul(g.Mul(half, half), g.const(2.0, g.dtype(half)))
    real = g.Sub(g.Mul(real_function(g, x.real), g.Cos(x.imag)), lower)
    return Complex(real, g.Mul(g.Exp(x.real), g.Sin(x.imag)))
