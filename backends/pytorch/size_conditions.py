"""Asks during capture for the conditions on sizes under which a graph holds; PyTorch keeps them as guards."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.parity.inputs.size_guards import Arithmetic, value_of

from .torch_internals import check

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.USub: operator.neg, ast.Not: torch.sym_not, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _least(*values: Any) -> Any:
    return functools.reduce(torch.sym_min, values)


def _largest(*values: Any) -> Any:
    return functools.reduce(torch.sym_max, values)


SYMBOLS = Arithmetic(
    _OPERATORS,
    {"min": _least, "max": _largest, "Min": _least, "Max": _largest, "abs": abs},
    functools.partial(functools.reduce, operator.and_),
    functools.partial(functools.reduce, operator.or_),
    numbers=(int,),
)
"""Functions for integers that may be symbols of sizes; Python's own would create guards."""


def expressible(conditions: Sequence[str], inputs: Sequence[ir.Value]) -> list[str]:
    """Return those conditions that are integer arithmetic on named dims of `inputs`."""
    sizes = {name: 8 for value in inputs for _, name in _named_dims(value)}
    return [text for text in conditions if _evaluated(text, sizes) is not None]


def sizes_by_name(inputs: Sequence[ir.Value], tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return the sizes of the named dims of `inputs`, read from the tensors that stand for them."""
    pairs = zip(inputs, tensors, strict=True)
    return {name: tensor.shape[place] for value, tensor in pairs for place, name in _named_dims(value)}


def equal_dims(inputs: Sequence[ir.Value]) -> list[list[tuple[int, int]]]:
    """Return groups of (input, axis) that share a dim name; names of a single dim are left out."""
    found: dict[str, list[tuple[int, int]]] = {}
    for at, value in enumerate(inputs):
        for place, name in _named_dims(value):
            found.setdefault(name, []).append((at, place))
    return [places for places in found.values() if len(places) > 1]


def require_equal(dims: Sequence[Sequence[tuple[int, int]]], tensors: Sequence[torch.Tensor]) -> None:
    """Require that the dims of each group are equal, which makes them one symbol."""
    for (at, place), *others in dims:
        for other, axis in others:
            check(tensors[at].shape[place] == tensors[other].shape[axis])


def require(conditions: Sequence[str], sizes: Mapping[str, Any]) -> None:
    """Require conditions on symbols of sizes, which become guards.

    Raises `Unsupported` if the example's sizes do not meet them.
    """
    for text in conditions:
        if not _evaluated(text, sizes):
            raise Unsupported(f"the sizes of the example do not meet {text}")


def expressions(conditions: Sequence[str], sizes: Mapping[str, Any]) -> list[Any]:
    """Return the conditions as expressions of symbols, without creating guards; always-true ones are left out."""
    found = [_evaluated(text, sizes) for text in conditions]
    return [condition.node.expr for condition in found if isinstance(condition, torch.SymBool)]


def _named_dims(value: ir.Value) -> Iterator[tuple[int, str]]:
    for place, dim in enumerate(value.shape or ()):
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
            yield place, str(dim.value)


def _evaluated(text: str, sizes: Mapping[str, Any]) -> Any:
    """Evaluate a condition on integers or on symbols of sizes; None if it has other names or other arithmetic."""
    try:
        return value_of(text, sizes, SYMBOLS)
    except ValueError:
        return None
