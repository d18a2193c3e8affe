"""Bounds how large an expression of sizes may become in sympy, from its text, before sympy evaluates it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from convert import limits

_SYMBOL_BITS = 64
_POWERS = ("Pow", "PowByNatural", "FloatPow")
_NUMBERS = ("Integer", "Float", "Rational")
_SHIFTS = ("LShift", "RShift")
_LARGEST_EXPONENT = 64


class TooLarge(Exception):
    """Raised for an expression whose numbers or sums would take forever."""


def check_cost(tree: ast.Expression) -> None:
    """Raise `TooLarge` if numbers of the expression have too many digits, or its expansion too many terms."""
    _measure(tree.body)


def _measure(node: ast.AST) -> tuple[int, int]:
    """Return the maximum number of bits of an expression's value, and of terms of its sum. Raises `TooLarge`."""
    name, operands = _operation(node)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            raise TooLarge  # `Symbol` is handled separately; no other function takes text
        bits, terms = _bits(node.value), 1
    elif not operands:
        bits, terms = _SYMBOL_BITS, 1
    elif name in (*_POWERS, *_SHIFTS):
        bits, terms = _measure_power(name, operands)
    else:
        found = [_measure(operand) for operand in operands]
        if name == "Mul":
            bits, terms = sum(b for b, _ in found), _product(t for _, t in found)
        elif name == "exp":
            bits, terms = 1 << min(found[0][0], 30), 1
        else:
            bits = max(b for b, _ in found) + len(found)
            terms = sum(t for _, t in found) if name in ("Add", "Tuple") else max(t for _, t in found)
    if bits > limits.EXPORTED_EXPRESSION_BITS or terms > limits.EXPORTED_EXPRESSION_TERMS:
        raise TooLarge
    return bits, terms


def _measure_power(name: str, operands: list[ast.AST]) -> tuple[int, int]:
    (bits, terms), exponent = _measure(operands[0]), _number(operands[-1])
    if exponent is None and _is_symbol(operands[-1]):
        return bits + _SYMBOL_BITS, terms
    if exponent is None or abs(exponent) > _LARGEST_EXPONENT:
        raise TooLarge
    count = max(1, int(abs(exponent)))
    return (bits + count, terms) if name in _SHIFTS else (bits * count, _product([terms] * count))


def _operation(node: ast.AST) -> tuple[str, list[ast.AST]]:
    """Return the name of an operation and its operands; no operands for a name or a symbol."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        for keyword in node.keywords:  # assumptions of symbols, and the precision of a Float
            if isinstance(keyword.value, ast.Constant) and _bits(keyword.value.value) > _SYMBOL_BITS // 4:
                raise TooLarge
        return name, [] if name == "Symbol" else list(node.args)
    if isinstance(node, ast.BinOp):
        names = {ast.Pow: "Pow", ast.Mult: "Mul", ast.Add: "Add", ast.Sub: "Add", ast.LShift: "LShift"}
        return names.get(type(node.op), ""), [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return "", [node.operand]
    if isinstance(node, ast.BoolOp):
        return "", list(node.values)
    if isinstance(node, ast.Compare):
        return "", [node.left, *node.comparators]
    return ("Tuple", list(node.elts)) if isinstance(node, ast.Tuple) else ("", [])


def _is_symbol(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Call) and not _operation(node)[1])


def _number(node: ast.AST) -> float | None:
    """Return a literal number, including Integer(2), Rational(1, 2) and -1."""
    if isinstance(node, ast.UnaryOp):
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NUMBERS:
        return _number(node.args[0]) if node.args else None
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _bits(value) < _SYMBOL_BITS else float("inf")


def _bits(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 64


def _product(counts: Iterable[int]) -> int:
    total = 1
    for count in counts:
        total = min(total * count, 1 << 62)
    return total
