"""Generate inputs that are longer than all others: past the lengths in a graph, or as long as is cheap.

A layer that returns zeros from step 150 on, or attention with a window of 40, agrees with a correct one on shorter
inputs. The lengths appear in one of the graphs, often only in the target's. They are integers that positions are
compared with, and ends of slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

import onnx_ir as ir

from convert.graph.values import constant, constant_integers, known_dims, quantizes
from convert.parity.inputs.boundary_values import COUNTERPART_KEY
from convert.parity.inputs.feeds import (
    RANK,
    Feed,
    fed_shape,
    feed_sizes,
    free_dims,
    possible_sizes,
    sized_feed,
)

_LEAST, _MOST = 3, 2048
"""Range of integers that may be a length."""
_NUMBERS = 4
"""Most elements of a constant that may contain lengths, such as the ends of a Slice; larger ones are tables."""
_OTHERWISE = 257
"""Length to use if the graphs have no such integers: a prime, past the blocks of most kernels."""
_PRODUCTS = 1 << 32
"""Upper bound on steps or pixels of the inputs times weights: a few seconds in float64."""

_POSITIONS = frozenset(
    (
        "Add", "Clip", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Range",
        "Slice", "Sub", "Trilu",
    )
)  # fmt: skip
"""Operators that take a length as an integer."""


def long_feeds(model: ir.Model, seed: int) -> list[Feed]:
    """Return sets whose inner dims, and whose leading dims, exceed the largest length in the graphs that is cheap.

    All other dims have their smallest size. Leading dims, usually a batch, are long only if there is such a length. The
    result is [] if the graph quantizes, or if no such size is within bounds, guards and cost. The source may reject the
    sets.
    """
    free = free_dims(model)
    if RANK in free or quantizes(model):
        return []
    spoken = sorted({n for graph in _graphs(model) for n in _lengths(graph)}, reverse=True)
    # Exceed a length by an eighth: one step among hundreds would change the whole output only a little.
    lengths = [n + n // 8 + 2 for n in spoken]
    inner, leading = ([name for name, leads in free.items() if leads is which] for which in (False, True))
    found = [_long_feed(model, seed, inner, [*lengths, _OTHERWISE]), _long_feed(model, seed + 1, leading, lengths)]
    return [feed for feed in found if feed is not None]


def _long_feed(model: ir.Model, seed: int, dims: Sequence[str], lengths: Sequence[int]) -> Feed | None:
    """Return a set in which `dims` have the first possible of `lengths`, and others their smallest size, or None."""
    free, usual = free_dims(model), list(feed_sizes(model, 3))
    for length in lengths if dims else ():
        sizes = possible_sizes(model, {n: length if n in dims else 1 for n in free})
        if sizes is None or all(any(u[n] >= sizes[n] for u in usual) for n in dims):
            continue
        if _cost(model, sizes) <= _PRODUCTS:
            return replace(sized_feed(model, seed, sizes), edge=True, uneven=True)
    return None


def _graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the graph, the target's graph if it is known, and their subgraphs."""
    counterparts = [v.meta[COUNTERPART_KEY].graph for v in model.graph.inputs if COUNTERPART_KEY in v.meta]
    found: list[ir.Graph] = []
    for graph in (model.graph, *counterparts[:1]):
        if graph is not None:
            found += [graph, *graph.subgraphs()]
    return found


def _lengths(graph: ir.Graph) -> Iterator[int]:
    """Yield the integers that a graph may compare a position or a size with."""
    for node in graph:
        if node.domain or node.op_type not in _POSITIONS:
            continue
        given = node.inputs[1:] if node.op_type in ("Slice", "Trilu") else node.inputs
        if node.op_type == "Slice" and _is_of_known_length(node):
            continue
        for value in given:
            tensor = constant(value)
            if tensor is not None and tensor.dtype.is_integer() and tensor.size <= _NUMBERS:
                yield from (abs(n) for n in constant_integers(value) or () if _LEAST <= abs(n) <= _MOST)


def _is_of_known_length(node: ir.Node) -> bool:
    """Return whether a Slice has an input with fixed dims only; its bounds then say nothing about dynamic dims."""
    dims = known_dims(node.inputs[0]) if node.inputs[0] is not None else None
    return dims is not None and all(isinstance(d, int) for d in dims)


def _cost(model: ir.Model, sizes: dict[str, int]) -> int:
    """Return about how many products the model computes: its weights times the steps or pixels of its inputs."""
    steps = sum(
        prod(
            size
            for size, dim in zip(fed_shape(value, sizes), value.shape or (), strict=False)
            if not isinstance(dim, int)
        )
        for value in model.graph.inputs
    )
    weights = sum(v.const_value.size for v in model.graph.initializers.values() if v.const_value is not None)
    return steps * max(weights, 1)
