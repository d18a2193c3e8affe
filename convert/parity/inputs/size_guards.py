"""Evaluate conditions on the sizes of dynamic dims, such as "height % 8 == 0", and find sizes that meet them."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from convert.errors import BadInput

_MOST_POWER, _MOST_BASE = 64, 2**40  # files are untrusted


def _power(base: Any, power: Any) -> Any:
    if abs(power) > _MOST_POWER or abs(base) > _MOST_BASE:
        raise ValueError(f"{base} ** {power} is too large a power")
    return base**power


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.USub: operator.neg, ast.Not: operator.not_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Div: operator.truediv, ast.Pow: _power,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "Min": min, "Max": max, "round": round, "math.trunc": math.trunc,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.sqrt": math.sqrt, "torch._sym_sqrt": math.sqrt,
    "torch.sym_float": float,
}  # fmt: skip
_REACH, _MOST_TRIES, _MOST_ROUNDS = 33, 4000, 8
_MOST_PRODUCTS = (2 * _REACH + 1) ** 3
"""Most combinations of sizes of all dims of a condition that are sorted by distance."""
_FEW_PRODUCTS = 512
"""Most combinations of sizes of all dims of several conditions."""
_MOST_CHARACTERS = 8_000_000
"""Most characters of conditions evaluated per round of the search; an untrusted file may have many long ones."""


@dataclass(frozen=True)
class Arithmetic:
    """Implementations of the operators, the functions, `and` and `or` of a condition."""

    operators: Mapping[type, Callable[..., Any]]
    functions: Mapping[str, Callable[..., Any]]
    all_of: Callable[[Iterable[Any]], Any] = all
    any_of: Callable[[Iterable[Any]], Any] = any
    numbers: tuple[type, ...] = (int, float)


PYTHON = Arithmetic(_OPERATORS, _FUNCTIONS)
"""The arithmetic for sizes that are numbers."""


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression of sizes and integers by Python's arithmetic; nothing else is executed.

    Raises ValueError for anything but + - * / // % **, comparisons, and, or, not, known names, and the functions in
    `_FUNCTIONS`.
    """
    try:
        return operator.index(value_of(text, sizes))
    except TypeError as error:
        raise ValueError(f"{text!r} cannot be evaluated: {error}") from None


def declared_size(text: str, sizes: Mapping[str, int]) -> int:
    """Evaluate a file's expression as `evaluate` does; raise `BadInput` if it has no value (`n // (n - 2)`)."""
    try:
        return evaluate(text, sizes)
    except ValueError as error:
        shown = ", ".join(f"{name}={size}" for name, size in list(sizes.items())[:8])
        raise BadInput(
            f"a size in the model is no number at {shown}: {error}", hint="correct its dims and notes"
        ) from None


def value_of(text: str, sizes: Mapping[str, Any], arithmetic: Arithmetic = PYTHON) -> Any:
    """Return the value of an expression of sizes; nothing else is executed.

    Sizes may be symbols if the arithmetic supports them. Raises ValueError for what the arithmetic does not support.
    """
    try:
        return _value(_parsed(text), sizes, arithmetic)
    except (SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r} cannot be evaluated: {error}") from None


