"""Sequences and optionals: Caffe2 lacks them, so they are lists that are known when the net is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..blob import Blob
from ..common.padding import slice_axis
from ..common.sequence_values import BlobSequence, OptionalBlob
from ..net import Net
from ..rules import onnx_op


@onnx_op("SequenceConstruct")
def sequence_construct(net: Net, *inputs: Blob) -> BlobSequence:
    return BlobSequence(inputs, inputs[0].dtype)


@onnx_op("SequenceEmpty")
def sequence_empty(net: Net, *, dtype: int | None) -> BlobSequence:
    return BlobSequence((), ir.DataType(dtype or ir.DataType.FLOAT))


@onnx_op("SequenceLength")
def sequence_length(net: Net, sequence: BlobSequence) -> Blob:
    return net.const(np.array(len(sequence.items), np.int64))


@onnx_op("SequenceAt")
def sequence_at(net: Net, sequence: BlobSequence, position: Blob) -> Blob:
    return sequence.items[_position_from_start(net, position, len(sequence.items))]


@onnx_op("SequenceInsert")
def sequence_insert(net: Net, sequence: BlobSequence, tensor: Blob, position: Blob | None) -> BlobSequence:
    count = len(sequence.items)
    place = count if position is None else _position_from_start(net, position, count)
    return BlobSequence((*sequence.items[:place], tensor, *sequence.items[place:]), sequence.dtype)


@onnx_op("SequenceErase")
def sequence_erase(net: Net, sequence: BlobSequence, position: Blob | None) -> BlobSequence:
    count = len(sequence.items)
    place = count - 1 if position is None else _position_from_start(net, position, count)
    return BlobSequence((*sequence.items[:place], *sequence.items[place + 1 :]), sequence.dtype)


@onnx_op("ConcatFromSequence")
def concat_from_sequence(net: Net, sequence: BlobSequence, *, axis: int, new_axis: int) -> Blob:
    items = list(sequence.items)
    if not items:
        raise Unsupported("ConcatFromSequence of no tensors")
    along = axis if axis >= 0 else axis + net.rank(items[0]) + int(bool(new_axis))
    if new_axis:
        items = [net.ExpandDims(x, dims=[along]) for x in items]
    return items[0] if len(items) == 1 else net.op("Concat", items, axis=along, outputs=2)[0]


@onnx_op("SplitToSequence")
def split_to_sequence(net: Net, x: Blob, sizes: Blob | None, *, axis: int, keepdims: int) -> BlobSequence:
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
        items.append(item if sizes is not None or keepdims else _squeeze_axis(net, item, along))
        start += part
    return BlobSequence(tuple(items), x.dtype)


@onnx_op("SequenceMap")
def sequence_map(net: Net, sequence: BlobSequence, *others: Any, body: Callable[..., list[Any]]) -> list[BlobSequence]:
    """SequenceMap-17: the body once per element."""
    rows = [
        body(net, item, *(x.items[i] if isinstance(x, BlobSequence) else x for x in others))
        for i, item in enumerate(sequence.items)
    ]
    if not rows:
        raise Unsupported("SequenceMap over no tensors")
    return [BlobSequence(tuple(column), column[0].dtype) for column in zip(*rows, strict=True)]


@onnx_op("Optional")
def optional(net: Net, value: Any, *, type: Any) -> OptionalBlob:
    return OptionalBlob(value)


@onnx_op("OptionalHasElement")
def optional_has_element(net: Net, value: Any) -> Blob:
    present = value is not None and not (isinstance(value, OptionalBlob) and value.value is None)
    return net.const(np.array(present))


@onnx_op("OptionalGetElement")
def optional_get_element(net: Net, value: Any) -> Any:
    inner = value.value if isinstance(value, OptionalBlob) else value
    if inner is None:
        raise Unsupported("the element of an optional that is absent")
    return inner


def _position_from_start(net: Net, position: Blob, count: int) -> int:
    place = int(net.need(position, "a place in a sequence").ravel()[0])
    return place + count if place < 0 else place


def _squeeze_axis(net: Net, x: Blob, axis: int) -> Blob:
    shape = [d for i, d in enumerate(net.shape(x)) if i != axis]
    return net.facts(net.Squeeze(x, dims=[axis]), x.dtype, shape)
