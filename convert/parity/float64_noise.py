"""The noise floor of outputs that are float64 as deployed: their source has no more exact run to be compared with.

As deployed and in float64 such a source computes the same, to the last bit, and its own error would be none. What
another order of sums does is taken in its stead, and what formats do whose attributes are float32, as an epsilon in
ONNX: the graph in float64, with every sum taken number after number, from either end, and every attribute rounded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.activity import limited_time
from convert.errors import ConvertError, Unsupported
from convert.parity.compare import FACTOR, FLOAT64_BOUND, ROUNDINGS, ROUNDOFF, float64_error
from convert.parity.floors import LONGEST, distance
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.runners.process import Outputs

_LEAST = FACTOR * ROUNDINGS * ROUNDOFF["float64"]


def with_float64_noise(graph: ir.Model, feeds: Sequence[Feed], runs: RunOutputs) -> tuple[RunOutputs, list[str]]:
    """The runs, with outputs of float64 that the graph gives so in place of the source's own as deployed, and notes.

    Only where a target is further from the source than a few roundings, and the graph is not (`FLOAT64_BOUND`).
    """
    single, exact, own = runs.source["float32"], runs.source["float64"], runs.graph_float64
    if isinstance(single, Unsupported) or isinstance(exact, Unsupported) or isinstance(own, Unsupported):
        return runs, []
    names = [str(v.name) for v in graph.graph.outputs]
    if runs.narrowed is not None or any(len(outputs) != len(names) for outputs in single):
        return runs, []
    far = {n for place, n in enumerate(names) if _is_far(place, n, runs, single, exact, own)}
    if not far:
        return runs, []
    summed = _sums_in_other_orders(_with_rounded_attributes(graph), feeds)
    if not summed:
        return runs, []
    noisy = [
        {
            key: _farthest(array, [np.asarray(found[place][n]) for found in summed]) if n in far else array
            for (key, array), n in zip(outputs.items(), names, strict=True)
        }
        for place, outputs in enumerate(single)
    ]
    note = f"{', '.join(sorted(far))}: float64 as deployed, held to sums in another order and to attributes in float32"
    return replace(runs, source={**runs.source, "float32": noisy}), [note]


def _sums_in_other_orders(graph: ir.Model, feeds: Sequence[Feed]) -> list[list[dict[str, Any]]]:
    """Outputs of the graph on each feed with sums from the first number on, and from the last, as far as time allows.

    Some kernels begin with the first number themselves (OpenBLAS's for small matrices and AVX-512): to a source that
    runs on them that order is no other one.
    """
    from convert.reference.one_by_one import run_one_by_one

    found = []
    for backwards in (False, True):
        with contextlib.suppress(ConvertError), limited_time(LONGEST):
            found.append([run_one_by_one(graph, feed.arrays, backwards=backwards) for feed in feeds])
    return found


def _farthest(array: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Of each element the one that is farthest from the array's."""
    farthest = others[0]
    for other in others[1:]:
        if other.shape == farthest.shape == array.shape:
            farthest = np.where(np.abs(other - array) > np.abs(farthest - array), other, farthest)
    return farthest


def _with_rounded_attributes(graph: ir.Model) -> ir.Model:
    """A copy of the graph with the numbers of its operators as files of ONNX have them."""
    copy = graph.clone()
    for node in copy.graph.all_nodes():
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.FLOAT:
                node.attributes[name] = ir.AttrFloat32(name, float(np.float32(attribute.as_float())))
    return copy


def _is_far(place: int, name: str, runs: RunOutputs, single: Outputs, exact: Outputs, own: Outputs) -> bool:
    """Whether an output is float64 and a target's too far off, in any way of using it, while the graph's is not."""
    wanted = [list(outputs.values())[place] for outputs in single]
    right = [list(outputs.values())[place] for outputs in exact]
    if any(a.dtype != np.float64 for a in wanted) or any(
        float64_error(a, outputs[name]) > FLOAT64_BOUND for a, outputs in zip(right, own, strict=True)
    ):
        return False
    return any(
        name in outputs and _LEAST < distance(outputs[name], a) < FLOAT64_BOUND
        for way in (runs.target, *runs.others.values())
        for outputs, a in zip(way, right, strict=False)
    )
