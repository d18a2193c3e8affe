"""Sizes that depend on dims of the inputs, as polynomials: `2*batch+1`. Shape arithmetic is done on them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeAlias

from convert import limits
from convert.errors import BadInput
from convert.graph import Dim

Factors: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """A sum of products of names, each with an integer factor. A quotient counts as one name.

    >>> b = named("b")
    >>> str(2 * b + 1), (b + 2 - b).number, floor_divide(4 * b + 2, number(2)).dim
    ('2*b+1', 2, '2*b+1')
    """

    terms: tuple[tuple[Factors, int], ...]

    @property
    def number(self) -> int | None:
        """The value if it depends on no name, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def dim(self) -> int | str:
        """The size as a dim of a tensor."""
        known = self.number
        return str(self) if known is None else known

    def __str__(self) -> str:
        text = ""
        for factors, count in sorted(self.terms, key=lambda term: (not term[0], -len(term[0]), term[0])):
            body = "*".join(([] if abs(count) == 1 and factors else [str(abs(count))]) + list(factors))
            text += ("-" if count < 0 else "+" if text else "") + body
        return text or "0"

    def __add__(self, other: Size | int) -> Size:
        return _collect([*self.terms, *_size(other).terms])

    def __sub__(self, other: Size | int) -> Size:
        return self + _size(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        if len(self.terms) * len(_size(other).terms) > limits.STABLEHLO_SIZE_TERMS:
            return named(f"({self})*({other})")
        return _collect([((*a, *b), m * n) for a, m in self.terms for b, n in _size(other).terms])

    __radd__, __rmul__ = __add__, __mul__

    def least(self) -> int | None:
        """Return the smallest value if every name is 1 or more; None if unknown."""
        if any("(" in name or "<" in name for factors, _ in self.terms for name in factors):
            return None
        if any(count < 0 for factors, count in self.terms if factors):
            return None
        return sum(count for _, count in self.terms)


def named(name: str) -> Size:
    """Return the size of a dim of this name."""
    return Size((((name,), 1),))


def counter(name: str, turns: Size) -> Size:
    """Return the number of a loop's iteration, from 0 to `turns` − 1, as a size; no dim is ever called so."""
    return named(f"{name}<{turns}")


def number(value: int) -> Size:
    """Return a known size."""
    return _collect([((), int(value))])


def of_dim(dim: Dim) -> Size | None:
    """Return the size of a dim; None if it has no name."""
    if dim is None:
        return None
    return number(dim) if isinstance(dim, int) else parse_size(dim)


def of_linear(dim: str) -> tuple[str, int, int] | None:
    """Return name, factor and offset of a dim such as `2*b + 1`; None for a name alone, and for all other sizes."""
    terms = dict(parse_size(dim).terms)
    offset = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((factors, count),) = terms.items()
    alone = len(factors) == 1 and factors[0].isidentifier() and (count, offset) != (1, 0)
    return (factors[0], count, offset) if alone else None


def floor_divide(one: Size, other: Size) -> Size:
    """Return `one // other`, exactly: a new name if the terms cannot be divided separately."""
    divisor = other.number
    if divisor and one.number is not None:
        return number(one.number // divisor)
    whole = [(f, n) for f, n in one.terms if divisor and n % divisor == 0]
    rest = _collect([t for t in one.terms if t not in whole])
    if divisor and rest.number is not None:
        return _collect([*[(f, n // divisor) for f, n in whole], ((), rest.number // divisor)])
    return named(f"floordiv({one},{other})")


def modulo(one: Size, other: Size) -> Size:
    """Return `one % other`, with the sign of `other`."""
    divisor = other.number
    if divisor:
        rest = _collect([(f, n) for f, n in one.terms if n % divisor])
        if rest.number is not None:
            return number(rest.number % divisor)
    return named(f"mod({one},{other})")


def largest(one: Size, other: Size) -> Size:
    """Return the larger of two sizes."""
    order = compare(one, other)
    return named(f"max({one},{other})") if order is None else one if order >= 0 else other


def smallest(one: Size, other: Size) -> Size:
    """Return the smaller of two sizes."""
    order = compare(one, other)
    return named(f"min({one},{other})") if order is None else other if order >= 0 else one


def compare(one: Size, other: Size) -> int | None:
    """Return 1 or -1 if `one` is at least or at most `other` for all values of the names, and 0 if they are equal."""
    gap = one - other
    if gap.number is not None:
        return (gap.number > 0) - (gap.number < 0)
    for sign in (1, -1):
        lowest = _without_counters(gap * sign)
        if (lowest.least() or -1) >= 0 or (lowest.number == 0):
            return sign
    return None


def _without_counters(size: Size) -> Size:
    """Return a bound that `size` is at least: each number of an iteration is its first one, or its last."""
    bound = number(0)
    for factors, count in size.terms:
        if len(factors) == 1 and "<" in factors[0] and "(" not in factors[0]:
            turns = parse_size(factors[0].partition("<")[2])
            bound += number(0) if count > 0 else (turns - 1) * count
        else:
            bound += Size(((factors, count),))
    return bound


def parse_size(text: str) -> Size:
    """Parse a size as `str` or JAX prints it: `2*b + 1`, `floordiv(b, 2)`. Raises `BadInput` for anything else."""
    if len(text) > limits.STABLEHLO_SIZE_CHARACTERS:
        raise BadInput(f"a dim is called by {len(text):,} characters", hint="export the model with shorter names")
    try:
        return _evaluate(ast.parse(text.replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise BadInput(f"a dim is called {text!r}, which is no size", hint="export the model again") from None


def _evaluate(node: ast.expr) -> Size:
    """Return the size for a parsed expression. Raises ValueError."""
    match node:
        case ast.Constant(value=int() as value):
            return number(value)
        case ast.Name(id=name):
            return named(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _evaluate(inner) * -1
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if 0 <= power < 16:
            found = number(1)
            for _ in range(power):
                found = found * _evaluate(left)
            return found
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _evaluate(left) + _evaluate(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _evaluate(left) - _evaluate(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _evaluate(left) * _evaluate(right)
        case ast.Call(func=ast.Name(id="floordiv"), args=[one, other]):
            return floor_divide(_evaluate(one), _evaluate(other))
        case ast.Call(func=ast.Name(id="mod"), args=[one, other]):
            return modulo(_evaluate(one), _evaluate(other))
        case ast.Call(func=ast.Name(id="max"), args=[one, other]):
            return largest(_evaluate(one), _evaluate(other))
        case ast.Call(func=ast.Name(id="min"), args=[one, other]):
            return smallest(_evaluate(one), _evaluate(other))
    raise ValueError(ast.dump(node))


def _size(value: Size | int) -> Size:
    return value if isinstance(value, Size) else number(value)


def _collect(terms: list[tuple[Factors, int]]) -> Size:
    """Return the sum of terms, in a fixed order, without those that are 0."""
    found: dict[Factors, int] = {}
    for factors, count in terms:
        key = tuple(sorted(factors))
        found[key] = found.get(key, 0) + count
    return Size(tuple(sorted((key, count) for key, count in found.items() if count)))
