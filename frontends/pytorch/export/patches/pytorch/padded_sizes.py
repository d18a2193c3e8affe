"""Keeps the sizes after layers with padding "same" short; otherwise each layer makes the next one longer.

The layer pads by `max((ceil(n / stride) - 1) * stride + kernel - n, 0)`, so that its output has `ceil(n / stride)`
items. PyTorch does not simplify this, so `n` occurs three times in the output's size. After five such layers the size
has hundreds of terms, and every later operator asks about it.
"""

from __future__ import annotations

from typing import Any

import sympy

from ....torch_internals.symbols import CeilToInt, FloorDiv, IntTrueDiv, Max, set_expression


def short_quotients(original: Any) -> Any:
    """Return `SymNode.int_floordiv` that expresses the quotient of a padded size by the size before it."""

    def divide(self: Any, other: Any) -> Any:
        quotient = original(self, other)
        if (short := short_quotient(self.expr, other.expr)) is not None:
            set_expression(quotient, short)
        return quotient

    return divide


def short_quotient(size: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr | None:
    """Return `size // divisor` for `size = a + Max(b, …)` if one of these is never less than the others, else None.

    The quotient of `a + Max(b, c)` is the larger one of `(a + b) // divisor` and `(a + c) // divisor`. They are
    compared as quotients by one number, if the difference of the dividends is known.
    """
    largest = [term for term in sympy.Add.make_args(size) if isinstance(term, Max)]
    if len(largest) != 1 or not _is_positive_number(divisor):
        return None
    first, *others = (_fraction(size - largest[0] + option, divisor) for option in largest[0].args)
    for fraction in others:
        difference = _without_brackets(fraction[0] - first[0])
        if fraction[1] != first[1] or not difference.is_Integer:
            return None
        first = fraction if difference > 0 else first
    return FloorDiv(*first)


def _fraction(size: sympy.Expr, divisor: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Return `(m, d)` with `m // d == size // divisor`, with as few nested quotients in m as possible."""
    number, rest = _without_brackets(size).as_coeff_Add()
    factor, inner = rest.as_coeff_Mul()
    if not number.is_Integer or (found := _divided(inner)) is None:
        return size, divisor
    above, below = found
    if factor == 1:  # (m // d + c) // s == (m + c d) // (d s)
        return _fraction(above + number * below, below * divisor)
    if factor == divisor:  # (s (m // d) + c) // s == (m + (c // s) d) // d
        return _fraction(above + number // divisor * below, below)
    return size, divisor


def _divided(size: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr] | None:
    """Return `(m, d)` if a size is `m // d`, or `ceil(n / d)`, for a positive number d; else None."""
    if isinstance(size, FloorDiv) and _is_positive_number(size.args[1]):
        return size.args
    if isinstance(size, CeilToInt) and isinstance(size.args[0], IntTrueDiv):
        above, below = size.args[0].args
        return (above + below - 1, below) if _is_positive_number(below) else None
    return None


def _is_positive_number(size: sympy.Expr) -> bool:
    return bool(size.is_Integer and size > 0)


def _without_brackets(size: sympy.Expr) -> sympy.Expr:
    """Return a sum without nested sums as terms; arguments of functions are left unchanged."""
    return sympy.expand_mul(size, deep=False)
