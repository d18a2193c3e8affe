"""Sequences and optionals: static lists if positions and lengths are known, else tensor lists."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import tensorflow as tf

from convert.errors import Unsupported
from convert.graph.values import rank as graph_rank

from ..constants import tf_dtype
from ..emit import Dim, Emitter, Value
from ..rules import onnx_op
from ..sequence_values import (
    KnownSequence,
    OptionalTensor,
    TensorListSequence,
    build_tensor_list,
    element_at,
    length_of,
    to_tensor_list,
)

UNKNOWN = tf.TensorShape(None)


@onnx_op("SequenceConstruct")
def sequence_construct(t, *inputs):
    return KnownSequence(inputs, inputs[0].dtype)


@onnx_op("SequenceEmpty")
def sequence_empty(t, *, dtype):
    return KnownSequence((), tf.float32 if dtype is None else tf_dtype(ir.DataType(dtype)))


@onnx_op("SequenceLength")
def sequence_length(t, sequence):
    length = length_of(sequence)
    return np.array(length, np.int64) if isinstance(length, int) else tf.cast(length, tf.int64)


def position_from_start(t: Emitter, position: Value, count: Dim) -> Dim:
    """Return a position counted from the start: a number if both are known, else an int32 scalar."""
    known = t.ints(position)
    if known is not None and isinstance(count, int):
        return known[0] + count if known[0] < 0 else known[0]
    position = tf.reshape(tf.cast(position, tf.int32), [])
    return tf.where(position < 0, position + count, position)


@onnx_op("SequenceAt")
def sequence_at(t, sequence, position):
    place = position_from_start(t, position, length_of(sequence))
    if isinstance(sequence, KnownSequence) and isinstance(place, int):
        return sequence.items[place]
    return element_at(to_tensor_list(sequence), place)


@onnx_op("SequenceInsert")
def sequence_insert(t, sequence, tensor, position):
    count = length_of(sequence)
    place = count if position is None else position_from_start(t, position, count)
    if isinstance(sequence, KnownSequence) and isinstance(place, int):
        return KnownSequence((*sequence.items[:place], tensor, *sequence.items[place:]), sequence.dtype)
    given = to_tensor_list(sequence)
    shape = tensor.shape if given.length == 0 else given.shape.most_specific_compatible_shape(tensor.shape)
    if position is None:
        handle = tf.raw_ops.TensorListPushBack(input_handle=given.handle, tensor=tensor)
        return TensorListSequence(handle, given.dtype, shape, None if given.length is None else given.length + 1)
    tensor = tf.convert_to_tensor(tensor)

    def make(i):
        return tf.cond(tf.equal(i, place), lambda: tensor, lambda: element_at(given, i - tf.cast(i > place, tf.int32)))

    return build_tensor_list(count + 1, make, given.dtype, shape)


@onnx_op("SequenceErase")
def sequence_erase(t, sequence, position):
    count = length_of(sequence)
    place = count - 1 if position is None else position_from_start(t, position, count)
    if isinstance(sequence, KnownSequence) and isinstance(place, int):
        return KnownSequence((*sequence.items[:place], *sequence.items[place + 1 :]), sequence.dtype)
    given = to_tensor_list(sequence)
    return build_tensor_list(
        count - 1, lambda i: element_at(given, i + tf.cast(i >= place, tf.int32)), given.dtype, given.shape
    )


@onnx_op("ConcatFromSequence")
def concat_from_sequence(t, sequence, *, axis, new_axis):
    if isinstance(sequence, KnownSequence):
        items = [tf.convert_to_tensor(x) for x in sequence.items]
        return tf.stack(items, axis) if new_axis else tf.concat(items, axis)
    of_parts = sequence.shape.rank
    whole = None if t.node is None else graph_rank(t.node.outputs[0])
    if of_parts is None and whole is not None:
        of_parts = whole - int(bool(new_axis))
    if of_parts is None:
        raise Unsupported("ConcatFromSequence of tensors of unknown rank")

    def part(i):
        x = element_at(sequence, i)
        x.set_shape([None] * of_parts)
        return tf.expand_dims(x, axis) if new_axis else x

    def step(i, y):
        return i + 1, tf.concat([y, part(i)], axis)

    free = tf.TensorShape([None] * (of_parts + int(bool(new_axis))))
    count = length_of(sequence)
    return tf.while_loop(lambda i, y: i < count, step, (1, part(0)), shape_invariants=(tf.TensorShape([]), free))[1]


@onnx_op("SplitToSequence")
def split_to_sequence(t, x, sizes, *, axis, keepdims):
    dim = t.dim(x, axis)
    if sizes is None:
        if isinstance(dim, int):
            parts = tf.split(x, dim, axis)
            return KnownSequence(tuple(parts if keepdims else (tf.squeeze(p, [axis]) for p in parts)), x.dtype)
        return _axis_slices(t, x, axis, dim, lambda i: (i, 1), squeeze=not keepdims)
    known = t.ints(sizes)
    if t.rank(sizes) == 1:
        count = sizes.shape[0]
        if known is None and count is None:
            ends = tf.cumsum(tf.cast(sizes, tf.int32))
            return _axis_slices(t, x, axis, tf.size(ends), lambda i: (ends[i] - tf.cast(sizes[i], tf.int32), sizes[i]))
        return KnownSequence(tuple(tf.split(x, sizes if known is None else known, axis, num=count)), x.dtype)
    size = known[0] if known is not None else tf.reshape(tf.cast(sizes, tf.int32), [])
    count = -(-dim // size)
    if isinstance(count, int):
        rest = dim - size * (count - 1)
        return KnownSequence(tuple(tf.split(x, [size] * (count - 1) + [rest], axis)), x.dtype)
    return _axis_slices(t, x, axis, count, lambda i: (i * size, tf.minimum(size, dim - i * size)))


def _axis_slices(
    t: Emitter, x: Value, axis: int, count: Dim, bounds: Callable[[tf.Tensor], tuple[Dim, Dim]], squeeze: bool = False
) -> TensorListSequence:
    """Return slices along an axis if their number is known at run time only; `bounds(i)` returns start and size of
    slice i.
    """
    rank = t.rank(x)
    axis %= rank
    shape = [None if i == axis else d for i, d in enumerate(x.shape.as_list())]

    def make(i: tf.Tensor) -> tf.Tensor:
        start, size = bounds(i)
        begin = [start if k == axis else 0 for k in range(rank)]
        part = tf.slice(x, begin, tf.stack([tf.cast(size, tf.int32) if k == axis else -1 for k in range(rank)]))
        return tf.squeeze(part, [axis]) if squeeze else part

    del shape[axis : axis + int(squeeze)]
    return build_tensor_list(count, make, x.dtype, tf.TensorShape(shape))


@onnx_op("SequenceMap")
def sequence_map(t, sequence, *others, body):
    count = length_of(sequence)
    nested = [sequence, *others]
    sequences = [x for x in nested if isinstance(x, (KnownSequence, TensorListSequence))]
    kinds = [tf_dtype(v.dtype) for v in body.graph.outputs]
    if all(isinstance(x, KnownSequence) for x in sequences):
        rows = [body(*(x.items[i] if isinstance(x, KnownSequence) else x for x in nested)) for i in range(count)]
        return tuple(KnownSequence(tuple(row[k] for row in rows), kind) for k, kind in enumerate(kinds))
    given = [to_tensor_list(x) if isinstance(x, (KnownSequence, TensorListSequence)) else x for x in nested]

    def made(k):
        def make(i):
            return body(*(element_at(x, i) if isinstance(x, TensorListSequence) else x for x in given))[k]

        return make

    return tuple(build_tensor_list(count, made(k), kind, UNKNOWN) for k, kind in enumerate(kinds))


@onnx_op("Optional")
def optional(t, value, *, type):
    return OptionalTensor(value)


@onnx_op("OptionalHasElement")
def optional_has_element(t, value):
    present = value is not None and not (isinstance(value, OptionalTensor) and value.value is None)
    return np.array(present)


@onnx_op("OptionalGetElement")
def optional_get_element(t, value):
    inner = value.value if isinstance(value, OptionalTensor) else value
    if inner is None:
        raise Unsupported("the element of an optional that is absent")
    return inner
