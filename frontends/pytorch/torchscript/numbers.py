"""Arithmetic of run-time Python numbers, as ONNX nodes on int64, double and bool of rank 0."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIM_KEY

from ..common.values import cast, mark_scalar
from ..torch_internals import operator_of
from .number_functions import FUNCTIONS, SHIFTS
from .values import UNKNOWN, List, Number, is_known

INT, FLOAT, BOOL = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL
_DTYPES = {int: INT, float: FLOAT, bool: BOOL}
_KINDS = {"int": int, "float": float, "bool": bool}


def kind_of(g: Graph, value: ir.Value) -> type:
    """Return the Python type of a run-time number."""
    dtype = g.dtype(value)
    return bool if dtype == BOOL else float if dtype.is_floating_point() else int


def apply_operator(g: Graph, kind: str, args: list[Any], returns: list[str], schema: torch.FunctionSchema) -> Any:
    """Apply one operator to numbers, known or not. Raises `Unsupported` if there is no formula for it."""
    if kind in _LISTS:
        found = [a for a in args if isinstance(a, List)]
        if found and all(isinstance(a.state, tuple) for a in found):
            return _LISTS[kind](g, args)
    if kind == "aten::divmod":
        return _divmod(g, args)
    if kind not in _FORMULAS or not all(isinstance(a, (Number, bool, int, float)) for a in args):
        raise Unsupported("no PyTorch rule for this operator on values that are known at run time only")
    common = float if any(type_of_number(a) is float for a in args) else int
    if kind in FUNCTIONS:
        common = float
    values = [_number_value(g, a, bool if kind in _LOGIC and type_of_number(a) is bool else common) for a in args]
    result = _FORMULAS[kind](g, *values)
    wanted = _KINDS.get(returns[0] if returns else "") or (common if g.dtype(result) != BOOL else bool)
    return Number(mark_scalar(cast(g, result, _DTYPES[wanted])), wanted, _example_result(schema, args))


def type_of_number(number: Any) -> type:
    """Return the Python type of a number, known or not."""
    return number.kind if isinstance(number, Number) else type(number)


def _number_value(g: Graph, number: Any, kind: type) -> ir.Value:
    if isinstance(number, Number):
        return cast(g, number.value, _DTYPES[kind])
    return g.const(kind(number), _DTYPES[kind])


def _example_result(schema: torch.FunctionSchema, args: list[Any]) -> Any:
    numbers = [a.example if isinstance(a, Number) else a for a in args]
    if any(n is None or n is UNKNOWN for n in numbers):
        return None
    try:
        return operator_of(schema.name, schema.overload_name)[0](*numbers)
    except Exception:
        # Division by zero and similar operations leave no example.
        return None


def as_number(g: Graph, number: Any) -> ir.Value:
    """Return a number, known or not, as a value of rank 0."""
    return _number_value(g, number, type_of_number(number))


# -- formulas ---------------------------------------------------------------------------------------------------------


def _floor_divide(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Divide as Python's // does: ONNX truncates integers, but its Mod has the sign of the divisor as Python's has."""
    if g.dtype(a) == FLOAT:
        return g.Floor(g.Div(a, b))
    constant = g.static(b)
    if constant is not None and constant > 0 and a.meta.get(DIM_KEY) is not None:
        return g.Div(a, b)
    return g.Div(g.Sub(a, g.Mod(a, b)), b)


