"""Iterations in which a recurrent loop keeps its states: after the end of a sequence, or where a mask says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

# number of steps up to which their order is found by comparing all pairs; Caffe2 has scatter for fixed sizes only
_FEW = 64


@dataclass(frozen=True)
class Guard:
    """States are kept from `lengths`, [batch], on, or where `mask`, [time, batch, 1], is false."""

    lengths: ir.Value | None = None
    mask: ir.Value | None = None


@dataclass(frozen=True)
class GuardedValue:
    """A value while states advance, and the value that replaces it at other steps: None if states always advance."""

    value: ir.Value
    kept: ir.Value | None = None
    guard: Guard = Guard()


def split_guard(value: ir.Value, iteration: ir.Value, here: set[ir.Value]) -> GuardedValue:
    """Split the guard off a value of an iteration; it may not depend on `here`, the values of the iteration."""
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
    """Return whether an index is the number of the iteration."""
    while value is not None and value is not iteration:
        maker = value.producer()
        if maker is None or maker.op_type not in ("Cast", "Identity"):
            return False
        value = maker.inputs[0]
    return value is not None


def is_zero(value: ir.Value | None) -> bool:
    """Return whether a state starts as zeros, ONNX's default."""
    if value is None:
        return False
    maker = value.producer()
    if value.const_value is not None:
        return value.const_value.nbytes < 1 << 20 and not value.const_value.numpy().any()
    return maker is not None and maker.op_type == "Expand" and is_zero(maker.inputs[0])


def _guard_lengths(past: ir.Value | None, iteration: ir.Value, here: set[ir.Value]) -> ir.Value | None:
    """Return the lengths, [batch], compared with the iteration number in `past`, else None."""
    maker = past.producer() if past is not None else None
    if maker is not None and maker.op_type == "Unsqueeze" and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "GreaterOrEqual" or not is_iteration_number(maker.inputs[0], iteration):
        return None
    length = maker.inputs[1]
    return length if length is not None and length not in here and length.shape is not None \
        and len(length.shape) == 1 else None  # fmt: skip


def _guard_mask(condition: ir.Value | None, iteration: ir.Value, here: set[ir.Value]) -> ir.Value | None:
    """Return the mask, [time, batch, 1], of which `condition` is the slice for this iteration, possibly repeated per
    unit.
    """
    maker = condition.producer() if condition is not None else None
    while maker is not None and maker.op_type in ("Tile", "Expand", "Identity") and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "Gather" or maker.attributes["axis"].as_int() != 0:
        return None
    mask = maker.inputs[0]
    whole = mask is not None and mask not in here and mask.shape is not None and len(mask.shape) == 3
    return mask if whole and is_iteration_number(maker.inputs[1], iteration) and mask.shape[2] == 1 else None  # type: ignore


def sequence_ends(g: Graph, lengths: ir.Value | None, rounds: ir.Value, sequence: ir.Value) -> ir.Value:
    """Return where each sequence ends, int32 [batch]: at most the number of iterations and of elements."""
    last = g.Min(rounds, g.Squeeze(g.Shape(sequence, start=0, end=1), [0]))
    if lengths is None:
        return _cast(g, g.Expand(last, g.Shape(sequence, start=1, end=2)), ir.DataType.INT32)
    nothing = g.const(0, ir.DataType.INT64)
    return _cast(g, g.Max(g.Min(_cast(g, lengths, ir.DataType.INT64), last), nothing), ir.DataType.INT32)


@dataclass(frozen=True)
class SequencePacking:
    """Sequences without masked steps: the remaining steps come first, in order.

    `to`, `back` and, for few steps, `origin` (the source of each step) are row numbers in a tensor flattened to time ·
    batch rows, each [time, batch]. `begun` says whether a step has been taken so far.
    """

    to: ir.Value
    origin: ir.Value | None
    back: ir.Value
    begun: ir.Value
    here: ir.Value
    counts: ir.Value

    def pack(self, g: Graph, x: ir.Value) -> ir.Value:
        """Move the unmasked steps of `x`, [time, batch, features], before all others."""
        flat = _flatten_to_rows(g, x)
        if self.origin is not None:
            return g.facts(g.Gather(flat, self.origin, axis=0), shape=g.shape(x))
        moved = g.ScatterND(flat, g.Reshape(self.to, [-1, 1]), flat)
        return g.facts(g.Reshape(moved, g.dims(x)), shape=g.shape(x))

    def unpack(self, g: Graph, y: ir.Value, *, zeros: bool) -> ir.Value:
        """Return the last unmasked step at each time, zeros before the first one; with `zeros`, masked steps are zeros
        too.
        """
        seen = g.Gather(_flatten_to_rows(g, y), self.back, axis=0)
        shown = g.Unsqueeze(self.here if zeros else self.begun, [2])
        return g.facts(g.Where(shown, seen, g.const(0, g.dtype(y))), shape=g.shape(y))


def make_packing(g: Graph, mask: ir.Value) -> SequencePacking:
    """Return the packing for a mask, [time, batch, 1]."""
    here = _cast(g, g.Squeeze(mask, [2]), ir.DataType.BOOL)
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
    return SequencePacking(to, origin, back, g.Greater(sofar, zero), here, _cast(g, counts, ir.DataType.INT32))


def _flatten_to_rows(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reshape(x, np.array([-1, int(g.shape(x)[2])], np.int64))  # type: ignore[arg-type]


def _cast(g: Graph, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    return x if x.dtype == dtype else g.Cast(x, to=dtype)


def have_same_guard(guards: Sequence[Guard]) -> bool:
    """Return whether all guards are the same."""
    return all(other.lengths is guards[0].lengths and other.mask is guards[0].mask for other in guards)
