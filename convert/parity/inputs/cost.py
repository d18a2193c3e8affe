"""Estimate the cost of a run from the number of elements in a model's weights and inputs."""

from __future__ import annotations

import onnx_ir as ir

from convert.parity.inputs.feeds import Feed

MAX_ELEMENTS = 1_000_000
"""Most elements in weights and inputs of a small model; larger models are too slow for hundreds of runs."""
_PRODUCTS, _ELEMENTS = 1 << 29, 1 << 19
"""Limits of a cheap run: input elements times weights, about the cost of convolutions, and input elements."""


def is_small(graph: ir.Model, feed: Feed) -> bool:
    """Return whether a graph is small enough for many runs on a set of inputs."""
    return _weights(graph) + _elements(feed) <= MAX_ELEMENTS


def is_large(graph: ir.Model) -> bool:
    """Return whether a graph is not small for any inputs, because its weights alone are too many."""
    return _weights(graph) > MAX_ELEMENTS


def is_cheap(graph: ir.Model, feed: Feed) -> bool:
    """Return whether one more run on a set of inputs costs little."""
    return _elements(feed) <= _ELEMENTS and _elements(feed) * _weights(graph) <= _PRODUCTS


def _weights(graph: ir.Model) -> int:
    return sum(v.const_value.size for g in graph.graphs() for v in g.initializers.values() if v.const_value is not None)


def _elements(feed: Feed) -> int:
    return sum(array.size for array in feed.arrays.values())
