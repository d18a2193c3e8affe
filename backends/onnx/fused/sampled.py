"""Evaluates small parts of a decoder on samples, to find out what they compute however they are written.

A mask and the cosines of a rotary embedding are written in many ways. They depend on a few inputs only, so samples
show what they are: a table by position, or a causal mask with a window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph.values import known_dims
from convert.reference.executor import run
from convert.runtimes.generation import PAST

IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"


class Samples:
    """Evaluates values of `model`, each as a graph of its own that is made once."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.parts: dict[str, ir.Model] = {}

    def evaluate(self, value: ir.Value, feeds: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """Return `value` for these inputs; None if it depends on other inputs, or cannot be evaluated.

        Also returns None if it depends on tokens or on the content of the cache: no samples of these show everything.
        """
        part = self._part(str(value.name))
        names = {str(v.name) for v in part.graph.inputs}
        if not names <= feeds.keys() or any(_is_content_read(v) for v in part.graph.inputs):
            return None
        try:
            return np.asarray(run(part, {name: feeds[name] for name in names})[str(value.name)])
        except ConvertError:
            return None

    def _part(self, name: str) -> ir.Model:
        """Return the graph that computes the value `name`, with the inputs that it needs."""
        if name in self.parts:
            return self.parts[name]
        part = self.model.clone()
        graph = part.graph
        values = [*graph.inputs, *(v for node in graph for v in node.outputs)]
        graph.outputs[:] = [next(v for v in values if v.name == name)]
        for node in reversed(list(graph)):
            if not any(v.uses() or v.is_graph_output() for v in node.outputs):
                graph.remove(node, safe=True)
        for value in [v for v in graph.inputs if not v.uses() and not v.is_graph_output()]:
            graph.inputs.remove(value)
        self.parts[name] = part
        return part


def _is_content_read(value: ir.Value) -> bool:
    """Return whether the tokens or a cache are read for more than their shape."""
    name = str(value.name)
    return (name == IDS or name.startswith(PAST)) and any(node.op_type != "Shape" for node in value.consumers())


def decoder_feeds(model: ir.Model, mask: np.ndarray, length: int) -> dict[str, np.ndarray]:
    """Return inputs of a call with `length` new tokens, whose mask is `mask` [rows, past + length].

    Tokens and the cache have no content, only a shape.
    """
    rows, total = mask.shape
    feeds = {IDS: np.zeros((rows, length), np.int64), MASK: mask.astype(np.int64)}
    for value in model.graph.inputs:
        dims = known_dims(value)
        if str(value.name).startswith(PAST) and dims is not None and len(dims) == 4:
            inner = [d if isinstance(d, int) else total - length for d in dims[1:]]
            feeds[str(value.name)] = np.broadcast_to(np.float32(0), (rows, *inner))
    return feeds


def table_by_position(samples: Samples, value: ir.Value, count: int) -> np.ndarray | None:
    """Return the table [count, size] that `value` looks up by `position_ids`; None if it is not such a lookup."""
    places = np.random.default_rng(0).integers(0, min(count, 64), (2, 5))
    whole, some = (samples.evaluate(value, {POSITIONS: p}) for p in (np.arange(count)[None], places))
    if whole is None or some is None or whole.size % count or some.size % places.size:
        return None
    table = whole.reshape(count, -1)
    if some.size != places.size * table.shape[1]:
        return None
    same = np.allclose(some.reshape(places.size, -1), table[places.ravel()], rtol=1e-6, atol=1e-6)
    return table if same else None


_SIZES = ((2, 5, 0), (3, 1, 7), (2, 4, 3), (2, 9, 40))
"""Rows, new tokens and earlier tokens of the samples of a mask."""


def causal_window(samples: Samples, value: ir.Value, context: int) -> int | None:
    """Return the window of a causal mask [rows, 1, new, all], -1 without one; None for any other mask.

    A query sees the keys up to its own, at most `window` of them, that `attention_mask` does not hide.
    """
    rng = np.random.default_rng(0)
    longest = _shown(samples, value, np.ones((1, context), bool), 1)
    if longest is None:
        return None
    seen = int(longest.sum())
    window = seen if seen < context else -1
    masks = [(rng.random((rows, new + past)) < 0.7, new) for rows, new, past in _SIZES]
    for mask, _ in masks:
        mask[0, :2] = False
    masks.append((np.ones((1, context // 2 + 3), bool), 2))
    for mask, new in masks:
        found = _shown(samples, value, mask, new)
        if found is None or not np.array_equal(found, _expected(mask, new, window)):
            return None
    return window


def _shown(samples: Samples, value: ir.Value, mask: np.ndarray, new: int) -> np.ndarray | None:
    """Return which keys each query sees, [rows, new, all]; None unless the mask has one form for all heads."""
    found = samples.evaluate(value, decoder_feeds(samples.model, mask, new))
    if found is None or found.ndim != 4 or found.shape[1] != 1:
        return None
    if found.dtype != bool:
        if not np.all((found == 0) | (found < -1e30)):
            return None
        found = found == 0
    return np.broadcast_to(found[:, 0], (len(mask), new, mask.shape[1]))


def _expected(mask: np.ndarray, new: int, window: int) -> np.ndarray:
    keys = np.arange(mask.shape[1])
    own = keys[-new:, None]
    shown = keys <= own
    if window >= 0:
        shown &= keys > own - window
    return shown[None] & mask[:, None, :]
