"""Finds the node where a target departs from the shared graph, in float64, where rounding hides nothing.

The target is read back by its own frontend and both graphs are evaluated on one feed. Values are paired by what they
hold, not by name: backends rename and fuse, and a value keeps its numbers when a layout pass permutes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import plugin
from convert.errors import ConvertError
from convert.graph import location_of
from convert.options import Options
from convert.parity.inputs import Feed
from convert.parity.verdict import Divergence
from convert.report import Report
from convert.source import Source

# Two values are the same if their statistics differ by less than this share of the error at the outputs; weights that
# were folded and rounded to float32 move values by up to 1e-7.
_SHARE, _LEAST, _MOST = 0.03, 2e-7, 1e-5


def locate(graph: ir.Model, target: Source, feed: Feed) -> Divergence | str:
    """Where the target first computes something else than `graph`, or why that cannot be told.

    feed: inputs by name; the smallest at hand will do. A node that a backend fused with the ones after it is named for
    the group.
    """
    try:
        other = plugin.frontend_for(target).read(target, Options(), Report("locate"))
        theirs, ours = _values(other, feed), _values(graph, feed)
    except ConvertError as error:
        return f"the target cannot be read back to find the place: {error.message}"
    distance = _distance(graph, ours, theirs)
    if distance <= _LEAST:
        return "in float64 the artefact computes what the graph does: its runtime is at fault, or its float32 kernels"
    bound = min(max(distance * _SHARE, _LEAST), _MOST)
    found = np.array([_statistics(a) for a in theirs.values() if _floating(a)])
    agreed = {name for name, a in ours.items() if _floating(a) and _among(_statistics(a), found, bound)}
    for node in _departed(graph.graph, ours, agreed):
        return _divergence(node, ours)
    return "every value of the graph is found in the target, and its outputs are not: are they in another order?"


def _values(model: ir.Model, feed: Feed) -> dict[str, Any]:
    from convert.passes.widen import widen
    from convert.runners.reference import run

    return run(widen(model), feed.arrays, every=True)


def _floating(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 0


def _statistics(array: np.ndarray) -> tuple[float, float, float, float, float]:
    """Size, mean, root mean square, least and largest: the same for a permuted or reshaped value."""
    finite = array[np.isfinite(array)] if not np.isfinite(array).all() else array
    if not finite.size:
        return (array.size, 0.0, 0.0, 0.0, 0.0)
    return (array.size, finite.mean(), np.sqrt(np.mean(finite**2)), finite.min(), finite.max())


def _among(wanted: tuple[float, ...], found: np.ndarray, bound: float) -> bool:
    if not len(found):
        return False
    same = found[found[:, 0] == wanted[0]]
    scale = max(wanted[2], np.finfo(np.float64).tiny)
    return bool((np.abs(same[:, 1:] - np.array(wanted[1:])).max(axis=1) <= bound * scale).any()) if len(same) else False


def _distance(graph: ir.Model, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """The largest distance of any element of an output, relative to the output's root mean square."""
    worst = 0.0
    for value in graph.graph.outputs:
        a: Any = ours[str(value.name)]
        b: Any = theirs.get(str(value.name))
        if not _floating(a):
            continue
        if not _floating(b) or a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return np.inf
        mask = np.isfinite(a)
        if mask.any():
            scale = max(float(np.sqrt(np.mean(a[mask] ** 2))), np.finfo(np.float64).tiny)
            worst = max(worst, float(np.abs(a[mask] - b[mask]).max()) / scale)
    return worst


def _departed(graph: ir.Graph, ours: Mapping[str, Any], agreed: set[str]) -> Iterable[ir.Node]:
    """Nodes in order whose floating outputs are not in the target, nor anything that is computed from them."""
    reached: set[int] = set()
    for node in reversed(list(graph)):
        after = any(id(user) in reached for out in node.outputs for user, _ in out.uses())
        if after or any(str(out.name) in agreed for out in node.outputs):
            reached.add(id(node))
    for node in graph:
        if id(node) not in reached and any(_floating(ours.get(str(out.name))) for out in node.outputs):
            yield node


def _divergence(node: ir.Node, values: Mapping[str, Any]) -> Divergence:
    at = location_of(node)
    told = [_told(v, values) for v in node.inputs if v is not None]
    return Divergence(at.operator or node.op_type, at.node, at.module, at.source, told, _told(node.outputs[0], values))


def _told(value: ir.Value, values: Mapping[str, Any]) -> str:
    array = values.get(str(value.name))
    if array is None and value.const_value is not None:
        array = value.const_value.numpy()
    if not isinstance(array, np.ndarray):
        return f"{value.name}: not known"
    shape = f"{value.name}: {array.dtype}{list(array.shape)}"
    if not _floating(array):
        return shape
    _, mean, rms, low, high = _statistics(array.astype(np.float64))
    return f"{shape}, mean {mean:.3g}, rms {rms:.3g}, from {low:.3g} to {high:.3g}"
