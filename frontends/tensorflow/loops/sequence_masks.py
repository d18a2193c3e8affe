"""Rounds in which a recurrent loop holds its states: behind the end of a sequence, or where a mask says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

from ..common.lazy_reshape import cast, int64

_FEW = 64  # steps whose order is told by comparing each with each, which takes no scatter: Caffe2 has it of fixed sizes


@dataclass(frozen=True)
class Guard:
    """`lengths`, [batch], from which on, or a `mask`, [time, batch, 1], where it is false, nothing advances."""

    lengths: ir.Value | None = None
    mask: ir.Value | None = None


@dataclass(frozen=True)
class GuardedValue:
    """A value where it advances, and what stands in its place elsewhere: None where it always advances."""

    value: ir.Value
    kept: ir.Value | None = None
    guard: Guard = Guard()


def split_guard(value: ir.Value, iteration: ir.Value, here: set[ir.Value]) -> GuardedValue:
    """`value` of a round taken apart; `here` are the values of the round, which a guard may not depend on."""
    maker = value.producer()
    if maker is not None and maker.op_type == "Where" and None not in maker.inputs:
        condition, first, second = maker.inputs
        length, mask = _guard_lengths(condition, iteration, here), _guard_mask(condition, iteration, here)
        if length is not None and second is not None:
            return GuardedValue(second, first, Guard(lengths=length))
        if mask is not None and first is not None:
            return GuardedValue(first, second, Guard(mask=mask))
    return GuardedValue(value)


def is_iteration_number(value: ir.Value | None, iteration: ir.Value) -> bool:
    """Whether an index is the number of the round itself."""
    while value is not None and value is not iteration:
        maker = value.producer()
        if maker is None or maker.op_type not in ("Cast", "Identity"):
            return False
        value = maker.inputs[0]
    return value is not None


def is_zero(value: ir.Value | None) -> bool:
    """Whether a state starts as zeros, which is what ONNX does without one."""
    if value is None:
        return False
    maker = value.producer()
    if value.const_value is not None:
        return value.const_value.nbytes < 1 << 20 and not value.const_value.numpy().any()
    return maker is not None and maker.op_type == "Expand" and is_zero(maker.inputs[0])


def _guard_lengths(past: ir.Value | None, iteration: ir.Value, here: set[ir.Value]) -> ir.Value | None:
    """The lengths, [batch], that the number of the round has reached where `past` holds."""
    maker = past.producer() if past is not None else None
    if maker is not None and maker.op_type == "Unsqueeze" and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "GreaterOrEqual" or not is_iteration_number(maker.inputs[0], iteration):
        return None
    length = maker.inputs[1]
    return length if length is not None and length not in here and length.shape is not None \
        and len(length.shape) == 1 else None  # fmt: skip


def _guard_mask(condition: ir.Value | None, iteration: ir.Value, here: set[ir.Value]) -> ir.Value | None:
    """The mask, [time, batch, 1], whose part for this round `condition` is, repeated for every unit perhaps."""
    maker = condition.producer() if condition is not None else None
    while maker is not None and maker.op_type in ("Tile", "Expand", "Identity") and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "Gather" or maker.attributes["axis"].as_int() != 0:
        return None
    mask = maker.inputs[0]
    whole = mask is not None and mask not in here and mask.shape is not None and len(mask.shape) == 3
    return mask if whole and is_iteration_number(maker.inputs[1], iteration) and mask.shape[2] == 1 else None  # type: ignore


def sequence_ends(g: Graph, lengths: ir.Value | None, rounds: ir.Value, sequence: ir.Value) -> ir.Value:
    """Where each sequence ends, int32 [batch]: no later than the rounds do, and no later than there are elements."""
    last = g.Min(rounds, g.Squeeze(g.Shape(sequence, start=0, end=1), [0]))
    if lengths is None:
        return cast(g, g.Expand(last, g.Shape(sequence, start=1, end=2)), ir.DataType.INT32)
    nothing = g.const(0, ir.DataType.INT64)
    return cast(g, g.Max(g.Min(int64(g, lengths), last), nothing), ir.DataType.INT32)


@dataclass(frozen=True)
class SequencePacking:
    """Sequences without the steps that a mask leaves out: those that are left first, in their order.

    `to`, `back` and, of few steps, `origin` (where each comes from) are rows of a tensor of time times batch rows, each
    [time, batch]; `begun` where there was a step.
    """

    to: ir.Value
    origin: ir.Value | None
    back: ir.Value
    begun: ir.Value
    here: ir.Value
    counts: ir.Value

    def pack(self, g: Graph, x: ir.Value) -> ir.Value:
        """Steps of `x`, [time, batch, features], where the mask holds before all others."""
        flat = _flatten_to_rows(g, x)
        if self.origin is not None:
            return g.facts(g.Gather(flat, self.origin, axis=0), shape=g.shape(x))
        moved = g.ScatterND(flat, g.Reshape(self.to, [-1, 1]), flat)
        return g.facts(g.Reshape(moved, g.dims(x)), shape=g.shape(x))

    def unpack(self, g: Graph, y: ir.Value, *, zeros: bool) -> ir.Value:
        """For each step what there was last, nothing before the first one; with `zeros` nothing where masked."""
        seen = g.Gather(_flatten_to_rows(g, y), self.back, axis=0)
        shown = g.Unsqueeze(self.here if zeros else self.begun, [2])
        return g.facts(g.Where(shown, seen, g.const(0, g.dtype(y))), shape=g.shape(y))


def make_packing(g: Graph, mask: ir.Value) -> SequencePacking:
    """How to leave out what a mask, [time, batch, 1], is false for."""
    here = cast(g, g.Squeeze(mask, [2]), ir.DataType.BOOL)
    one, zero, first = g.const(1, ir.DataType.INT64), g.const(0, ir.DataType.INT64), g.const(np.array(0, np.int64))
    taken = g.Cast(here, to=ir.DataType.INT64)
    sofar = g.CumSum(taken, first)
    others = g.CumSum(g.Sub(one, taken), first)
    counts = g.ReduceSum(taken, [0], keepdims=0)
    size = g.Shape(here, start=1, end=2)
    column = g.Range(zero, g.Squeeze(size, [0]), one)
    place = g.Where(here, g.Sub(sofar, one), g.Sub(g.Add(counts, others), one))
    to = g.Add(g.Mul(place, size), column)
    back = g.Add(g.Mul(g.Max(g.Sub(sofar, one), zero), size), column)
    steps, origin = g.shape(mask)[0], None
    if isinstance(steps, int) and steps <= _FEW:
        numbers = np.arange(steps)
        hits = g.Cast(g.Equal(g.Unsqueeze(place, [0]), numbers.reshape(-1, 1, 1)), to=ir.DataType.INT64)
        source = g.ReduceSum(g.Mul(hits, numbers.reshape(1, -1, 1)), [1], keepdims=0)
        origin = g.Add(g.Mul(source, size), column)
    return SequencePacking(to, origin, back, g.Greater(sofar, zero), here, cast(g, counts, ir.DataType.INT32))


def _flatten_to_rows(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reshape(x, np.array([-1, int(g.shape(x)[2])], np.int64))  # type: ignore[arg-type]


def have_same_guard(guards: Sequence[Guard]) -> bool:
    """Whether all of them are one."""
    return all(other.lengths is guards[0].lengths and other.mask is guards[0].mask for other in guards)