@lru_cache(256)
def _parsed(text: str) -> ast.expr:
    """Return the syntax tree of an expression, which a search evaluates thousands of times."""
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, sizes: Mapping[str, Any], by: Arithmetic) -> Any:
    def part(inner: ast.expr) -> Any:
        return _value(inner, sizes, by)

    match node:
        case ast.Constant(value=number) if isinstance(number, by.numbers):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in by.operators:
            return by.operators[type(op)](part(left), part(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in by.operators:
            return by.operators[type(op)](part(operand))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in by.operators:
            return by.operators[type(op)](part(left), part(right))
        case ast.BoolOp(op=op, values=values):
            return (by.all_of if isinstance(op, ast.And) else by.any_of)(map(part, values))
        case ast.Call(func=function, args=arguments, keywords=[]) if (name := ast.unparse(function)) in by.functions:
            return by.functions[name](*map(part, arguments))
    raise ValueError(f"{ast.unparse(node)!r} is no arithmetic on sizes")


def broken_guards(guards: Sequence[str], sizes: Mapping[str, int]) -> list[str]:
    """Return the `guards` that `sizes` do not meet; a guard that divides by zero is not met."""
    return [guard for guard in guards if not _is_met(guard, sizes)]


def _is_met(guard: str, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(guard, sizes))
    except ValueError:
        return False


def fit_sizes(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> dict[str, int]:
    """Return `sizes`, changed as little as possible to meet the guards; unchanged if no such sizes are found.

    This is a greedy search. It takes the sizes in the first broken guard, replaces them by the nearest sizes that break
    fewest guards, and repeats. If the new sizes break as many guards, it also takes the sizes in guards that share a
    size with the broken one.
    """
    found = dict(sizes)
    for _ in range(_MOST_ROUNDS):
        wrong = broken_guards(guards, found)
        if not wrong:
            return found
        near = _names(wrong[:1], found)
        best = _nearest_of_fewest_broken(near, found, guards, bounds, _MOST_PRODUCTS)
        if len(broken_guards(guards, best)) >= len(wrong):
            wide = _names([g for g in guards if near & _names([g], found)], found)
            best = _nearest_of_fewest_broken(wide, found, guards, bounds, _FEW_PRODUCTS) if wide > near else best
        if len(broken_guards(guards, best)) >= len(wrong):
            break
        found = best
    return found if not broken_guards(guards, found) else dict(sizes)


def _names(guards: Iterable[str], sizes: Mapping[str, int]) -> set[str]:
    """Return the names of sizes in the guards."""
    return {n.id for g in guards for n in ast.walk(ast.parse(g, mode="eval")) if isinstance(n, ast.Name)} & set(sizes)


def _nearest_of_fewest_broken(
    names: Iterable[str],
    sizes: Mapping[str, int],
    guards: Sequence[str],
    bounds: Mapping[str, Sequence[int | None]],
    combinations: int,
) -> dict[str, int]:
    """Return the nearest sizes that break the fewest guards; `combinations` bounds the tried sizes of these names."""
    changed = sorted(names)
    most = int(combinations ** (1 / len(changed)) + 1e-9) if changed else 1
    choices = [_nearby_sizes(sizes[name], bounds.get(name, (1, None)), most) for name in changed]
    count = min(_MOST_TRIES, 1 + _MOST_CHARACTERS // sum(map(len, guards)))
    tries = itertools.islice(sorted(itertools.product(*choices), key=lambda t: _distance(t, sizes, changed)), count)
    best, least = dict(sizes), len(guards) + 1
    for numbers in tries:
        new = {**sizes, **dict(zip(changed, numbers, strict=True))}
        broken = len(broken_guards(guards, new))
        if broken < least:
            best, least = new, broken
        if not broken:
            break
    return best


def sizes_meeting(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> dict[str, int] | None:
    """Return `sizes` changed to meet the guards; None if none are found. Sizes next to a number in a guard are tried
    last.
    """
    for start in (sizes, *_beside_numbers(sizes, guards, bounds)):
        found = fit_sizes(start, guards, bounds)
        if not broken_guards(guards, found):
            return found
    return None


def _beside_numbers(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> Iterable[dict[str, int]]:
    """Yield sizes with one of them next to a number in a guard, if that number is out of reach of the search."""
    for node in (node for guard in guards for node in ast.walk(ast.parse(guard, mode="eval"))):
        number = node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0
        for name, size in sizes.items() if number > _REACH else ():
            low, high = bounds.get(name, (1, None))
            if abs(number - size) > _REACH - 2 and (low or 0) <= number + 1 <= (number + 1 if high is None else high):
                yield {**sizes, name: number + 1}


def _nearby_sizes(size: int, bounds: Sequence[int | None], most: int) -> list[int]:
    """Return the allowed sizes around this one, the nearest `most` of them, sorted."""
    low, high = 1 if bounds[0] is None else bounds[0], bounds[1]
    near = [n for n in range(max(low, size - _REACH), size + _REACH + 1) if high is None or n <= high]
    return sorted(sorted(near, key=lambda n: (abs(n - size), n < size))[:most])


def _distance(numbers: Sequence[int], sizes: Mapping[str, int], names: Sequence[str]) -> tuple[int, bool]:
    # At equal distance the larger size is nearer, because models reject inputs that are too small.
    away = [number - sizes[name] for number, name in zip(numbers, names, strict=True)]
    return sum(map(abs, away)), sum(away) < 0
