"""Sequences and optionals during emission: known lists of tensors, or TensorFlow's tensor lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import tensorflow as tf

from convert.errors import Unsupported

_ANY_SHAPE = -1


@dataclass(frozen=True)
class KnownSequence:
    """A sequence with a known number of elements, all of them known during tracing."""

    items: tuple[Any, ...]
    dtype: tf.DType


@dataclass(frozen=True)
class TensorListSequence:
    """A sequence that is built at run time; `length` is known, or None."""

    handle: tf.Tensor
    dtype: tf.DType
    shape: tf.TensorShape
    length: int | None = None


@dataclass(frozen=True)
class OptionalTensor:
    """An optional; `value` is None if it is absent."""

    value: Any


def to_tensor_list(value: KnownSequence | TensorListSequence) -> TensorListSequence:
    """Return the sequence as a tensor list."""
    if isinstance(value, TensorListSequence):
        return value
    items = [tf.convert_to_tensor(x) for x in value.items]
    handle = tf.raw_ops.EmptyTensorList(element_shape=_ANY_SHAPE, max_num_elements=-1, element_dtype=value.dtype)
    for x in items:
        handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=x)
    shape = reduce(lambda a, b: a.most_specific_compatible_shape(b.shape), items[1:], items[0].shape) if items else None
    return TensorListSequence(handle, value.dtype, tf.TensorShape(shape), len(items))


def length_of(value: KnownSequence | TensorListSequence) -> Any:
    """Return the number of elements: a number, or an int32 scalar."""
    if isinstance(value, KnownSequence):
        return len(value.items)
    return tf.raw_ops.TensorListLength(input_handle=value.handle) if value.length is None else value.length


def element_at(value: TensorListSequence, index: Any) -> tf.Tensor:
    """Return one element; `index` is an int32 scalar that counts from the start."""
    y = tf.raw_ops.TensorListGetItem(
        input_handle=value.handle, index=index, element_shape=_ANY_SHAPE, element_dtype=value.dtype
    )
    y.set_shape(value.shape)
    return y


def build_tensor_list(
    count: Any, make: Callable[[Any], Any], dtype: tf.DType, shape: tf.TensorShape
) -> TensorListSequence:
    """Return a tensor list of `count` elements; `make(i)` creates the i-th."""
    empty = tf.raw_ops.EmptyTensorList(element_shape=_ANY_SHAPE, max_num_elements=-1, element_dtype=dtype)

    def step(i: Any, handle: Any) -> Any:
        return i + 1, tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=make(i))

    _, handle = tf.while_loop(lambda i, handle: i < count, step, (tf.constant(0), empty))
    return TensorListSequence(handle, dtype, shape, count if isinstance(count, int) else None)


def is_nested(value: Any) -> bool:
    """Return whether a value is no tensor."""
    return isinstance(value, (KnownSequence, TensorListSequence, OptionalTensor))


def named_tensors(name: str, value: Any) -> Iterator[tuple[str, tf.Tensor]]:
    """Yield the tensors of a graph output: the elements of a sequence `y` are `y_0`, `y_1` …; an absent optional has
    none.
    """
    if isinstance(value, OptionalTensor):
        if value.value is not None:
            yield from named_tensors(name, value.value)
    elif isinstance(value, KnownSequence):
        for i, inner in enumerate(value.items):
            yield from named_tensors(f"{name}_{i}", inner)
    elif isinstance(value, TensorListSequence):
        if value.length is None:
            raise Unsupported(f"the output {name!r} is a sequence whose length is known only when the model runs")
        for i in range(value.length):
            yield f"{name}_{i}", element_at(value, i)
    else:
        yield name, tf.convert_to_tensor(value)


# -- control flow: nested values as flat lists of tensors, and back --------------------------------------------------


def join_values(a: Any, b: Any) -> Any:
    """Return a common form for the results of two branches: the same number of tensors, or a tensor list."""
    if isinstance(a, OptionalTensor) and isinstance(b, OptionalTensor):
        if (a.value is None) != (b.value is None):
            raise Unsupported("an optional that one branch of If leaves empty")
        return a if a.value is None else OptionalTensor(join_values(a.value, b.value))
    if isinstance(a, KnownSequence) and isinstance(b, KnownSequence) and len(a.items) == len(b.items):
        return a
    if isinstance(a, (KnownSequence, TensorListSequence)):
        left, right = to_tensor_list(a), to_tensor_list(b)
        length = left.length if left.length == right.length else None
        return TensorListSequence(
            left.handle, left.dtype, left.shape.most_specific_compatible_shape(right.shape), length
        )
    return a


def flat_tensors(value: Any, like: Any) -> list[tf.Tensor]:
    """Return the tensors of `value` in the form of `like`."""
    if isinstance(like, OptionalTensor):
        return [] if like.value is None else flat_tensors(value.value, like.value)
    if isinstance(like, KnownSequence):
        return [tf.identity(x) for x in value.items]
    if isinstance(like, TensorListSequence):
        return [tf.identity(to_tensor_list(value).handle)]
    return [tf.identity(value)]


def rebuild_value(like: Any, flat: Sequence[tf.Tensor]) -> tuple[Any, Sequence[tf.Tensor]]:
    """Rebuild a value in the form of `like` from the first tensors of `flat`; return it and the remaining tensors."""
    if isinstance(like, OptionalTensor):
        if like.value is None:
            return like, flat
        value, rest = rebuild_value(like.value, flat)
        return OptionalTensor(value), rest
    if isinstance(like, KnownSequence):
        count = len(like.items)
        return KnownSequence(tuple(flat[:count]), like.dtype), flat[count:]
    if isinstance(like, TensorListSequence):
        return TensorListSequence(flat[0], like.dtype, like.shape, like.length), flat[1:]
    return flat[0], flat[1:]
