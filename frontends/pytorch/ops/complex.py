"""Operators on complex tensors, represented as pairs of real ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.complexes import (
    PREFIX,
    ComplexPair,
    has_pair,
    pair_of,
    parts_of,
    promote_to_pairs,
    split_parts,
    stack_parts,
)
from ..common.sizes import axis_of, static_sizes
from ..common.values import as_value, cast, constant_like, torch_dtype
from ..rules import torch_op
from .arithmetic import atan2, hypot
from .reduce import vector_norm
from .unary import signbit

# -- in and out -------------------------------------------------------------------------------------------------------


@torch_op("complex")
def complex_(g, real, imag):
    shape = g.Shape(g.Add(real, imag))
    return ComplexPair(g.Expand(real, shape), g.Expand(imag, shape))


@torch_op("polar")
def polar(g, abs, angle):
    return ComplexPair(g.Mul(abs, g.Cos(angle)), g.Mul(abs, g.Sin(angle)))


@torch_op("view_as_complex", "view_as_complex_copy")
def view_as_complex(g, x):
    return split_parts(g, x)


@torch_op("complex::view_as_real", "complex::view_as_real_copy")
def view_as_real(g, x):
    return stack_parts(g, x)


@torch_op("complex::real")
def real(g, x):
    return x.real


@torch_op("complex::imag")
def imag(g, x):
    return x.imag


@torch_op("complex::abs")
def abs_(g, x):
    return hypot(g, x.real, x.imag)


@torch_op("complex::angle")
def angle(g, x):
    return atan2(g, x.imag, x.real)


@torch_op("complex::isnan")
def isnan(g, x):
    return g.Or(g.IsNaN(x.real), g.IsNaN(x.imag))


@torch_op("complex::_to_copy", "complex::to.dtype", "complex::to.device", "complex::to.dtype_layout")
def to(g, x, dtype=None, *, copy=False):
    if dtype is None or dtype.is_complex:
        return x if dtype is None else promote_to_pairs(g, x, _zero(g, dtype))[0]
    return as_value(g, x.real, dtype)


@torch_op("complex::to.other")
def to_other(g, x, other, *, copy=False):
    if not isinstance(other, ComplexPair):
        return cast(g, x.real, g.dtype(other))
    x = promote_to_pairs(g, x)[0]
    return ComplexPair(*(cast(g, part, g.dtype(other.real)) for part in (x.real, x.imag)))


def _zero(g: Graph, dtype: torch.dtype) -> ir.Value:
    return as_value(g, 0.0, torch.float64 if dtype == torch.complex128 else torch.float32)


@torch_op("complex::sym_size")
def sym_size(g, x, dim=None):
    return torch_op.entries["sym_size"].rule(g, x.real, dim)


@torch_op("complex::sym_numel")
def sym_numel(g, x):
    return torch_op.entries["sym_numel"].rule(g, x.real)


# -- arithmetic -------------------------------------------------------------------------------------------------------


@torch_op("complex::_conj", "complex::_conj_physical", "complex::conj_physical")
def conj(g, x):
    return ComplexPair(x.real, g.Neg(x.imag))


@torch_op("complex::add")
def add(g, x, y, *, alpha=1):
    a, b = promote_to_pairs(g, x, y)
    if alpha != 1:
        b = _multiply_pairs(g, b, promote_to_pairs(g, alpha)[0])
    return ComplexPair(g.Add(a.real, b.real), g.Add(a.imag, b.imag))


@torch_op("complex::sub")
def sub(g, x, y, *, alpha=1):
    a, b = promote_to_pairs(g, x, y)
    if alpha != 1:
        b = _multiply_pairs(g, b, promote_to_pairs(g, alpha)[0])
    return ComplexPair(g.Sub(a.real, b.real), g.Sub(a.imag, b.imag))


@torch_op("complex::rsub")
def rsub(g, x, y, alpha=1):
    return sub(g, y, x, alpha=alpha)


def _multiply_pairs(g: Graph, a: ComplexPair, b: ComplexPair, operator: str = "Mul") -> ComplexPair:
    """(a + bi)(c + di), with an element-wise or matrix product of the parts."""
    product = lambda x, y: g.node(operator, [x, y])  # noqa: E731
    return ComplexPair(
        g.Sub(product(a.real, b.real), product(a.imag, b.imag)),
        g.Add(product(a.real, b.imag), product(a.imag, b.real)),
    )


@torch_op("complex::mul")
def mul(g, x, y):
    if isinstance(x, ComplexPair) and not isinstance(y, (ComplexPair, complex)):
        y = as_value(g, y, g.dtype(x.real))
        return ComplexPair(g.Mul(x.real, y), g.Mul(x.imag, y))
    a, b = promote_to_pairs(g, x, y)
    return _multiply_pairs(g, a, b)


@torch_op("complex::div")
def div(g, x, y, *, rounding_mode=None):
    """x conj(y) / |y|²; for a real divisor, each part separately."""
    if isinstance(x, ComplexPair) and not isinstance(y, (ComplexPair, complex)):
        y = as_value(g, y, g.dtype(x.real))
        return ComplexPair(g.Div(x.real, y), g.Div(x.imag, y))
    a, b = promote_to_pairs(g, x, y)
    above = _multiply_pairs(g, a, ComplexPair(b.real, g.Neg(b.imag)))
    size = g.Add(g.Mul(b.real, b.real), g.Mul(b.imag, b.imag))
    return ComplexPair(g.Div(above.real, size), g.Div(above.imag, size))


@torch_op("complex::reciprocal")
def reciprocal(g, x):
    """1 / x; for 0, infinite with a NaN imaginary part, while 1 / 0 has NaN for both."""
    one, zero = constant_like(g, 1.0, x.real), constant_like(g, 0.0, x.real)
    found = div(g, one, x)
    none = g.And(g.Equal(x.real, zero), g.Equal(x.imag, zero))
    return ComplexPair(g.Where(none, constant_like(g, math.inf, x.real), found.real), found.imag)


@torch_op("complex::exp")
def exp(g, x):
    return polar(g, g.Exp(x.real), x.imag)


@torch_op("complex::matmul", "complex::mm", "complex::bmm", "complex::mv", "complex::dot")
def matmul(g, x, y):
    a, b = promote_to_pairs(g, x, y)
    return _multiply_pairs(g, a, b, "MatMul")


@torch_op("complex::eq")
def eq(g, x, y):
    a, b = promote_to_pairs(g, x, y)
    return g.And(g.Equal(a.real, b.real), g.Equal(a.imag, b.imag))


@torch_op("complex::where")
def where(g, condition, x, y):
    a, b = promote_to_pairs(g, x, y)
    return ComplexPair(g.Where(condition, a.real, b.real), g.Where(condition, a.imag, b.imag))


# -- part by part -----------------------------------------------------------------------------------------------------


def _part_by_part_rule(operator: str) -> Any:
    """Return the rule that applies the real rule to both parts, for operators that are real-linear or only move
    elements.
    """

    def rule(g: Graph, *args: Any, **kwargs: Any) -> Any:
        plain = torch_op.entries[operator].rule
        found = [plain(g, *(_select_part(g, a, name) for a in args), **kwargs) for name in ("real", "imag")]
        if isinstance(found[0], list):
            return [ComplexPair(a, b) for a, b in zip(*found, strict=True)]
        return ComplexPair(*found)

    return rule


def _select_part(g: Graph, value: Any, name: str) -> Any:
    """Return the part `name` of an argument; real tensors in a list with complex ones have a zero imaginary part."""
    if isinstance(value, (list, tuple)):
        items = promote_to_pairs(g, *value) if has_pair(value) else value
        return [_select_part(g, v, name) for v in items]
    if isinstance(value, ComplexPair):
        return getattr(value, name)
    if isinstance(value, complex):
        raise Unsupported("a complex number beside complex tensors in an operator that works part by part")
    return value


for _name in (
    "view",
    "reshape",
    "_unsafe_view",
    "flatten",
    "unflatten",
    "permute",
    "transpose",
    "t",
    "movedim",
    "mT",
    "numpy_T",
    "unsqueeze",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "select",
    "narrow",
    "cat",
    "stack",
    "expand",
    "expand_as",
    "flip",
    "roll",
    "clone",
    "alias",
    "detach",
    "lift_fresh_copy",
    "resolve_conj",
    "positive",
    "neg",
    "index_select",
    "split",
    "chunk",
    "unbind",
    "repeat",
    "diagonal",
    "slice",
):
    torch_op(PREFIX + _name)(_part_by_part_rule(_name))


@torch_op("complex::constant_pad_nd")
def constant_pad_nd(g, x, pad, value=0):
    plain = torch_op.entries["constant_pad_nd"].rule
    return ComplexPair(*(plain(g, part, pad, n) for part, n in zip(parts_of(x), parts_of(value), strict=True)))


def _write_parts_rule(operator: str) -> Any:
    """Return a rule for writes: the written values get the tensor's dtype; a real tensor drops the imaginary part."""

    def rule(g: Graph, x: Any, src: Any, *args: Any, **kwargs: Any) -> Any:
        plain = torch_op.entries[operator].rule
        if not isinstance(x, ComplexPair):
            return plain(g, x, src.real, *args, **kwargs)
        pair = pair_of(g, src, torch_dtype(g, x.real))
        return ComplexPair(plain(g, x.real, pair.real, *args, **kwargs), plain(g, x.imag, pair.imag, *args, **kwargs))

    return rule


for _name in ("copy", "slice_scatter", "select_scatter"):
    torch_op(PREFIX + _name)(_write_parts_rule(_name))


def _reduce_parts_rule(operator: str) -> Any:
    def rule(g: Graph, x: ComplexPair, dim: Any = None, keepdim: bool = False) -> ComplexPair:
        plain = torch_op.entries[operator].rule
        return ComplexPair(plain(g, x.real, dim, keepdim), plain(g, x.imag, dim, keepdim))

    return rule


for _name in ("sum", "mean"):
    torch_op(PREFIX + _name)(_reduce_parts_rule(_name))


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
    "diff",
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
