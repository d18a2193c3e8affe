"""Conditions on the sizes of dynamic dims, such as "height % 8 == 0": whether sizes meet them, and sizes that do."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convert.errors import BadInput

_MOST_POWER, _MOST_BASE = 64, 2**40  # of files from anywhere


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
"""Sizes of all dims of a condition that are put in order, of their distance."""
_MOST_CHARACTERS = 8_000_000
"""Of conditions that are evaluated in one round of the search: those of a file from anywhere may be many and long."""


@dataclass(frozen=True)
class Arithmetic:
    """What the operators, the functions and the words `and` and `or` of a condition are computed with."""

    operators: Mapping[type, Callable[..., Any]]
    functions: Mapping[str, Callable[..., Any]]
    all_of: Callable[[Iterable[Any]], Any] = all
    any_of: Callable[[Iterable[Any]], Any] = any
    numbers: tuple[type, ...] = (int, float)


PYTHON = Arithmetic(_OPERATORS, _FUNCTIONS)
"""For sizes that are numbers."""


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """The value of an expression of sizes and integers by Python's arithmetic; nothing else is executed.

    Raises ValueError for anything but + - * / // % **, comparisons, and, or, not, and `_FUNCTIONS` of known names.
    """
    try:
        return operator.index(value_of(text, sizes))
    except TypeError as error:
        raise ValueError(f"{text!r} cannot be evaluated: {error}") from None


def size_said(text: str, sizes: Mapping[str, int]) -> int:
    """`evaluate` of what a file says; raises `BadInput` where that is no number at these sizes (`n // (n - 2)`)."""
    try:
        return evaluate(text, sizes)
    except ValueError as error:
        shown = ", ".join(f"{name}={size}" for name, size in list(sizes.items())[:8])
        raise BadInput(
            f"a size in the model is no number at {shown}: {error}", hint="mend its dims and notes"
        ) from None


def value_of(text: str, sizes: Mapping[str, Any], arithmetic: Arithmetic = PYTHON) -> Any:
    """The value of an expression of sizes, which may be symbols if the arithmetic is theirs; nothing else is executed.

    Raises ValueError for what the arithmetic does not have.
    """
    try:
        return _value(ast.parse(text, mode="eval").body, sizes, arithmetic)
    except (SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r} cannot be evaluated: {error}") from None


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
    """Those of `guards` that `sizes` do not meet; a guard on a size that divides by zero is not met."""
    return [guard for guard in guards if not _is_met(guard, sizes)]


def _is_met(guard: str, sizes: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(guard, sizes))
    except ValueError:
        return False


def fit_sizes(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> dict[str, int]:
    """`sizes`, changed as little as possible so that they meet the guards; as they are where none are found.

    A greedy search: of the sizes in the first guard that is broken, the nearest that break fewest guards, and again.
    """
    found = dict(sizes)
    for _ in range(_MOST_ROUNDS):
        wrong = broken_guards(guards, found)
        if not wrong:
            return found
        names = sorted(
            {n.id for n in ast.walk(ast.parse(wrong[0], mode="eval")) if isinstance(n, ast.Name)} & set(found)
        )
        most = int(_MOST_PRODUCTS ** (1 / len(names)) + 1e-9) if names else 1
        choices = [_nearby_sizes(found[name], bounds.get(name, (1, None)), most) for name in names]
        count = min(_MOST_TRIES, 1 + _MOST_CHARACTERS // sum(map(len, guards)))
        tries = itertools.islice(sorted(itertools.product(*choices), key=lambda t: _distance(t, found, names)), count)
        best = min(
            ({**found, **dict(zip(names, numbers, strict=True))} for numbers in tries),
            key=lambda new: len(broken_guards(guards, new)),
            default=found,
        )
        if len(broken_guards(guards, best)) >= len(wrong):
            break
        found = best
    return found if not broken_guards(guards, found) else dict(sizes)


def sizes_meeting(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> dict[str, int] | None:
    """Return `sizes` changed so that they meet the guards, beside a number in one of them if need be; None without."""
    for start in (sizes, *_beside_numbers(sizes, guards, bounds)):
        found = fit_sizes(start, guards, bounds)
        if not broken_guards(guards, found):
            return found
    return None


def _beside_numbers(
    sizes: Mapping[str, int], guards: Sequence[str], bounds: Mapping[str, Sequence[int | None]]
) -> Iterable[dict[str, int]]:
    """Sizes of which one is beside a number in a guard, where that is beyond the reach of a search."""
    for node in (node for guard in guards for node in ast.walk(ast.parse(guard, mode="eval"))):
        number = node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0
        for name, size in sizes.items() if number > _REACH else ():
            low, high = bounds.get(name, (1, None))
            if abs(number - size) > _REACH - 2 and (low or 0) <= number + 1 <= (number + 1 if high is None else high):
                yield {**sizes, name: number + 1}


def _nearby_sizes(size: int, bounds: Sequence[int | None], most: int) -> list[int]:
    """The sizes around this one that are allowed, the nearest `most` of them."""
    low, high = bounds[0] or 1, bounds[1]
    near = [n for n in range(max(low, size - _REACH), size + _REACH + 1) if high is None or n <= high]
    return sorted(sorted(near, key=lambda n: (abs(n - size), n < size))[:most])


def _distance(numbers: Sequence[int], sizes: Mapping[str, int], names: Sequence[str]) -> tuple[int, bool]:
    # Of two that are as near, the larger: too small an input is what models refuse.
    away = [number - sizes[name] for number, name in zip(numbers, names, strict=True)]
    return sum(map(abs, away)), sum(away) < 0
