"""Sequences, which are Python lists during capture, and optionals, where None is an absent one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from convert.errors import Unsupported

from ..common import own_tensor
from ..rules import host, onnx_op
from ..torch_internals import statically_known_true

_LENGTH = onnx_op.limit(
    "SequenceAt",
    "a sequence whose length is computed at run time, or a place in one whose tensors differ in dtype or rank",
)


def _place(t: Any, position: Any, count: Any) -> Any:
    known = t.static(position)
    if known is None:
        raise Unsupported(_LENGTH)
    place = int(known.ravel()[0])
    return place + count if place < 0 else place


@onnx_op("SequenceConstruct")
def sequence_construct(t, *inputs):
    return list(inputs)


@onnx_op("SequenceEmpty")
def sequence_empty(t, *, dtype):
    return []


@onnx_op("SequenceLength")
def sequence_length(t, sequence):
    return np.array(len(sequence), np.int64)


@onnx_op("SequenceAt")
@host("position")
def sequence_at(t, sequence, position):
    if t.static(position) is not None:
        return sequence[_place(t, position, len(sequence))]
    items, place = _alike(t, sequence), _place_at_run_time(t, position, len(sequence))
    if all(_same_size(n, m) for x in items[1:] for n, m in zip(x.shape, items[0].shape, strict=True)):
        return torch.index_select(torch.stack(items), 0, place.reshape(1))[0]
    y = items[0]
    for i in range(1, len(items)):
        y = _either(place == i, items[i], y)
    return y


def _alike(t: Any, items: Any) -> list[Any]:
    """Return tensors of one dtype and one rank, so that the run can choose any of them."""
    tensors = [t.tensor(x) for x in items]
    if len({(x.dtype, x.dim()) for x in tensors}) != 1:
        raise Unsupported(_LENGTH)
    return tensors


def _same_size(a: Any, b: Any) -> bool:
    """Return whether two sizes are certainly equal."""
    return statically_known_true(a == b)


def _place_at_run_time(t: Any, position: Any, count: int) -> Any:
    place = t.tensor(position).reshape(()).to(torch.int64)
    return torch.where(place < 0, place + count, place)


@onnx_op("SequenceInsert")
@host("position")
def sequence_insert(t, sequence, tensor, position):
    if position is None or t.static(position) is not None:
        place = len(sequence) if position is None else _place(t, position, len(sequence))
        return [*sequence[:place], tensor, *sequence[place:]]
    # Each tensor stays, is the new one, or moves on by one position.
    *items, tensor = _alike(t, [*sequence, tensor])
    place, found = _place_at_run_time(t, position, len(items)), []
    for i in range(len(items) + 1):
        y = tensor if i == 0 else _either(place < i, items[i - 1], tensor)
        found.append(y if i == len(items) else _either(place > i, items[i], y))
    return found


def _either(condition: Any, a: Any, b: Any) -> Any:
    """Return the tensor that a run-time condition selects; both have the same rank, and their sizes may differ."""

    def first(a: Any, b: Any) -> Any:
        return (own_tensor(a),)

    def second(a: Any, b: Any) -> Any:
        return (own_tensor(b),)

    return a if a is b else torch.ops.higher_order.cond(condition, first, second, (a, b))[0]


@onnx_op("SequenceErase")
@host("position")
def sequence_erase(t, sequence, position):
    if position is None or t.static(position) is not None:
        place = len(sequence) - 1 if position is None else _place(t, position, len(sequence))
        return [*sequence[:place], *sequence[place + 1 :]]
    items, place = _alike(t, sequence), _place_at_run_time(t, position, len(sequence))
    return [_either(place > i, items[i], items[i + 1]) for i in range(len(items) - 1)]


@onnx_op("ConcatFromSequence")
def concat_from_sequence(t, sequence, *, axis, new_axis):
    items = [t.tensor(x) for x in sequence]
    return torch.stack(items, axis) if new_axis else torch.cat(items, axis)


@onnx_op("SplitToSequence")
@host("split")
def split_to_sequence(t, x, split, *, axis, keepdims):
    length = x.shape[axis]
    if split is None:
        if not isinstance(length, int):
            raise Unsupported(_LENGTH)
        parts = torch.split(x, 1, axis)
        return list(parts) if keepdims else [p.squeeze(axis) for p in parts]
    if len(split.shape) == 1:
        return list(torch.split(x, t.ints(split), axis))
    size = t.number(split)
    if not isinstance(size, int) or not isinstance(length, int):
        raise Unsupported(_LENGTH)
    return list(torch.split(x, size, axis))


@onnx_op("SequenceMap")
def sequence_map(t, sequence, *others, body):
    rows = []
    for i in range(len(sequence)):
        rows.append(body(*(x[i] if isinstance(x, list) else x for x in (sequence, *others))))
    return tuple([row[k] for row in rows] for k in range(len(body.graph.outputs)))


@onnx_op("Optional")
@host("input")
def optional(t, input, *, type):
    return input


@onnx_op("OptionalHasElement")
@host("input")
def optional_has_element(t, input=None):
    return np.array(input is not None)


@onnx_op("OptionalGetElement")
@host("input")
def optional_get_element(t, input):
    if input is None:
        raise Unsupported("the element of an optional that is absent")
    return input
