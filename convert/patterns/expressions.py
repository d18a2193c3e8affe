"""Expressions that patterns are written in: placeholders, arithmetic, operators and reductions.

A pattern is a function that computes a layer from placeholders: `0.5 * x * (1 + op("Erf", x / 2**0.5))`. Sums and
products are flat lists of terms and factors, so that a pattern does not depend on how a program groups and orders them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Operand: TypeAlias = "Expression | float"


class Expression:
    """A value that a pattern computes; arithmetic on it makes larger expressions."""

    def __add__(self, other: Operand) -> Expression:
        return _total(self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _total(other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _total(self, _negative(other))

    def __rsub__(self, other: Operand) -> Expression:
        return _total(other, _negative(self))

    def __neg__(self) -> Expression:
        return _product(-1.0, self)

    def __mul__(self, other: Operand) -> Expression:
        return _product(self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _product(other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _product(self, _inverse(other))

    def __rtruediv__(self, other: Operand) -> Expression:
        return _product(other, _inverse(self))

    def __pow__(self, power: int) -> Expression:
        return _product(*[self] * power)


@dataclass(frozen=True, eq=False)
class Tensor(Expression):
    """Any value. An optional one is a term or factor that may be missing."""

    name: str
    optional: bool = False


@dataclass(frozen=True, eq=False)
class Number(Expression):
    """Any constant number; as a missing factor 1, as a missing term no match."""

    name: str


@dataclass(frozen=True)
class Attribute:
    """An attribute or a list of axes; wherever it occurs in a pattern, it must be the same."""

    name: str


@dataclass(frozen=True, eq=False)
class Operator(Expression):
    """A node of that type with these inputs; attributes that are not named may be anything."""

    name: str
    inputs: tuple[Operand, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Reduction(Expression):
    """A reduction of `x` along `axes`, which stay as axes of size 1."""

    name: str
    x: Expression
    axes: Attribute


@dataclass(frozen=True, eq=False)
class Repeated(Expression):
    """The elements along the last axis of `x`, each `count` times, as jnp.repeat computes them."""

    x: Expression
    count: Attribute


@dataclass(frozen=True, eq=False)
class Sum(Expression):
    """A constant and terms with their signs."""

    constant: float
    terms: tuple[tuple[int, Expression], ...]


@dataclass(frozen=True, eq=False)
class Product(Expression):
    """A constant and factors with their exponents, 1 or -1."""

    constant: float
    factors: tuple[tuple[int, Expression], ...]


@dataclass(frozen=True, eq=False)
class Either(Expression):
    """The first of some expressions that matches."""

    choices: tuple[Expression, ...]


def op(name: str, *inputs: Operand, **attributes: Any) -> Expression:
    """Return an expression for the operator `name`."""
    return Operator(name, inputs, attributes)


def either(*choices: Expression) -> Expression:
    """Return an expression for any of several ways to compute a value."""
    return Either(choices)


def sqrt(x: Operand) -> Expression:
    """Return √x."""
    return op("Sqrt", x)


def mean(x: Expression, axes: Attribute) -> Expression:
    """Return the mean of `x` along `axes`, or its sum divided by the number of elements."""
    return Reduction("ReduceMean", x, axes)


def variance(x: Expression, axes: Attribute) -> Expression:
    """Return E[(x − E[x])²]."""
    return mean((x - mean(x, axes)) ** 2, axes)


def quick_variance(x: Expression, axes: Attribute) -> Expression:
    """Return E[x²] − E[x]², which Flax bounds by 0; its digits cancel where the mean is far from zero."""
    quick = mean(x**2, axes) - mean(x, axes) ** 2
    return either(op("Max", quick, 0.0), quick)


def softmax(x: Expression, axis: Attribute) -> Expression:
    """Return the softmax of `x` along one axis, as an operator or written out."""
    return either(op("Softmax", x, axis=axis), written_softmax(x, axis))


def written_softmax(x: Expression, axis: Attribute) -> Expression:
    """Return exponentials divided by their sum."""
    exponentials = op("Exp", x - Reduction("ReduceMax", x, axis))
    return exponentials / Reduction("ReduceSum", exponentials, axis)


def _parts(operand: Operand) -> tuple[float, tuple[tuple[int, Expression], ...]]:
    """Return the constant and the factors of an operand."""
    if isinstance(operand, Product):
        return operand.constant, operand.factors
    return (1.0, ((1, operand),)) if isinstance(operand, Expression) else (float(operand), ())


def _product(*operands: Operand) -> Expression:
    constant = 1.0
    factors: list[tuple[int, Expression]] = []
    for number, more in map(_parts, operands):
        constant *= number
        factors += more
    return Product(constant, tuple(factors))


def _negative(operand: Operand) -> Operand:
    if isinstance(operand, Sum):
        return Sum(-operand.constant, tuple((-sign, term) for sign, term in operand.terms))
    return _product(-1.0, operand) if isinstance(operand, Expression) else -operand


def _inverse(operand: Operand) -> Operand:
    if not isinstance(operand, Expression):
        return 1 / operand
    constant, factors = _parts(operand)
    return Product(1 / constant, tuple((-power, factor) for power, factor in factors))


def _total(*operands: Operand) -> Expression:
    constant = 0.0
    terms: list[tuple[int, Expression]] = []
    for operand in operands:
        if isinstance(operand, Sum):
            constant += operand.constant
            terms += operand.terms
        elif not isinstance(operand, Expression):
            constant += operand
        elif isinstance(operand, Product) and operand.constant == -1 and len(operand.factors) == 1:
            terms.append((-1, operand.factors[0][1]) if operand.factors[0][0] == 1 else (1, operand))
        else:
            terms.append((1, operand))
    return Sum(constant, tuple(terms))
