"""Describe the inputs behind a verdict: the number of sets, their sizes, and their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from convert.graph.metadata import PATHS_KEY
from convert.graph.tensors import widened_array
from convert.outcome.text import counted
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.size_branches import uncovered_branches


def describe_coverage(graph: ir.Model, feeds: Sequence[Feed]) -> str:
    """Return what the feeds cover, such as `5 input sets; batch 1–9; x from -3.1e+03 to 1.0e+03`.

    Sizes are those of dynamic dims, by name or as `input.axis`. Values are the range of the finite numbers of each
    input. If the graph has branches that depend on sizes, the text ends with how many of them the feeds take.
    """
    values = [_values(str(value.name), feeds) for value in graph.graph.inputs]
    ways, left = len(graph.meta.get(PATHS_KEY, [])), len(uncovered_branches(graph, feeds))
    taken = f"{ways - left} of {ways} ways that depend on sizes" if ways else ""
    sets = "; ".join(filter(None, _sets(graph, feeds)))
    return "; ".join(part for part in (sets, ", ".join(filter(None, values)), taken) if part)


def describe_sets(graph: ir.Model, feeds: Sequence[Feed]) -> str:
    """Return the number of input sets and the sizes of dynamic dims, such as `5 input sets, batch 1–9`."""
    return ", ".join(filter(None, _sets(graph, feeds)))


def _sets(graph: ir.Model, feeds: Sequence[Feed]) -> tuple[str, str]:
    """Return the number of input sets as text, and the sizes of dynamic dims."""
    sizes: dict[str, set[int]] = {}
    for value in graph.graph.inputs:
        shapes = [feed.arrays[str(value.name)].shape for feed in feeds if str(value.name) in feed.arrays]
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, ir.SymbolicDim):
                found = sizes.setdefault(dim.value or f"{value.name}.{axis}", set())
                found.update(shape[axis] for shape in shapes)
    dims = [f"{name} {_span(min(found), max(found))}" for name, found in sizes.items() if found]
    return counted(len(feeds), "input set"), ", ".join(dims)


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def _values(name: str, feeds: Sequence[Feed]) -> str:
    arrays = [np.ravel(feed.arrays[name]) for feed in feeds if name in feed.arrays]
    flat = np.concatenate([widened_array(a) for a in arrays if a.dtype.kind not in "OUSbc"] or [np.zeros(0)])
    if flat.dtype.kind in "iu":
        return f"{name} from {flat.min()} to {flat.max()}" if flat.size else ""
    finite = flat[np.isfinite(flat)]
    return f"{name} from {finite.min():.2g} to {finite.max():.2g}" if finite.size else ""