def _remainder(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the remainder with the sign of the divisor; for floats as in `aten::remainder` of register_prim_ops.cpp.

    a - floor(a / b) * b differs if the quotient rounds to a whole number: 1 % 0.1.
    """
    if g.dtype(a) == FLOAT:
        return g.Mod(g.Add(b, g.Mod(a, b, fmod=1)), b, fmod=1)
    return g.Mod(a, b)


def _divmod(g: Graph, args: list[Any]) -> tuple[Number, Number]:
    """Python's divmod: the remainder has the sign of the divisor, and the quotient of floats is derived from the exact
    remainder.
    """
    kind = float if any(type_of_number(a) is float for a in args) else int
    a, b = (_number_value(g, x, kind) for x in args)
    if kind is int:
        quotient, rest = _floor_divide(g, a, b), g.Mod(a, b)
    else:
        zero, rest = g.const(0.0, FLOAT), g.Mod(a, b, fmod=1)
        other_side = g.And(g.Not(g.Equal(rest, zero)), g.Xor(g.Less(rest, zero), g.Less(b, zero)))
        rest = g.Where(other_side, g.Add(rest, b), rest)
        quotient = g.Div(g.Sub(a, rest), b)
    return Number(mark_scalar(quotient), kind), Number(mark_scalar(rest), kind)


def _float_formula(formula: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    return lambda g, *args: formula(g, *(cast(g, a, FLOAT) for a in args))


def _node_formula(name: str) -> Callable[..., ir.Value]:
    return lambda g, *args: g.node(name, args)


def _range_length(g: Graph, low: ir.Value, high: ir.Value, step: ir.Value) -> ir.Value:
    """Return the number of steps from low to high: the ceiling of (high - low) / step, at least 0."""
    return g.Max(g.Neg(_floor_divide(g, g.Sub(low, high), step)), 0)


def _rounding_formula(name: str) -> Callable[..., ir.Value]:
    return lambda g, a: a if g.dtype(a) == INT else g.node(name, [a])


def _logarithm(g: Graph, a: ir.Value, base: ir.Value | None = None) -> ir.Value:
    return g.Log(a) if base is None else g.Div(g.Log(a), g.Log(base))


def _not_equal(g: Graph, a: ir.Value, b: ir.Value) -> ir.Value:
    return g.Not(g.Equal(a, b))


_LOGIC = frozenset(("aten::__and__", "aten::__or__", "aten::__xor__", "aten::__not__"))

_FORMULAS: dict[str, Callable[..., ir.Value]] = {
    "aten::add": _node_formula("Add"),
    "aten::sub": _node_formula("Sub"),
    "aten::mul": _node_formula("Mul"),
    "aten::neg": _node_formula("Neg"),
    "aten::div": _float_formula(_node_formula("Div")),
    "aten::floordiv": _floor_divide,
    "aten::remainder": _remainder,
    "aten::pow": _float_formula(_node_formula("Pow")),
    "prim::min": _node_formula("Min"),
    "prim::max": _node_formula("Max"),
    "prim::abs": _node_formula("Abs"),
    "aten::abs": _node_formula("Abs"),
    "aten::fmod": lambda g, a, b: g.Mod(a, b, fmod=1),
    "aten::eq": _node_formula("Equal"),
    "aten::ne": _not_equal,
    "aten::lt": _node_formula("Less"),
    "aten::le": _node_formula("LessOrEqual"),
    "aten::gt": _node_formula("Greater"),
    "aten::ge": _node_formula("GreaterOrEqual"),
    "aten::__and__": lambda g, a, b: g.And(a, b) if g.dtype(a) == BOOL else g.BitwiseAnd(a, b),
    "aten::__or__": lambda g, a, b: g.Or(a, b) if g.dtype(a) == BOOL else g.BitwiseOr(a, b),
    "aten::__xor__": lambda g, a, b: g.Xor(a, b) if g.dtype(a) == BOOL else g.BitwiseXor(a, b),
    "aten::__not__": lambda g, a: g.Not(cast(g, a, BOOL)),
    "aten::Int": lambda g, a: cast(g, a, INT),
    "aten::Float": lambda g, a: cast(g, a, FLOAT),
    "aten::Bool": lambda g, a: cast(g, a, BOOL),
    "aten::IntImplicit": lambda g, a: a,
    "aten::FloatImplicit": lambda g, a: a,
    "aten::ScalarImplicit": lambda g, a: a,
    "aten::ceil": _rounding_formula("Ceil"),
    "aten::floor": _rounding_formula("Floor"),
    "aten::round": _rounding_formula("Round"),
    "aten::sqrt": _float_formula(_node_formula("Sqrt")),
    "aten::exp": _float_formula(_node_formula("Exp")),
    "aten::log": _float_formula(_logarithm),
    "aten::__range_length": _range_length,
    "aten::__derive_index": lambda g, index, start, step: g.Add(start, g.Mul(index, step)),
    "aten::sym_int": lambda g, a: cast(g, a, INT),
    "aten::sym_float": lambda g, a: cast(g, a, FLOAT),
    **SHIFTS,
    **FUNCTIONS,
}


# -- lists of numbers -------------------------------------------------------------------------------------------------


def _fold_rule(name: str) -> Callable[[Graph, list[Any]], Any]:
    """Return a rule that folds the operator `name` over the numbers of one list."""

    def reduce(g: Graph, args: list[Any]) -> Any:
        if len(args) > 1:
            raise Unsupported("the larger or smaller of two lists with numbers known at run time only")
        items = list(args[0].state)
        kind = float if any(type_of_number(i) is float for i in items) else int
        result = _number_value(g, items[0], kind) if items else g.const(0)
        for item in items[1:]:
            result = g.node(name, [result, _number_value(g, item, kind)])
        return Number(mark_scalar(result), kind)

    return reduce


def _same_numbers(g: Graph, args: list[Any]) -> Any:
    """Return the equality of two lists: lengths are compared now, items at run time."""
    a, b = (list(x.state) for x in args)
    if len(a) != len(b):
        return False
    known = [(x, y) for x, y in zip(a, b, strict=True) if is_known(x) and is_known(y)]
    if any(operator.ne(x, y) for x, y in known):
        return False
    result = None
    for x, y in zip(a, b, strict=True):
        if (is_known(x) and is_known(y)) or (isinstance(x, Number) and isinstance(y, Number) and x.value is y.value):
            continue
        kind = float if float in (type_of_number(x), type_of_number(y)) else int
        same = g.Equal(_number_value(g, x, kind), _number_value(g, y, kind))
        result = same if result is None else g.And(result, same)
    return True if result is None else Number(mark_scalar(result), bool)


def _different_numbers(g: Graph, args: list[Any]) -> Any:
    same = _same_numbers(g, args)
    return not same if isinstance(same, bool) else Number(mark_scalar(g.Not(same.value)), bool)


_LISTS: dict[str, Callable[[Graph, list[Any]], Any]] = {
    "prim::min": _fold_rule("Min"),
    "prim::max": _fold_rule("Max"),
    "aten::sum": _fold_rule("Add"),
    "aten::eq": _same_numbers,
    "aten::ne": _different_numbers,
}
