"""Recognizes LSTM, GRU and simple RNN layers in the subgraph of a loop's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph
from convert.graph.tensors import lazy_tensor
from convert.patterns.recurrent.cells import RecurrentCell
from convert.patterns.recurrent.linear_terms import WeightSlice
from convert.patterns.recurrent.sequence_masks import (
    Guard,
    GuardedValue,
    SequencePacking,
    have_same_guard,
    is_iteration_number,
    is_zero,
    make_packing,
    sequence_ends,
    split_guard,
)
from convert.patterns.recurrent.stack import RecurrentLayer, lift_to_sequence, match_layers

_MOST = 32  # maximum number of loop states for which cells are searched


@dataclass(frozen=True)
class RecurrentOutputs:
    """The final states, and for each list of the loop the elements of all iterations, and of the last one."""

    states: list[ir.Value]
    outputs: list[ir.Value]
    last: list[ir.Value]


def emit_recurrent(
    g: Graph,
    body: ir.Graph,
    iteration: ir.Value,
    inner: Sequence[Any],
    initial: Sequence[Any],
    results: Sequence[Any],
    items: Sequence[ir.Value],
    rounds: tuple[ir.Value, Any],
    sizes: Sequence[Any],
) -> RecurrentOutputs | None:
    """Replace a loop over a sequence by one ONNX node per cell in it, or return None.

    - inner, initial, results: the states inside an iteration, before the loop and after the iteration
    - items: what an iteration adds to each list
    - rounds: the number of iterations, and what is known of it
    - sizes: the size of each list, None for one that grows or keeps the last iteration only

    If the iterations end before the sequence does, or if sequences have lengths, the operator gets `sequence_lens`;
    outputs after the end are zeros. Steps that a mask skips are removed before the operator and restored after it.
    """
    if not inner or len(inner) > _MOST or not all(isinstance(v, ir.Value) for v in (*inner, *results)):
        return None
    copies = {k: items.index(new) for k, new in enumerate(results) if new in items and not inner[k].uses()}
    if copies:
        own, before, after = ([s[k] for k in range(len(inner)) if k not in copies] for s in (inner, initial, results))
        rest = emit_recurrent(g, body, iteration, own, before, after, items, rounds, sizes)
        return None if rest is None else _insert_copied_states(rest, copies)
    here = {o for n in body for o in n.outputs}
    advanced = [split_guard(value, iteration, here) for value in results]
    added = [split_guard(value, iteration, here) for value in items]
    guard = advanced[0].guard
    keeps_other = any(v.kept is not None and v.kept is not old for v, old in zip(advanced, inner, strict=True))
    if keeps_other or not have_same_guard([v.guard for v in (*advanced, *added)]):
        return None
    reader = _reader_of_sequence(body, iteration, guard)
    if reader is None or reader.inputs[0] is None:
        return None
    sequence, element = reader.inputs[0], reader.outputs[0]
    dims = g.shape(sequence) if sequence.shape is not None else ()
    if len(dims) != 3 or not isinstance(dims[2], int) or sequence in here:
        return None
    if any(size is not None and size != dims[0] for size in sizes):
        return None
    layers = match_layers(element, inner, [v.value for v in advanced])
    shadows = _shadow_states(layers, inner, advanced)
    if not layers or shadows is None or not all(_has_masked_fill(v, inner, advanced) for v in added):
        return None
    whole = dims[0] is not None and dims[0] == rounds[1]
    if (guard != Guard() or not whole) and not all(map(is_zero, initial)):
        return None  # for an empty sequence, ONNX returns zeros, not the initial state
    packed, ended = None, None
    if guard.mask is not None:
        aligned = None not in dims and g.shape(guard.mask)[:2] == dims[:2]
        if not whole or not aligned or (None in sizes and any(map(_is_zero_filled, added))):
            return None
        packed = make_packing(g, guard.mask)
        ended, sequence = packed.counts, packed.pack(g, sequence)
    elif guard.lengths is not None or not whole:
        if None in sizes:
            return None
        ended = sequence_ends(g, guard.lengths, rounds[0], sequence)
    return _emit_layers(g, layers, shadows, element, sequence, ended, packed, initial, added)


def _reader_of_sequence(body: ir.Graph, iteration: ir.Value, guard: Guard) -> ir.Node | None:
    """Return the only node that reads the element of an iteration from a sequence; None if there are more, or none.

    Reading the mask of `guard` does not count.
    """
    read = [n for n in body if n.op_type == "Gather" and is_iteration_number(n.inputs[1], iteration)]
    read = [n for n in read if guard.mask is None or n.inputs[0] is not guard.mask]
    return read[0] if len(read) == 1 and read[0].attributes["axis"].as_int() == 0 else None


def _emit_layers(
    g: Graph,
    layers: Sequence[RecurrentLayer],
    shadows: Mapping[int, ir.Value],
    element: ir.Value,
    sequence: ir.Value,
    ended: ir.Value | None,
    packed: SequencePacking | None,
    initial: Sequence[ir.Value],
    added: Sequence[GuardedValue],
) -> RecurrentOutputs | None:
    """Return the nodes of all layers; None if a list gets something that is not a layer's output."""
    hiddens = {layer.cell.hidden for layer in layers}
    if ended is not None and not all(v.value in hiddens for v in added):
        return None  # a sum with the sequence is not zero after the end
    everywhere, at_end = {element: sequence}, {}
    states: dict[int, ir.Value] = {}
    for layer in layers:
        x = lift_to_sequence(g, layer.x, everywhere)
        if x is None:
            return None
        outputs, finals = _emit_recurrent_node(g, layer.cell, x, ended, [initial[k] for k in layer.states])
        everywhere[layer.cell.hidden], at_end[layer.cell.hidden] = outputs, finals[0]
        states |= dict(zip(layer.states, finals, strict=True))
    states |= {k: at_end[hidden] for k, hidden in shadows.items()}
    found, last = [], []
    for item in added:
        every = lift_to_sequence(g, item.value, everywhere)
        if every is None:
            return None
        last.append(at_end[item.value] if item.value in at_end else _last_step(g, every))
        found.append(every if packed is None else packed.unpack(g, every, zeros=_is_zero_filled(item)))
    return RecurrentOutputs([states[k] for k in range(len(initial))], found, last)


