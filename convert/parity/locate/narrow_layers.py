"""Measure what each layer of an 8-bit target loses, and find joined parts of unlike ranges in one scale.

The target is read back, and both graphs are evaluated node by node. The target's values are found by content, as in
`profile.py`. A value that only a QuantizeLinear reads is ignored, because the file does not contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import ConvertError
from convert.graph import location_of
from convert.graph.tensors import holds_floats
from convert.graph.values import inverse_permutation
from convert.outcome.note_codes import INFO
from convert.outcome.notes import Note
from convert.outcome.verdict import LayerLoss
from convert.parity.locate.pairing import read_back
from convert.parity.locate.profile import TargetValues
from convert.parity.pairing.counterparts import Counterparts
from convert.parity.runs.repeats import Moves, transpose_arrays
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source

MAX_LAYERS = 10
"""Most layers that are listed."""
_ROWS = 4
"""Number of samples to evaluate if the batch size is dynamic."""
_STEPS = 255
_FEW = 16
"""A part has a range unlike that of the whole if it spans fewer steps than this."""
_LOW = 30.0
"""SQNR in decibels above which a part has lost nothing, whatever its range is."""

_ROUNDOFF = 1e-12
"""Noise up to this is the rounding error of float32."""


@dataclass
class _Values:
    """The values that both sides compute on the same inputs, by the names of the graph."""

    exact: Mapping[str, Any]
    targets: dict[str, np.ndarray]
    """The target's counterparts of floating values that were found, in the layout of the graph."""

    def noise(self, name: str) -> float | None:
        """Return the mean square of the target's error, relative to that of the value; None without a counterpart."""
        found = self.targets.get(name)
        return None if found is None else _noise(self.exact[name], found)


def layers_of_narrow(
    graph: ir.Model,
    target: Source,
    arrays: Mapping[str, np.ndarray],
    moves: Moves,
    options: Options,
    ends: Counterparts | Names,
) -> tuple[list[LayerLoss], list[Note]]:
    """Return the `MAX_LAYERS` layers that lose most, and notes on joined parts that one scale does not fit.

    arrays: the graph's inputs. moves: the permutation of each input and output that has another layout in the target.
    If one of the graphs cannot be evaluated, or the target has none of the graph's values, a note says so instead.
    """
    from convert.reference.quantized import as_stored

    graph = as_stored(graph)
    arrays = _few_rows(graph, arrays)
    try:
        values = _values(graph, target, arrays, moves, options, ends)
    except ConvertError as error:
        return [], [_not_compared(error.sentence)]
    if not values.targets:  # treat it as if its inputs were integers
        return [], [_not_compared("the target, read back, has none of the graph's values")]
    losses = list(_losses(graph, values))
    return sorted(losses, key=_added_noise, reverse=True)[:MAX_LAYERS], list(_mixed(graph, values))


def _not_compared(why: str) -> Note:
    return Note(f"the layers were not compared: {why}", code="not-compared", level=INFO)


