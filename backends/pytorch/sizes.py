"""Arithmetic on sizes: nodes whose inputs are all sizes or small constants are computed during capture."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import sympy
import torch

from convert.graph.movements import MOVEMENTS, move

from .torch_internals import statically_known_true
from .values import Known, Sizes, host_value, objects

Rule = Callable[..., Any]
_MOST = 64
_TERMS = 1000
"""Maximum size of an expression: each operation may double it, and PyTorch walks all of it for each guard."""


def size_arithmetic(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """Return a node's result if all inputs are sizes or small constants; None if the node has to be emitted."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _RULES or not inputs:
        return None
    if not all(x is None or _is_host(x) for x in inputs):
        return None
    attributes = {a.name: a.value for a in node.attributes.values()}
    result = _RULES[node.op_type](*inputs, **attributes)
    return None if isinstance(result, Sizes) and any(map(_is_outgrown, result.array.ravel())) else result


def _is_outgrown(size: Any) -> bool:
    """Return whether a size exceeds 64 bits, where ONNX's numbers wrap around, or its expression is too large."""
    if not isinstance(size, torch.SymInt):
        return False
    usual = size.node.hint
    terms = itertools.islice(sympy.preorder_traversal(size.node.expr), _TERMS)
    return (isinstance(usual, int) and abs(usual) >= 1 << 63) or sum(1 for _ in terms) == _TERMS


def _is_host(x: Any) -> bool:
    return isinstance(x, Sizes) or (isinstance(x, Known) and x.array.size <= _MOST and x.array.dtype.kind in "iub")


def _like(x: Known | Sizes, content: Any) -> Known | Sizes:
    made = np.empty(np.shape(content), object)
    made[...] = content
    return host_value(made, x.dtype if isinstance(x, Sizes) else x.array.dtype)


def _elementwise(function: Callable[[Any, Any], Any]) -> Rule:
    def rule(a: Any, b: Any) -> Any:
        x, y = np.broadcast_arrays(objects(a), objects(b))
        made = np.empty(x.shape, object)
        for place in np.ndindex(x.shape):
            made[place] = function(x[place], y[place])
        return _like(a, made)

    return rule


def _folded(function: Callable[[Any, Any], Any]) -> Rule:
    """Return the rule of an operator with one or more operands."""
    return lambda *xs: functools.reduce(_elementwise(function), xs)


def _quotient(a: Any, b: Any) -> Any:
    """Return the quotient rounded towards zero. The divisor is a size or a number."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if isinstance(b, int) and b < 0:
        return -_quotient(a, -b)
    if isinstance(a, int):
        return -(-a // b) if a < 0 else a // b
    if statically_known_true(a >= 0):
        return a // b
    return torch.sym_max(a, 0) // b - torch.sym_max(-a, 0) // b


def _mod(x: Any, y: Any, fmod: int = 0) -> Any:
    """Return the floored remainder for a positive divisor, as a - a // b * b.

    PyTorch can tell from this form that the dividend less the remainder is divisible.
    """
    if fmod or not isinstance(y, Known) or not (y.array > 0).all():
        return None
    return _elementwise(lambda a, b: a - a // b * b)(x, y)


def _moved(operator: str) -> Rule:
    """Return the rule of an operator that moves elements of its first input, or of all inputs of a Concat."""

    def rule(x: Any, *others: Any, **attributes: Any) -> Any:
        if operator == "Concat":
            made = move(operator, *(objects(v) for v in (x, *others)), **attributes)
        elif any(isinstance(v, Sizes) for v in others):
            return None
        else:
            constants = [None if v is None else v.array for v in others]
            if operator in ("Tile", "Expand"):
                assert constants[0] is not None
                if np.prod(constants[0], dtype=np.int64) * max(objects(x).size, 1) > _MOST:
                    return None
            made = move(operator, objects(x), *constants, **attributes)
        results = tuple(_like(x, part) for part in made)
        return results if operator == "Split" else results[0]

    return rule


def _cast(x: Any, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    kind = ir.DataType(to)
    if kind == ir.DataType.BOOL and isinstance(x, Known):
        return Known(x.array.astype(bool))
    if kind not in (ir.DataType.INT64, ir.DataType.INT32):
        return None
    return host_value(objects(x), kind.numpy())


def _product(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    found = objects(x)
    whole = axes is None or (isinstance(axes, Known) and axes.array.size == found.ndim)
    if not whole or (axes is None and noop_with_empty_axes):
        return None
    total: Any = 1
    for n in found.ravel():
        total = total * n
    made = np.empty((1,) * found.ndim if keepdims else (), object)
    made[...] = total
    return _like(x, made)


def _equal(a: Any, b: Any) -> Any:
    """Compare for equality; None if the answer is not certain.

    A symbol equals itself. A size is not negative, but a difference of sizes may be.
    """
    x, y = np.broadcast_arrays(objects(a), objects(b))
    made = np.empty(x.shape, bool)
    for place in np.ndindex(x.shape):
        p, q = x[place], y[place]
        if isinstance(p, int) and isinstance(q, int):
            made[place] = p == q
        elif statically_known_true(p != q):
            made[place] = False
        elif isinstance(p, torch.SymInt) and isinstance(q, torch.SymInt) and p.node.expr == q.node.expr:
            made[place] = True
        else:
            return None
    return Known(made)


def _logical(function: Callable[..., Any]) -> Rule:
    """Return the rule of a numpy function of constants only."""

    def rule(*xs: Any) -> Any:
        return Known(function(*(x.array for x in xs))) if all(isinstance(x, Known) for x in xs) else None

    return rule


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, Sizes):
        return None
    x, y, c = np.broadcast_arrays(objects(a), objects(b), condition.array)
    made = np.empty(x.shape, object)
    for place in np.ndindex(x.shape):
        made[place] = x[place] if c[place] else y[place]
    return _like(a, made)


def _negative(x: Any) -> Any:
    made = np.empty(x.shape, object)
    for place in np.ndindex(x.shape):
        made[place] = -objects(x)[place]
    return _like(x, made)


_RULES: dict[str, Rule] = {
    **{operator: _moved(operator) for operator in MOVEMENTS},
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_quotient),
    "Mod": _mod,
    "Max": _folded(lambda a, b: torch.sym_max(a, b)),
    "Min": _folded(lambda a, b: torch.sym_min(a, b)),
    "Neg": _negative,
    "Cast": _cast,
    "ReduceProd": _product,
    "Equal": _equal,
    "Where": _where,
    "And": _logical(np.logical_and),
    "Or": _logical(np.logical_or),
    "Not": _logical(np.logical_not),
    "Greater": _logical(np.greater),
    "GreaterOrEqual": _logical(np.greater_equal),
    "Less": _logical(np.less),
    "LessOrEqual": _logical(np.less_equal),
}
