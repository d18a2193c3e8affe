"""Conditions on sizes under which a graph holds, asked while it is captured: PyTorch keeps them as guards."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph.metadata import SIZE_CHECK_KEY
from convert.passes.size_checks import size_checks
from convert.report import Report

_BINARY: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.And: operator.and_, ast.Or: operator.or_,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": torch.sym_min, "max": torch.sym_max, "Min": torch.sym_min, "Max": torch.sym_max, "abs": abs
}  # fmt: skip


def conditions_of(model: ir.Model) -> list[str]:
    """What the checks of sizes in a model ask, each once: `batch >= 4`, `height % 8 == 0`."""
    return list(dict.fromkeys(node.metadata_props[SIZE_CHECK_KEY] for node in size_checks(model)))


def expressible(conditions: Sequence[str], inputs: Sequence[ir.Value]) -> list[str]:
    """Those of `conditions` that are arithmetic of integers on named dims of `inputs`."""
    sizes = {name: 8 for value in inputs for _, name in _named_dims(value)}
    return [text for text in conditions if _evaluated(text, sizes) is not None]


def sizes_by_name(inputs: Sequence[ir.Value], tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
    """The named dims of `inputs`, as those of the tensors that stand for them."""
    pairs = zip(inputs, tensors, strict=True)
    return {name: tensor.shape[place] for value, tensor in pairs for place, name in _named_dims(value)}


def equal_dims(inputs: Sequence[ir.Value]) -> list[list[tuple[int, int]]]:
    """The dims that have one name, as the places of their inputs and their own; without names that one dim has."""
    found: dict[str, list[tuple[int, int]]] = {}
    for at, value in enumerate(inputs):
        for place, name in _named_dims(value):
            found.setdefault(name, []).append((at, place))
    return [places for places in found.values() if len(places) > 1]


def require_equal(dims: Sequence[Sequence[tuple[int, int]]], tensors: Sequence[torch.Tensor]) -> None:
    """Ask that the dims of each group are equal, which makes one symbol of theirs."""
    for (at, place), *others in dims:
        for other, its in others:
            torch._check(tensors[at].shape[place] == tensors[other].shape[its])


def require(conditions: Sequence[str], sizes: Mapping[str, Any]) -> None:
    """Ask for the conditions of symbols of sizes by their names, which makes guards of them.

    Raises `Unsupported` for sizes that do not meet them, of which examples are none.
    """
    for text in conditions:
        if not _evaluated(text, sizes):
            raise Unsupported(f"the sizes of the example do not meet {text}")


def expressions(conditions: Sequence[str], sizes: Mapping[str, Any]) -> list[Any]:
    """The conditions as expressions of symbols, nothing of which is asked; without those that hold for all sizes."""
    found = [_evaluated(text, sizes) for text in conditions]
    return [condition.node.expr for condition in found if isinstance(condition, torch.SymBool)]


def note_unmet(lost: Sequence[str], form: str, report: Report) -> None:
    """Tell the user of sizes that the target takes although the model is not made for them."""
    if lost:
        report.note(f"{form} cannot refuse sizes: give it only such as meet {' and '.join(lost)}")


def _named_dims(value: ir.Value) -> Iterator[tuple[int, str]]:
    for place, dim in enumerate(value.shape or ()):
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
            yield place, str(dim.value)


def _evaluated(text: str, sizes: Mapping[str, Any]) -> Any:
    """A condition on integers or on symbols of sizes; None for one that has other names or other arithmetic."""
    try:
        return _value(ast.parse(text, mode="eval").body, sizes)
    except (Unsupported, SyntaxError, ArithmeticError, RecursionError):
        return None


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return torch.sym_not(_value(operand, sizes))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.BoolOp(op=op, values=values):
            return functools.reduce(_BINARY[type(op)], [_value(v, sizes) for v in values])
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            found = [_value(a, sizes) for a in arguments]
            return _FUNCTIONS[name](*found) if name == "abs" else functools.reduce(_FUNCTIONS[name], found)
    raise Unsupported(f"{ast.unparse(node)!r} is no arithmetic on sizes")