def _insert_copied_states(found: RecurrentOutputs, copies: Mapping[int, int]) -> RecurrentOutputs:
    """Insert states that no iteration reads: each equals the last element of a list, whose number is given."""
    states = list(found.states)
    for k in sorted(copies):
        states.insert(k, found.last[copies[k]])
    return RecurrentOutputs(states, found.outputs, found.last)


def _shadow_states(
    layers: Sequence[RecurrentLayer], inner: Sequence[ir.Value], advanced: Sequence[GuardedValue]
) -> dict[int, ir.Value] | None:
    """Return the states that only hold a layer's last output, which masked iterations repeat; None if other states
    remain.
    """
    found = {}
    hiddens = {layer.cell.hidden for layer in layers}
    claimed = {k for layer in layers for k in layer.states}
    for k in set(range(len(inner))) - claimed:
        repeated = all(node.op_type == "Where" and index == 2 for node, index in inner[k].uses())
        if advanced[k].value not in hiddens or advanced[k].guard.mask is None or not repeated:
            return None
        found[k] = advanced[k].value
    return found


def _has_masked_fill(item: GuardedValue, inner: Sequence[ir.Value], advanced: Sequence[GuardedValue]) -> bool:
    """Return whether a list gets zeros, or the previous output, in a masked iteration."""
    if item.kept is None or is_zero(item.kept):
        return True
    updates = [new.value for new, old in zip(advanced, inner, strict=True) if old is item.kept]
    return item.guard.mask is not None and updates == [item.value]


def _is_zero_filled(item: GuardedValue) -> bool:
    return item.kept is not None and is_zero(item.kept)


def _last_step(g: Graph, sequence: ir.Value) -> ir.Value:
    return g.Gather(sequence, g.const(np.array(-1, np.int64)), axis=0)


def _emit_recurrent_node(
    g: Graph, cell: RecurrentCell, sequence: ir.Value, ends: ir.Value | None, initial: Sequence[ir.Value]
) -> tuple[ir.Value, list[ir.Value]]:
    """Emit the operator on `sequence`, [time, batch, features]: outputs [time, batch, units] and final states."""
    w = _concat_weights(g, f"{cell.operator}_W", cell.inputs)
    r = _concat_weights(g, f"{cell.operator}_R", cell.hiddens)
    b = _concat_biases(g, cell)
    starts = [None if is_zero(s) else g.Unsqueeze(s, [0]) for s in initial]
    count = 2 + (cell.operator == "LSTM")
    units = cell.units
    attributes: dict[str, Any] = {"hidden_size": units, **cell.attributes}
    outputs = g.node(cell.operator, [sequence, w, r, b, ends, *starts], attributes, outputs=count)
    time, batch = g.shape(sequence)[:2]
    y = g.facts(g.Squeeze(outputs[0], [1]), g.dtype(sequence), [time, batch, units])
    finals = [g.facts(g.Squeeze(o, [0]), g.dtype(sequence), [batch, units]) for o in outputs[1:]]
    return y, finals


def _concat_weights(g: Graph, name: str, gates: Sequence[WeightSlice]) -> ir.Value:
    """Concatenate one [in, units] per gate to [1, gates·units, in], when the weight is written."""
    first = gates[0]
    shape = [1, len(gates) * first.width, first.height]
    return g.initializer(
        name, lazy_tensor(first.dtype, shape, lambda: np.concatenate([gate.content().T for gate in gates])[None])
    )


def _concat_biases(g: Graph, cell: RecurrentCell) -> ir.Value | None:
    """Return the biases [1, 2·gates·units]: those of the input, then those of the state; None if there are none."""
    if not any(cell.input_biases) and not any(cell.hidden_biases):
        return None
    dtype, units = cell.inputs[0].dtype, cell.units

    def make() -> np.ndarray:
        rows = [
            sum((part.content().reshape(-1) for part in parts), np.zeros(units, dtype.numpy()))
            for parts in (*cell.input_biases, *cell.hidden_biases)
        ]
        return np.concatenate(rows)[None]

    shape = [1, units * (len(cell.input_biases) + len(cell.hidden_biases))]
    return g.initializer(f"{cell.operator}_B", lazy_tensor(dtype, shape, make))
