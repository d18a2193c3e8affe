"""Control flow and lists of tensors of TensorFlow, against TensorFlow's own numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.request.source import Source
from tests.support.tensorflow_helper import agrees, images

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")


def counts(graph: Any) -> Counter[str]:
    return Counter(n.op_type for n in graph.graph.all_nodes())


X = tf.TensorSpec([None, 3], name="x")
N = tf.TensorSpec([], tf.int32, name="n")


def function(*specs: Any) -> Callable[[Callable[..., Any]], Any]:
    return lambda f: tf.function(f, input_signature=specs, autograph=True)


@function(X)
def branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: (x * 2.0, tf.shape(x)[0]), lambda: (x - 1.0, tf.constant(7)))


@function(X, N)
def switch(x: Any, n: Any) -> Any:
    return tf.switch_case(n, [lambda: x + 1.0, lambda: x * x, lambda: tf.exp(x)])


@function(X, N)
def counted(x: Any, n: Any) -> Any:
    for i in tf.range(n):
        x = x * 0.5 + tf.cast(i, tf.float32)
    return x


@function(X, N)
def stepped(x: Any, n: Any) -> Any:
    i = tf.constant(3)
    while i < n:
        x += tf.cast(i, tf.float32)
        i += 2
    return x, i


@function(X)
def conditional(x: Any) -> Any:
    while tf.reduce_sum(tf.abs(x)) > 1.0:
        x = x * 0.5
    return x


@function(X)
def left_early(x: Any) -> Any:
    total = tf.zeros([3])
    for i in tf.range(5):
        if tf.reduce_sum(total) > 2.0:
            break
        total += tf.reduce_sum(x, 0) * tf.cast(i, tf.float32)
    return total


@function(X)
def growing(x: Any) -> Any:
    y = x
    for _ in tf.range(3):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(y, tf.TensorShape([None, 3]))])
        y = tf.concat([y, x], 0)
    return y


@function(X)
def nested(x: Any) -> Any:
    for i in tf.range(2):
        for j in tf.range(3):
            x += tf.cast(i * j, tf.float32)
            if i > j:
                x = tf.nn.relu(x)
    return x


@function(X)
def written_in_order(x: Any) -> Any:
    items = tf.TensorArray(tf.float32, 4)
    for i in tf.range(4):
        items = items.write(i, x * tf.cast(i, tf.float32))
    return items.stack()


@function(X)
def written_backwards_and_read(x: Any) -> Any:
    items = tf.TensorArray(tf.float32, 4, element_shape=[3], clear_after_read=False)
    first = tf.reduce_sum(x, 0)
    items = items.write(3, first)
    for i in tf.range(3):
        items = items.write(2 - i, items.read(3 - i) * 2.0)
    return items.stack(), items.gather([2, 0]), items.read(1)


@function(X)
def never_written_are_zeros(x: Any) -> Any:
    items = tf.TensorArray(tf.float32, 3, element_shape=[3])
    return items.write(1, x[0]).stack()


@function(X)
def pushed(x: Any) -> Any:
    handle = tf.raw_ops.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=tf.float32)
    for i in range(3):
        handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=x[0] * float(i + 1))
    handle, last = tf.raw_ops.TensorListPopBack(input_handle=handle, element_shape=[3], element_dtype=tf.float32)
    length = tf.raw_ops.TensorListLength(input_handle=handle)
    return tf.raw_ops.TensorListStack(input_handle=handle, element_shape=[3], element_dtype=tf.float32), last, length


@function(X)
def list_operators(x: Any) -> Any:
    pairs = tf.stack([x[0], x[0] * 2.0])
    items = tf.raw_ops.TensorListScatterV2(tensor=pairs, indices=[2, 0], element_shape=[3], num_elements=4)
    items = tf.raw_ops.TensorListScatterIntoExistingList(input_handle=items, tensor=pairs, indices=[1, 3])
    picked = tf.raw_ops.TensorListGather(
        input_handle=items, indices=[3, 2, 2], element_shape=[3], element_dtype=tf.float32
    )
    joined, lengths = tf.raw_ops.TensorListConcatV2(
        input_handle=items, element_shape=[3], leading_dims=tf.zeros([0], tf.int64), element_dtype=tf.float32
    )
    longer = tf.raw_ops.TensorListResize(input_handle=items, size=6)
    whole = tf.raw_ops.TensorListStack(input_handle=longer, element_shape=[3], element_dtype=tf.float32)
    return picked, joined, lengths, whole


@function(X, N)
def below_nothing(x: Any, n: Any) -> Any:
    """Return a loop whose limit is below the start: no iteration, and an unchanged counter."""
    i = tf.constant(0)
    while i < n - 3:
        x = x * 2.0
        i += 1
    return x, i


@function(X)
def longer_than_written(x: Any) -> Any:
    """Return a loop in which list elements after the last iteration are zeros."""
    items = tf.TensorArray(tf.float32, 6, element_shape=[3])
    for i in tf.range(tf.shape(x)[0]):
        items = items.write(i, x[i])
    return items.stack()


@function(X)
def overflowing(x: Any) -> Any:
    """Return a loop in which known integers overflow like stored ones."""
    big = tf.constant(2000000000) + 0 * tf.shape(x)[0]
    return big + big, big * 3, tf.constant([2**31 - 1]) + tf.constant([1])


@function(X)
def columns(x: Any) -> Any:
    """Slice along an axis that is not the time axis: this is no recurrent operator, at any size."""
    state = tf.zeros([tf.shape(x)[0], 2])
    kernel, recurrent = tf.ones([1, 2]) * 0.3, tf.ones([2, 2]) * 0.1
    for i in tf.range(3):
        state = tf.tanh(tf.matmul(tf.gather(x[:, :, None], i, axis=1), kernel) + tf.matmul(state, recurrent))
    return state


@function(X, N)
def counting_vectors(x: Any, n: Any) -> Any:
    """Return states of several elements, and of one, that all grow by a number."""
    places, one, total = tf.zeros([3], tf.int32), tf.zeros([1], tf.int32), tf.zeros([2])
    for _ in tf.range(n):
        total += tf.squeeze(tf.gather([[1.0, 2.0], [3.0, 5.0], [7.0, 9.0], [4.0, 6.0], [8.0, 0.5]], one), 0)
        places += 2
        one += 1
    return tf.cast(places, tf.float32) + x, one, total


@function(X, N)
def kept_of_no_round(x: Any, n: Any) -> Any:
    """Return a list of one element, zeros because no iteration writes to it."""
    items = tf.TensorArray(tf.float32, 1, element_shape=[3], clear_after_read=False)
    for i in tf.range(n):
        items = items.write(0, x[0] + tf.cast(i, tf.float32))
    return items.stack()


@function(X)
def read_by_the_condition(x: Any) -> Any:
    items = tf.TensorArray(tf.float32, 1, dynamic_size=True, element_shape=[3], clear_after_read=False)
    items, i = items.write(0, tf.abs(x[0])), 1
    while items.read(i - 1)[0] < 5.0:
        items = items.write(i, items.read(i - 1) * 1.5 + 0.5)
        i += 1
    return items.stack()


FUNCTIONS = {
    f.python_function.__name__: f
    for f in (branch, switch, counted, stepped, conditional, left_early, growing, nested, written_in_order,
              written_backwards_and_read, never_written_are_zeros, pushed, list_operators, below_nothing,
              longer_than_written, overflowing, columns, counting_vectors,
              kept_of_no_round, read_by_the_condition)
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    graph_function = FUNCTIONS[name]
    feeds: list[dict[str, Any]] = [{"x": images(n, 3, seed=n) * (1 if n == 2 else -1)} for n in (2, 1, 4)]
    if len(graph_function.input_signature) == 2:
        feeds = [feed | {"n": np.array(n, np.int32)} for feed, n in zip(feeds, (0, 1, 5), strict=True)]
    agrees(Source("tf-function-object", model=graph_function), feeds)
