"""Sequences and optionals: Caffe2 has no such values, so they are lists that are known when the net is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.padding import slice_axis
from ..common.sequence_values import Listed, Maybe
from ..net import Net
from ..rules import onnx_op


@onnx_op("SequenceConstruct")
def sequence_construct(net: Net, *inputs: Blob) -> Listed:
    return Listed(inputs, inputs[0].dtype)


@onnx_op("SequenceEmpty")
def sequence_empty(net: Net, *, dtype: int | None) -> Listed:
    return Listed((), ir.DataType(dtype or ir.DataType.FLOAT))


@onnx_op("SequenceLength")
def sequence_length(net: Net, sequence: Listed) -> Blob:
    return net.const(np.array(len(sequence.items), np.int64))


@onnx_op("SequenceAt")
def sequence_at(net: Net, sequence: Listed, position: Blob) -> Blob:
    return sequence.items[_place(net, position, len(sequence.items))]


@onnx_op("SequenceInsert")
def sequence_insert(net: Net, sequence: Listed, tensor: Blob, position: Blob | None) -> Listed:
    count = len(sequence.items)
    place = count if position is None else _place(net, position, count)
    return Listed((*sequence.items[:place], tensor, *sequence.items[place:]), sequence.dtype)


@onnx_op("SequenceErase")
def sequence_erase(net: Net, sequence: Listed, position: Blob | None) -> Listed:
    count = len(sequence.items)
    place = count - 1 if position is None else _place(net, position, count)
    return Listed((*sequence.items[:place], *sequence.items[place + 1 :]), sequence.dtype)


@onnx_op("ConcatFromSequence")
def concat_from_sequence(net: Net, sequence: Listed, *, axis: int, new_axis: int) -> Blob:
    items = list(sequence.items)
    if not items:
        raise Unsupported("ConcatFromSequence of no tensors")
    along = axis if axis >= 0 else axis + net.rank(items[0]) + int(bool(new_axis))
    if new_axis:
        items = [net.ExpandDims(x, dims=[along]) for x in items]
    return items[0] if len(items) == 1 else net.op("Concat", items, axis=along, outputs=2)[0]


@onnx_op("SplitToSequence")
def split_to_sequence(net: Net, x: Blob, sizes: Blob | None, *, axis: int, keepdims: int) -> Listed:
    along = net.axis(x, axis)
    size = net.shape(x)[along]
    if not isinstance(size, int):
        raise Unsupported("SplitToSequence along an axis whose size is not fixed")
    if sizes is None:
        parts = [1] * size
    else:
        given = net.need(sizes, "the sizes of SplitToSequence")
        step = int(given.ravel()[0])
        parts = [int(n) for n in given] if given.ndim else [min(step, size - i) for i in range(0, size, step)]
    items, start = [], 0
    for part in parts:
        item = slice_axis(net, x, along, start, start + part)
        items.append(item if sizes is not None or keepdims else _without(net, item, along))
        start += part
    return Listed(tuple(items), x.dtype)


@onnx_op("SequenceMap")
def sequence_map(net: Net, sequence: Listed, *others: Any, body: Callable[..., list[Any]]) -> list[Listed]:
    """The body once for each element."""
    rows = [
        body(net, item, *(x.items[i] if isinstance(x, Listed) else x for x in others))
        for i, item in enumerate(sequence.items)
    ]
    if not rows:
        raise Unsupported("SequenceMap over no tensors")
    return [Listed(tuple(column), column[0].dtype) for column in zip(*rows, strict=True)]


@onnx_op("Optional")
def optional(net: Net, value: Any, *, type: Any) -> Maybe:
    return Maybe(value)


@onnx_op("OptionalHasElement")
def optional_has_element(net: Net, value: Any) -> Blob:
    present = value is not None and not (isinstance(value, Maybe) and value.value is None)
    return net.const(np.array(present))


@onnx_op("OptionalGetElement")
def optional_get_element(net: Net, value: Any) -> Any:
    inner = value.value if isinstance(value, Maybe) else value
    if inner is None:
        raise Unsupported("the element of an optional that is absent")
    return inner


def _place(net: Net, position: Blob, count: int) -> int:
    place = int(net.need(position, "a place in a sequence").ravel()[0])
    return place + count if place < 0 else place


def _without(net: Net, x: Blob, axis: int) -> Blob:
    shape = [d for i, d in enumerate(net.shape(x)) if i != axis]
    return net.facts(net.Squeeze(x, dims=[axis]), x.dtype, shape)