def _few_rows(graph: ir.Model, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return the first `_ROWS` samples if the batch size is dynamic, else all."""
    first = [value.shape[0] for value in graph.graph.inputs if value.shape is not None and len(value.shape)]
    sizes = {len(array) for array in arrays.values() if array.ndim}
    if len(first) != len(arrays) or len(sizes) != 1 or any(isinstance(size, int) for size in first):
        return arrays
    return arrays if len({str(size) for size in first}) > 1 else {n: a[:_ROWS] for n, a in arrays.items()}


def _values(
    graph: ir.Model,
    target: Source,
    arrays: Mapping[str, np.ndarray],
    moves: Moves,
    options: Options,
    ends: Counterparts | Names,
) -> _Values:
    """Evaluate both graphs. Raises `ConvertError` if that is not possible."""
    from convert.passes.to_float64 import widen_model
    from convert.reference.executor import run
    from convert.reference.quantized import is_fused
    from convert.request.stored import FULL

    other = read_back(target, options, ends)
    exact = run(widen_model(graph), arrays, every=True)
    theirs = run(other, transpose_arrays(arrays, moves), every=True)
    outputs = {str(v.name) for v in other.graph.outputs}
    unwritten = {str(v.name) for node in other.graph for v in node.outputs if _is_only_quantized(v)} - outputs
    back = {n: inverse_permutation(p) for n, p in moves.items()}
    known = transpose_arrays({n: theirs[n] for n in outputs if n in theirs}, back)
    candidates = TargetValues({n: array for n, array in theirs.items() if n not in unwritten})
    found: dict[str, np.ndarray] = {}
    for node in graph.graph:
        for value in node.outputs:
            name = str(value.name)
            reference: Any = exact.get(name)
            if not holds_floats(reference) or (is_fused(value, FULL) and name not in known):
                continue
            nearest = known.get(name) if name in known else candidates.nearest_array(reference)
            if nearest is not None and nearest.shape == reference.shape:
                found[name] = nearest
    return _Values(exact, found)


def _is_only_quantized(value: ir.Value) -> bool:
    """Return whether a value is computed from integers to integers, so that the file has it as integers only."""
    uses, producer = list(value.uses()), value.producer()
    computed = producer is not None and producer.op_type != "DequantizeLinear"
    return computed and bool(uses) and all(node.op_type == "QuantizeLinear" for node, _ in uses)


def _losses(graph: ir.Model, values: _Values) -> Iterator[LayerLoss]:
    """Yield the loss of each node whose result the target has: its noise, and the largest noise of its inputs."""
    for node in graph.graph:
        own = values.noise(str(node.outputs[0].name))
        if own is None or own <= 0:
            continue
        before = max((_noise_before(value, values) for value in node.inputs if value is not None), default=0.0)
        at = location_of(node)
        loss = LayerLoss(at.node, at.operator, at.module, at.source, _decibels(own), _decibels(before))
        if own > before:
            yield loss


def _noise_before(value: ir.Value, values: _Values) -> float:
    """Return the noise of a value, or the noise of the nearest values before it that the target has; 0 for inputs and
    weights.
    """
    waiting, seen, found = [value], {value}, 0.0
    while waiting:
        value = waiting.pop()
        own = values.noise(str(value.name))
        producer = value.producer()
        if own is not None:
            found = max(found, own)
        elif producer is not None:
            more = [v for v in producer.inputs if v is not None and v not in seen]
            seen.update(more)
            waiting += more
    return found


def _added_noise(loss: LayerLoss) -> float:
    return float(10 ** (-loss.sqnr / 10) - 10 ** (-loss.before / 10))


def _mixed(graph: ir.Model, values: _Values) -> Iterator[Note]:
    """Yield a note for each Concat in which a part spans few steps of the common range and therefore loses accuracy."""
    for node in graph.graph:
        name = str(node.outputs[0].name)
        if node.op_type != "Concat" or node.domain or name not in values.targets:
            continue
        parts: dict[str, Any] = {str(v.name): values.exact.get(str(v.name)) for v in node.inputs if v is not None}
        axis = node.attributes.get_int("axis", 0) or 0
        if len(parts) != len(node.inputs) or not all(holds_floats(array) for array in parts.values()):
            continue
        step = _width(np.concatenate([array.ravel() for array in parts.values()])) / _STEPS
        ends = np.cumsum([array.shape[axis] for array in parts.values()])
        got = dict(zip(parts, np.split(values.targets[name], ends[:-1], axis), strict=True))
        worst = min(parts, key=lambda part: _width(parts[part]))
        noise = _noise(parts[worst], got[worst])
        if _width(parts[worst]) < _FEW * step and noise is not None and _decibels(noise) < _LOW:
            yield _note(node, parts, worst, _width(parts[worst]) / step, _decibels(noise))


def _note(node: ir.Node, parts: Mapping[str, Any], worst: str, steps: float, decibels: float) -> Note:
    widest = max(parts, key=lambda part: _width(parts[part]))
    shown = {part: f"{part!r} ({parts[part].min():.3g} to {parts[part].max():.3g})" for part in (worst, widest)}
    return Note(
        f"{str(node.outputs[0].name)!r} joins {shown[worst]} to {shown[widest]} in one scale of 8 bits, which leaves "
        f"the first {steps:.1f} of {_STEPS} steps (SQNR {decibels:.1f} dB): compute the join in floats (tflite: "
        f"--keep-float {node.name or 'Concat'}), or give each part an output of its own (an ONNX source: --outputs "
        f"{','.join(parts)})",
        code="mixed-ranges",
        operators=("Concat",),
    )


def _width(array: np.ndarray) -> float:
    """Return the width of the range that quantization steps for these numbers span, which includes 0."""
    finite = array[np.isfinite(array)]
    return float(finite.max(initial=0.0) - finite.min(initial=0.0))


def _noise(exact: np.ndarray, got: np.ndarray) -> float | None:
    finite = np.isfinite(exact) & np.isfinite(got)
    power = float(np.sum(np.square(exact[finite], dtype=np.float64)))
    if not power:
        return None
    noise = float(np.sum((got[finite].astype(np.float64) - exact[finite]) ** 2)) / power
    return noise if noise > _ROUNDOFF else 0.0


def _decibels(noise: float) -> float:
    return float(-10 * np.log10(noise)) if noise > 0 else np.inf
