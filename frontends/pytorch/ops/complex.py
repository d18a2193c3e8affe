"""Operators on complex tensors, represented as pairs of real ones."""

from __future__ import annotations

import math
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
from ..common.values import as_value, cast, constant_like, torch_dtype
from ..rules import torch_op
from .arithmetic import atan2, hypot

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
