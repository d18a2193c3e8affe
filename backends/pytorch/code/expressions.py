"""Python expressions: numbers, sizes, calls and operators, with the parentheses that they need."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import sympy
import torch

INFIX = {
    "add": ("+", 6), "sub": ("-", 6), "mul": ("*", 7), "div": ("/", 7), "true_divide": ("/", 7), "matmul": ("@", 7),
    "__truediv__": ("/", 7), "__mul__": ("*", 7), "__add__": ("+", 6), "__sub__": ("-", 6), "__matmul__": ("@", 7),
    "remainder": ("%", 7), "__mod__": ("%", 7), "__and__": ("&", 5), "__or__": ("|", 4), "__xor__": ("^", 4.5),
    "bitwise_and": ("&", 5), "bitwise_or": ("|", 4), "bitwise_xor": ("^", 4.5),
    "eq": ("==", 3), "ne": ("!=", 3), "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3), "ge": (">=", 3),
    "__eq__": ("==", 3), "__ne__": ("!=", 3), "__lt__": ("<", 3), "__le__": ("<=", 3), "__gt__": (">", 3),
    "__ge__": (">=", 3), "pow": ("**", 9), "__pow__": ("**", 9),
}  # fmt: skip
"""Functions and methods of two tensors that have a Python operator, with its precedence."""

REVERSED = {"__rsub__": ("-", 6), "__rtruediv__": ("/", 7), "__rdiv__": ("/", 7), "__rpow__": ("**", 9),
            "__rmod__": ("%", 7), "__radd__": ("+", 6), "__rmul__": ("*", 7), "rsub": ("-", 6)}  # fmt: skip
UNARY = {"neg": "-", "__neg__": "-", "__invert__": "~"}
ATOM = 10.0
SLOT = re.compile("\x00([a-z_0-9]*)=(-?[0-9]+)\x01")
"""A number in code that may become an argument: its name and its value."""


_LARGEST = float(np.finfo(np.float32).max)


def slot(name: str, number: int) -> str:
    """Return the mark for a number that may differ between otherwise equal blocks."""
    return f"\x00{name}={number}\x01" if number > 1 and not isinstance(number, bool) else str(number)


def plain(text: str) -> str:
    """Return code with the marks replaced by their numbers."""
    return SLOT.sub(lambda m: m[2], text)


def grouped(text: str, binds: float, around: float) -> str:
    """Return an expression, in parentheses if it binds less tightly than its surroundings."""
    return text if binds >= around else f"({text})"


def infix(operator: str, level: float, left: tuple[str, float], right: tuple[str, float]) -> tuple[str, float]:
    """Return two operands with an operator between them. Comparisons are not chained; a power is right-associative."""
    tight = level + 0.25
    first = tight if operator == "**" or level == 3 else level
    return f"{grouped(*left, first)} {operator} {grouped(*right, tight)}", level


def number(x: Any, *, single: bool = True) -> str:
    """Return a number as Python source. single: a float32, with the fewest digits that identify it."""
    if isinstance(x, (bool, np.bool_)):
        return str(bool(x))
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    x = complex(x) if isinstance(x, (complex, np.complexfloating)) else float(x)
    if isinstance(x, complex):
        return f"complex({number(x.real, single=single)}, {number(x.imag, single=single)})"
    if math.isnan(x):
        return "torch.nan"
    if math.isinf(x):
        return "torch.inf" if x > 0 else "-torch.inf"
    with np.errstate(over="ignore"):
        short = np.float32(x)
    shortest = float(str(short))
    return repr(shortest) if single and float(short) == x and abs(shortest) <= _LARGEST else repr(x)


def content(array: np.ndarray, *, single: bool = True) -> str:
    """Return an array as nested lists. single: as for `number`."""
    if array.ndim:
        return f"[{', '.join(content(part, single=single) for part in array)}]"
    return number(array.item() if array.dtype.kind in "fiubc" else float(array), single=single)


def dtype(kind: torch.dtype) -> str:
    """Return the source of a dtype, e.g. `torch.float32`."""
    return str(kind)


def size(expression: sympy.Expr, names: Any) -> tuple[str, float]:
    """Return the code of an expression of sizes, and its precedence. `names(symbol)` is the code of one symbol."""
    if expression.is_Symbol:
        return names(expression)
    if expression.is_Integer:
        return str(int(expression)), ATOM if expression >= 0 else 8
    args = expression.args
    kind = type(expression).__name__
    if expression.is_Add:
        ordered = sorted(args, key=lambda a: (a.is_number, _sign(a) < 0, str(a)))
        text = grouped(*size(ordered[0], names), 6)
        for a in ordered[1:]:
            text += f" - {grouped(*size(-a, names), 7)}" if _sign(a) < 0 else f" + {grouped(*size(a, names), 7)}"
        return text, 6
    if expression.is_Mul:
        ordered = sorted(args, key=lambda a: (a.is_number, str(a)))
        if ordered[-1] == -1:
            return f"-{grouped(*size(-expression, names), 8)}", 8
        return " * ".join(grouped(*size(a, names), 7.25) for a in ordered), 7
    if kind in ("FloorDiv", "CleanDiv", "PythonMod", "Mod"):
        return infix("%" if "Mod" in kind else "//", 7, size(args[0], names), size(args[1], names))
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(sorted(size(a, names)[0] for a in args))})", ATOM
    if expression.is_Pow and args[1].is_Integer and args[1] > 0:
        return infix("**", 9, size(args[0], names), size(args[1], names))
    relations = {"Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
                 "StrictGreaterThan": ">", "GreaterThan": ">="}  # fmt: skip
    if kind in relations:
        return infix(relations[kind], 3, size(args[0], names), size(args[1], names))
    if kind in ("And", "Or"):
        return f" {kind.lower()} ".join(sorted(grouped(*size(a, names), 2.5) for a in args)), 2
    if kind in ("ToFloat", "Float") or expression.is_Float:
        return (f"float({size(args[0], names)[0]})" if args else repr(float(expression))), ATOM
    if kind == "TruncToInt":
        return f"int({size(args[0], names)[0]})", ATOM
    if kind in ("IntTrueDiv", "FloatTrueDiv"):
        return infix("/", 7, size(args[0], names), size(args[1], names))
    raise NotImplementedError(f"{kind} of sizes")


def _sign(a: sympy.Expr) -> int:
    coefficient = a.as_coeff_Mul()[0]
    return -1 if coefficient.is_negative else 1
