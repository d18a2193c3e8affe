"""Compare the axes and epsilons of two graphs, because random inputs seldom reveal a changed epsilon.

An epsilon of 1e-12 instead of 1e-5 shows only where a variance is small, and an axis only where sizes differ. A
converter keeps an epsilon, in an attribute or in a constant, unless it folds a normalization into weights. It keeps
axes if it keeps the operators and their order; a layout pass moves them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.values import constant, constant_integers, input_at, nodes_of, rank
from convert.rules.onnx_schemas import operator_of, schema

_FOLDED = frozenset({"BatchNormalization"})
"""Normalizations that become factors and offsets of weights, which do not contain their epsilon."""
_AXES = frozenset({"axis", "axes"})

Counts = dict[str, Counter[Hashable]]
"""Number of occurrences of each value among the nodes of an operator."""


def changed_attributes(left: ir.Model, right: ir.Model) -> list[str]:
    """Describe the epsilons and axes of the first graph that differ in the second."""
    ours, theirs = list(nodes_of(left.graph)), list(nodes_of(right.graph))
    changed = _changed_epsilons(ours, theirs)
    if [operator_of(node) for node in ours] == [operator_of(node) for node in theirs]:
        changed += _differences("axes", _counted(ours, _axes), _counted(theirs, _axes))
    return changed


def _changed_epsilons(ours: Sequence[ir.Node], theirs: Sequence[ir.Node]) -> list[str]:
    """Describe changed epsilons: by operator if both sides have as many of it, else by search among all numbers."""
    mine, others = _counted(ours, _epsilon), _counted(theirs, _epsilon)
    kept = {operator for operator, found in mine.items() if found.total() == others[operator].total()}
    changed = _differences("epsilon", {operator: mine[operator] for operator in kept}, others)
    rest = sorted(mine.keys() - kept - _FOLDED)
    numbers = set(_single_numbers(theirs)) if rest else set()
    return changed + [
        f"epsilon {epsilon} of {operator}" for operator in rest for epsilon in mine[operator] if epsilon not in numbers
    ]


def _counted(nodes: Sequence[ir.Node], read: Callable[[ir.Node], Hashable | None]) -> defaultdict[str, Counter]:
    """Count the values that `read` returns, by operator; None is not counted."""
    found: defaultdict[str, Counter] = defaultdict(Counter)
    for node in nodes:
        value = read(node)
        if value is not None:
            found[operator_of(node)][value] += 1
    return found


def _differences(what: str, ours: Counts, theirs: Counts) -> list[str]:
    return [
        f"{what} {value} of {operator} in {count} of {found.total()} nodes"
        for operator, found in ours.items()
        for value, count in (found - theirs[operator]).items()
    ]


def _epsilon(node: ir.Node) -> str | None:
    """Return the epsilon of a node, by default its schema's; None for zero, and for operators without epsilon."""
    described = schema(operator_of(node))
    defaults = {} if described is None else {a.name: a.default for a in described.keyword}
    if "epsilon" not in defaults:
        return None
    epsilon = node.attributes.get_float("epsilon", defaults["epsilon"])
    return _digits(epsilon) if epsilon else None


def _digits(number: float) -> str:
    """Return a number with the digits that float32 has, so that 1e-5 is the same in float64."""
    return f"{number:.6g}"


def _axes(node: ir.Node) -> tuple[int, ...] | None:
    """Return the axes of a node, counted from the front, from attributes or constants; None if they are not known."""
    described, ndim = schema(operator_of(node)), rank(input_at(node, 0))
    if described is None or ndim is None:
        return None
    found: list[int] = []
    for place, argument in enumerate(described.positional):
        if argument.name in _AXES:
            found += constant_integers(input_at(node, place)) or []
    for argument in described.keyword:
        if argument.name in _AXES:
            given = node.attributes.get(argument.name)
            value = argument.default if given is None else given.value
            found += np.ravel(value).astype(int).tolist() if value is not None else []
    return tuple(sorted(axis % ndim if ndim else axis for axis in found))


def _single_numbers(nodes: Sequence[ir.Node]) -> Iterator[str]:
    """Yield the epsilons of nodes, and the numbers of their constant inputs that have one value throughout."""
    for node in nodes:
        epsilon = _epsilon(node)
        if epsilon is not None:
            yield epsilon
        for value in node.inputs:
            tensor = constant(value)
            if tensor is not None and tensor.dtype.is_floating_point() and tensor.size:
                array = tensor.numpy().ravel()
                if (array == array[0]).all():
                    yield _digits(float(array[0]))
