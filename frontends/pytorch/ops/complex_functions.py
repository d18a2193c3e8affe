"""Functions of complex tensors: roots and powers, exponentials, sums along a dim, and indexing."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from convert.graph import Graph

from ..common.complexes import PREFIX, ComplexPair, pair_of, parts_of, promote_to_pairs
from ..common.sizes import axis_of, static_sizes
from ..common.values import constant_like, torch_dtype
from ..rules import torch_op
from .arithmetic import atan2
from .complex import _part_by_part_rule, abs_, eq, exp, mul, reciprocal, where
from .reduce import vector_norm
from .unary import signbit

# -- roots, logarithms and powers -------------------------------------------------------------------------------------


@torch_op("complex::sqrt")
def sqrt(g, x):
    """Return the root with positive real part, computed from the larger of its parts.

    With t = √((|a| + r) / 2) and s = |b| / (2t), its parts are t and s for a ≥ 0, else s and t. The imaginary part has
    the sign of b.
    """
    zero, two = constant_like(g, 0.0, x.real), constant_like(g, 2.0, x.real)
    large = g.Sqrt(g.Div(g.Add(g.Abs(x.real), abs_(g, x)), two))
    none = g.Equal(large, zero)
    small = g.Div(g.Abs(x.imag), g.Mul(two, g.Where(none, constant_like(g, 1.0, large), large)))
    right = g.GreaterOrEqual(x.real, zero)
    imag = g.Where(right, small, large)
    return ComplexPair(g.Where(right, large, small), g.Where(signbit(g, x.imag), g.Neg(imag), imag))


@torch_op("complex::rsqrt")
def rsqrt(g, x):
    return reciprocal(g, sqrt(g, x))


@torch_op("complex::log")
def log(g, x):
    return ComplexPair(g.Log(abs_(g, x)), atan2(g, x.imag, x.real))


@torch_op("complex::square")
def square(g, x):
    return mul(g, x, x)


@torch_op("complex::pow")
def pow_(g, x, exponent):
    """Return a product for a small integer exponent, as PyTorch does for 2 and 3; else exp(exponent log x).

    For x = 0 it is 0, infinite or NaN by the sign of the exponent's real part; anything to the power of the number 0 is
    1.
    """
    if isinstance(exponent, (int, float)) and exponent == int(exponent) and 1 <= abs(exponent) <= _MOST_FACTORS:
        power = functools.reduce(lambda a, b: mul(g, a, b), [x] * abs(int(exponent)))
        return power if exponent > 0 else reciprocal(g, power)
    if exponent == 0.5:
        return sqrt(g, x)
    base, by = promote_to_pairs(g, x, exponent)
    zero, one, infinite, nan = (constant_like(g, n, base.real) for n in (0.0, 1.0, math.inf, math.nan))
    none = g.And(g.Equal(base.real, zero), g.Equal(base.imag, zero))
    power = exp(g, mul(g, by, log(g, ComplexPair(g.Where(none, one, base.real), base.imag))))
    if isinstance(exponent, (int, float, complex)) and exponent == 0:
        real, imag = one, zero
    else:
        positive = g.Greater(by.real, zero)
        real = g.Where(positive, zero, g.Where(g.Less(by.real, zero), infinite, nan))
        imag = g.Where(positive, zero, nan)
    return ComplexPair(g.Where(none, real, power.real), g.Where(none, imag, power.imag))


_MOST_FACTORS = 4


@torch_op("complex::sgn")
def sgn(g, x):
    """x / |x|, and 0 for 0."""
    length = abs_(g, x)
    length = g.Where(g.Equal(length, constant_like(g, 0.0, length)), constant_like(g, 1.0, length), length)
    return ComplexPair(g.Div(x.real, length), g.Div(x.imag, length))


# -- circular and hyperbolic functions --------------------------------------------------------------------------------


@torch_op("complex::sin")
def sin(g, x):
    a, b = x.real, x.imag
    return ComplexPair(g.Mul(g.Sin(a), g.Cosh(b)), g.Mul(g.Cos(a), g.Sinh(b)))


@torch_op("complex::cos")
def cos(g, x):
    a, b = x.real, x.imag
    return ComplexPair(g.Mul(g.Cos(a), g.Cosh(b)), g.Neg(g.Mul(g.Sin(a), g.Sinh(b))))


@torch_op("complex::sinh")
def sinh(g, x):
    a, b = x.real, x.imag
    return ComplexPair(g.Mul(g.Sinh(a), g.Cos(b)), g.Mul(g.Cosh(a), g.Sin(b)))


@torch_op("complex::cosh")
def cosh(g, x):
    a, b = x.real, x.imag
    return ComplexPair(g.Mul(g.Cosh(a), g.Cos(b)), g.Mul(g.Sinh(a), g.Sin(b)))


@torch_op("complex::tanh")
def tanh(g, x):
    """tanh(a + bi) = (t + sin b cos b (1 - t²) i) / (cos² b + t² sin² b) with t = tanh a.

    1 - t² is computed as 1 / cosh² a.
    """
    t, s, c = g.Tanh(x.real), g.Sin(x.imag), g.Cos(x.imag)
    rest = g.Reciprocal(g.Cosh(x.real))
    below = g.Add(g.Mul(c, c), g.Mul(g.Mul(t, t), g.Mul(s, s)))
    return ComplexPair(g.Div(t, below), g.Div(g.Mul(g.Mul(s, c), g.Mul(rest, rest)), below))


@torch_op("complex::sigmoid")
def sigmoid(g, x):
    grown = exp(g, ComplexPair(g.Neg(x.real), g.Neg(x.imag)))
    return reciprocal(g, ComplexPair(g.Add(grown.real, constant_like(g, 1.0, grown.real)), grown.imag))


# -- along a dim ------------------------------------------------------------------------------------------------------


@torch_op("complex::prod")
def prod(g, x, *, dtype=None):
    return prod_dim(g, ComplexPair(*(g.Reshape(part, [-1]) for part in parts_of(x))), 0)


@torch_op("complex::prod.dim_int")
def prod_dim(g, x, dim, keepdim=False, *, dtype=None):
    axis = axis_of(g, x.real, dim)
    (length,) = static_sizes([g.shape(x.real)[axis]], "a product of complex numbers along a dim of unknown length")
    rows = [ComplexPair(*(g.Gather(part, i, axis=axis) for part in parts_of(x))) for i in range(length)]
    total = functools.reduce(lambda a, b: mul(g, a, b), rows)
    return ComplexPair(*(g.Unsqueeze(part, [axis]) for part in parts_of(total))) if keepdim else total


@torch_op("complex::linalg_vector_norm")
def linalg_vector_norm(g, x, ord=2, dim=None, keepdim=False, *, dtype=None):
    return vector_norm(g, abs_(g, x), ord, dim, keepdim)


# -- comparisons ------------------------------------------------------------------------------------------------------


@torch_op("complex::ne")
def ne(g, x, y):
    return g.Not(eq(g, x, y))


@torch_op("complex::isfinite")
def isfinite(g, x):
    plain = torch_op.entries["isfinite"].rule
    return g.And(plain(g, x.real), plain(g, x.imag))


@torch_op("complex::isinf")
def isinf(g, x):
    return g.Or(g.IsInf(x.real), g.IsInf(x.imag))


@torch_op("complex::masked_fill")
def masked_fill(g, x, mask, value):
    return where(g, mask, pair_of(g, value, torch_dtype(g, x.real)), x)


# -- elements ---------------------------------------------------------------------------------------------------------

for _name in (
    "cumsum",
    "diag_embed",
    "gather",
    "index",
    "masked_select",
    "repeat_interleave.self_int",
    "tril",
    "triu",
    "unfold",
):
    torch_op(PREFIX + _name)(_part_by_part_rule(_name))


def _written_part_rule(operator: str, place: int) -> Callable[..., Any]:
    """Return a rule that writes both parts of the argument at `place` after the tensor into both parts of a complex
    tensor.
    """

    def rule(g: Graph, x: Any, *args: Any, **kwargs: Any) -> Any:
        plain, source = torch_op.entries[operator].rule, args[place]

        def written(part: ir.Value, content: Any) -> Any:
            return plain(g, part, *args[:place], content, *args[place + 1 :], **kwargs)

        if not isinstance(x, ComplexPair):
            return written(x, source.real)
        pair = pair_of(g, source, torch_dtype(g, x.real))
        return ComplexPair(written(x.real, pair.real), written(x.imag, pair.imag))

    return rule


for _name, _place in (("index_put", 1), ("index_add", 2), ("index_copy", 2), ("scatter", 2), ("scatter_add", 2)):
    torch_op(PREFIX + _name)(_written_part_rule(_name, _place))
