"""Estimates the cost of a run from the numbers that a model holds and takes."""

from __future__ import annotations

import onnx_ir as ir

from convert.parity.inputs.feeds import Feed

MOST = 1_000_000
"""Numbers in weights and inputs: larger models take too long to be run hundreds of times."""
_PRODUCTS, _ELEMENTS = 1 << 29, 1 << 19
"""Elements of the inputs times weights, about what the convolutions of a model cost, and elements, at the most."""


def is_small(graph: ir.Model, feed: Feed) -> bool:
    """Return whether a graph may be run often on a set of inputs."""
    return _weights(graph) + _elements(feed) <= MOST


def is_large(graph: ir.Model) -> bool:
    """Return whether a graph is not small whatever it is fed: what it holds is too much by itself."""
    return _weights(graph) > MOST


def is_cheap(graph: ir.Model, feed: Feed) -> bool:
    """Return whether one more run on a set of inputs costs little."""
    return _elements(feed) <= _ELEMENTS and _elements(feed) * _weights(graph) <= _PRODUCTS


def _weights(graph: ir.Model) -> int:
    return sum(v.const_value.size for g in graph.graphs() for v in g.initializers.values() if v.const_value is not None)


def _elements(feed: Feed) -> int:
    return sum(array.size for array in feed.arrays.values())
