"""Chooses which operators of a calibrated file compute in floats, although 8 bits would be possible.

Some kernels in 8 bits are much slower than those in floats, and each of their results is rounded. Operators with
weights compute in 8 bits. For all others, a minimum cut finds the choice with the lowest costs of kernels, conversions
and roundings (`kernel_costs.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from convert.passes.layout.min_cut import AS_IS, MOVED, Term, minimum_cut

from .file_objects import LiteFile
from .kernel_costs import (
    CONVERSION,
    COSTS,
    OTHER_MOVED,
    OUTSIDE,
    OUTSIDE_IN_INTEGERS,
    PRODUCT,
    ROUNDING,
    START,
    WEIGHTED,
)
from .kernel_costs import MOVED as MOVED_COSTS
from .kernel_rules import COMPUTING, MOVING

_FLOATS, _INTEGERS, _FIRST = AS_IS, MOVED, 2
"""The two labels of the cut, and the number of the first operator that has a choice."""
_UNIT = 1000
"""Prices are whole nanoseconds."""


CHOSEN = frozenset((*COSTS, "BATCH_MATMUL"))
"""Operators that compute, for which there is a choice. Those that only move numbers follow their neighbours."""


def choose_floats(file: LiteFile, kept: Collection[int]) -> set[int]:
    """Return the operators of the outermost graph, by number, that should compute in floats. kept: those that have to.

    Operators without known costs stay as the converter has them.
    """
    graph = file.model.subgraphs[0]
    numbers: list[int] = []
    count = 2
    for number, operator in enumerate(graph.operators):
        name = file.name(operator)
        if number not in kept and name in _FREE:
            numbers.append(count)
            count += 1
        else:
            numbers.append(_INTEGERS if name in (*WEIGHTED, *COMPUTING) and number not in kept else _FLOATS)
    terms: list[Term] = []
    for own, operator in zip(numbers, graph.operators, strict=True):
        if own >= _FIRST:
            in_floats, in_integers = _prices(file, operator)
            terms += [Term(_INTEGERS, (own,), in_floats), Term(_FLOATS, (own,), in_integers)]
    labels = minimum_cut(count, [*terms, *_conversions(file, numbers), *_roundings(file, numbers)])
    return {number for number, own in enumerate(numbers) if own >= _FIRST and not labels[own]}


_MOVES = frozenset((*MOVED_COSTS, *MOVING)) - CHOSEN
_FREE = CHOSEN | _MOVES


def _prices(file: LiteFile, operator: Any) -> tuple[int, int]:
    """Return the price of an operator in floats, and in 8 bits."""
    name, tensors = file.name(operator), file.model.subgraphs[0].tensors
    size = max(_size(tensors[int(t)]) for t in (*operator.inputs, *operator.outputs) if t >= 0)
    if name == "BATCH_MATMUL":
        result = _size(tensors[int(operator.outputs[0])])
        depth = int(tensors[int(operator.inputs[0])].shape[-2 if operator.builtinOptions.adjX else -1])
        floats, integers = (cost * depth * result for cost in PRODUCT)
    elif name in COSTS:
        floats, integers = (cost * size for cost in COSTS[name])
        integers += OUTSIDE * (name in OUTSIDE_IN_INTEGERS)
    else:
        floats, integers = (cost * size for cost in MOVED_COSTS.get(name, OTHER_MOVED))
    return (floats + START) // _UNIT, (integers + START) // _UNIT


def _conversions(file: LiteFile, numbers: list[int]) -> list[Term]:
    """Return a term for each float value: if an operator that reads it computes otherwise, it is converted once."""
    graph = file.model.subgraphs[0]
    sources = dict.fromkeys(map(int, graph.inputs), _FLOATS)
    readers: dict[int, list[int]] = {int(t): [_FLOATS] for t in graph.outputs}
    for own, operator in zip(numbers, graph.operators, strict=True):
        sources |= dict.fromkeys(map(int, operator.outputs), own)
        for tensor in map(int, operator.inputs):
            readers.setdefault(tensor, []).append(own)
    return [
        Term(own, tuple(dict.fromkeys(readers[tensor])), (CONVERSION * _size(graph.tensors[tensor]) + START) // _UNIT)
        for tensor, own in sources.items()
        if tensor in readers and _is_float(graph.tensors[tensor])
    ]


def _roundings(file: LiteFile, numbers: list[int]) -> list[Term]:
    """Return a term for each value that an operator computes, which is rounded once at most.

    It is rounded if this operator computes in 8 bits, or one that reads it. Operators that only move numbers in between
    do not matter.
    """
    graph = file.model.subgraphs[0]
    users: dict[int, set[int]] = {}
    terms = []
    for own, operator in reversed(list(zip(numbers, graph.operators, strict=True))):
        labels = {own}
        for tensor in map(int, operator.outputs):
            labels |= users.get(tensor, set())
            if file.name(operator) in CHOSEN and _is_float(graph.tensors[tensor]):
                found = users.get(tensor, set()) | {own}
                if _INTEGERS not in found:  # otherwise it is rounded in any case
                    terms.append(Term(_FLOATS, tuple(found), ROUNDING * _size(graph.tensors[tensor]) // _UNIT))
        labels = labels if file.name(operator) in _MOVES else {own}
        for tensor in map(int, operator.inputs):
            users.setdefault(tensor, set()).update(labels)
    return terms


def _is_float(tensor: Any) -> bool:
    return bool(tensor.type == schema.TensorType.FLOAT32)


def _size(tensor: Any) -> int:
    """Return the number of elements; an open dim counts as 1."""
    return int(np.prod([] if tensor.shape is None else np.maximum(tensor.shape, 1)))
