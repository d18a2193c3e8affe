"""Whole TensorFlow programs with control flow, lists, ragged tensors and shapes that are known at run time only."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.suites.programs.tensorflow_program import program

N123 = ({"n": 1}, {"n": 2}, {"n": 5})
WITH_NONE = ({"n": 0}, {"n": 1}, {"n": 3})
I32, I64, BOOL = tf.int32, tf.int64, tf.bool


def while_with_a_list(x: Any, m: Any) -> Any:
    rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None, 3])
    _, last, rows = tf.while_loop(
        lambda i, s, r: i < m, lambda i, s, r: (i + 1, s * 0.5 + x, r.write(i, s)), (0, x, rows)
    )
    return {"last": last, "all": rows.stack()}


def collatz(x: Any) -> Any:
    _, rounds = tf.while_loop(
        lambda v, n: v > 1, lambda v, n: (tf.where(v % 2 == 0, v // 2, 3 * v + 1), n + 1), (x, tf.constant(0))
    )
    return rounds


def nested_conditions(x: Any, c: Any, d: Any) -> Any:
    return tf.cond(c, lambda: tf.cond(d, lambda: x + 1, lambda: -x), lambda: tf.square(x))


def switch(x: Any, k: Any) -> Any:
    return tf.switch_case(k, [lambda: x + 1, lambda: tf.exp(x), lambda: -x], default=lambda: x * 0)


def autograph(x: Any, m: Any) -> Any:
    total = tf.zeros_like(x)
    for i in tf.range(m):
        if i % 2 == 0:
            total += x
        else:
            total = total * 0.5
        if tf.reduce_max(total) > 3:
            break
    return total


def array_of_parts(x: Any) -> Any:
    array = tf.TensorArray(tf.float32, tf.shape(x)[0], infer_shape=False).unstack(x)
    total = tf.while_loop(
        lambda i, s: i < tf.shape(x)[0],
        lambda i, s: (i + 1, s + array.read(i) * tf.cast(i, tf.float32)),
        (0, tf.zeros([3])),
    )[1]
    return {"total": total, "reversed": tf.reverse(array.stack(), [0])}


def ragged_sums(x: Any, lengths: Any) -> Any:
    ragged = tf.RaggedTensor.from_row_lengths(x, lengths)
    return {"sums": tf.reduce_sum(ragged, 1), "dense": ragged.to_tensor(-1.0), "means": tf.reduce_mean(ragged * 2, 1)}


def ragged_range(n: Any) -> Any:
    ragged = tf.ragged.range(n)
    return {"values": ragged.values, "splits": ragged.row_splits, "dense": ragged.to_tensor()}


def ragged_concat(x: Any, lengths: Any) -> Any:
    ragged = tf.RaggedTensor.from_row_lengths(x, lengths)
    both = tf.concat([ragged, ragged[:, :1]], 1)
    return {"values": both.values, "counts": both.row_lengths()}


def ragged_map(x: Any, lengths: Any) -> Any:
    ragged = tf.RaggedTensor.from_row_lengths(x, lengths)
    return tf.map_fn(lambda row: tf.reduce_sum(row * row), ragged, fn_output_signature=tf.float32)


def ragged_mask(x: Any) -> Any:
    ragged = tf.ragged.boolean_mask(x, x > 0)
    return {"values": ragged.flat_values, "dense": ragged.to_tensor()}


def state() -> Any:
    step = tf.Variable(2.0)
    table = tf.Variable(tf.reshape(tf.range(6.0), [3, 2]))

    return lambda x: tf.matmul(x, table) * step.read_value()


def early_stop(x: Any) -> Any:
    return tf.while_loop(lambda s: tf.reduce_max(tf.abs(s)) < 50.0, lambda s: (s * 2.0 + 0.1,), (x,))[0]


def scan_pairs(x: Any) -> Any:
    a, b = tf.scan(lambda s, e: (s[0] + e, s[1] * 0.5 + s[0]), x, (tf.zeros([3]), tf.ones([3])))
    return {"a": a, "b": b}


CONTROL = [
    program("while_with_a_list", while_with_a_list, {"x": ("n", 3), "m": (I32,)}, *N123, given={"m": [1, 2, 4]}),
    program("while_of_integers", collatz, {"x": (I32,)}, {}, {}, {}, given={"x": [1, 6, 27]}),
    program(
        "conditions_in_conditions",
        nested_conditions,
        {"x": ("n", 2), "c": (BOOL,), "d": (BOOL,)},
        *N123,
        given={"c": [True, True, False], "d": [True, False, False]},
    ),
    program("switch_of_four", switch, {"x": ("n",), "k": (I32,)}, *N123, {"n": 2}, given={"k": [0, 1, 2, 9]}),
    program("loop_with_break", autograph, {"x": ("n",), "m": (I32,)}, *N123, given={"m": [0, 3, 9]}),
    program("array_read_in_a_loop", array_of_parts, {"x": ("n", 3)}, *N123),
    program("mapped_rows", lambda x: tf.map_fn(lambda r: tf.nn.softmax(r * 2), x), {"x": ("n", 4)}, *N123),
    program(
        "mapped_pairs",
        lambda x, z: tf.map_fn(lambda r: r[0] @ r[1], (x, z), fn_output_signature=tf.float32),
        {"x": ("n", 2, 3), "z": ("n", 3, 2)},
        *N123,
    ),
    program("folded_rows", lambda x: tf.foldl(lambda s, r: s * 0.5 + r, x), {"x": ("n", 3)}, *N123),
    program("folded_backwards", lambda x: tf.foldr(lambda s, r: s * 0.5 + r, x), {"x": ("n", 3)}, *N123),
    program("scanned_pairs", scan_pairs, {"x": ("n", 3)}, *N123),
    program("scanned_backwards", lambda x: tf.scan(lambda s, e: s + e, x, reverse=True), {"x": ("n", 3)}, *N123),
    program("doubled_until_large", early_stop, {"x": ("n",)}, *N123),
    program("vectorized_rows", lambda x: tf.vectorized_map(lambda r: r * tf.reduce_sum(r), x), {"x": ("n", 3)}, *N123),
    program(
        "ragged_sums",
        ragged_sums,
        {"x": ("n",), "lengths": ("k", I64)},
        {"n": 4, "k": 3},
        {"n": 0, "k": 1},
        {"n": 5, "k": 2},
        given={"lengths": [[1, 0, 3], [0], [2, 3]]},
    ),
    program("ragged_range", ragged_range, {"n": ("k", I32)}, {"k": 3}, {"k": 1}, given={"n": [[2, 0, 3], [4]]}),
    program(
        "ragged_concat",
        ragged_concat,
        {"x": ("n",), "lengths": ("k", I64)},
        {"n": 4, "k": 3},
        {"n": 5, "k": 2},
        given={"lengths": [[1, 0, 3], [2, 3]]},
    ),
    program(
        "ragged_map",
        ragged_map,
        {"x": ("n",), "lengths": ("k", I64)},
        {"n": 4, "k": 3},
        {"n": 5, "k": 2},
        given={"lengths": [[1, 0, 3], [2, 3]]},
    ),
    program("ragged_mask", ragged_mask, {"x": ("n", 4)}, *N123),
    program("variables_read", state, {"x": ("n", 3)}, *N123, build=True),
    program(
        "condition_on_a_size",
        lambda x: tf.cond(tf.shape(x)[0] > 1, lambda: x * 2, lambda: x - 1),
        {"x": ("n", 2)},
        *N123,
    ),
    program(
        "branches_of_other_lengths",
        lambda x, c: tf.cond(c, lambda: x[:, :1], lambda: x),
        {"x": ("n", 3), "c": (BOOL,)},
        *N123,
        given={"c": [True, False, True]},
    ),
]
