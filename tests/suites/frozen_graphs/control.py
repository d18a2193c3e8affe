"""Conditions and loops of TensorFlow 1 and 2."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import autographed, boolean, f32, i32, row

X = f32(3, 4)
BOTH = "static open old"


def sum_until(x: tf.Tensor) -> tf.Tensor:
    total = tf.zeros([])
    for i in tf.range(tf.shape(x)[0]):
        if tf.reduce_sum(x[i]) > 100:
            break
        total += tf.reduce_sum(x[i])
    return total


def halved(x: tf.Tensor) -> tf.Tensor:
    while tf.reduce_max(tf.abs(x)) > 0.1:
        x = x / 2
    return x


def counted(n: tf.Tensor) -> tf.Tensor:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def nested(x: tf.Tensor) -> tf.Tensor:
    total = 0.0
    for i in tf.range(tf.shape(x)[0]):
        for j in tf.range(i + 1):
            total += x[i, j]
    return total


def skipping(x: tf.Tensor) -> tf.Tensor:
    total = tf.zeros([4])
    for row_ in x:
        if row_[0] < 0:
            continue
        total += row_
    return total


def returning(x: tf.Tensor) -> tf.Tensor:
    if tf.reduce_sum(x) > 0:
        return x + 1
    return x - 1


def one_element(x: tf.Tensor) -> tf.Tensor:
    """Return a loop whose condition is a tensor of one element."""
    return tf.while_loop(lambda i, x: tf.reshape(i < 3, [1]), lambda i, x: (i + 1, x * 2), [tf.constant(0), x])[1]


def growing(n: tf.Tensor) -> tf.Tensor:
    start = tf.zeros([1, 2])
    return tf.while_loop(
        lambda i, x: i < n,
        lambda i, x: (i + 1, tf.concat([x, tf.ones([1, 2]) * tf.cast(i, tf.float32)], 0)),
        [tf.constant(0), start],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
    )[1]


def fibonacci(n: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), [tf.constant(0), 0, 1])[1]


def descending(n: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, s: i > 0, lambda i, s: (i - 2, s + i), [n, 0])[1]


ROWS = [
    row("cond", lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: -x), [X], [-X], forms=BOTH),
    row(
        "cond_on_fed",
        lambda x, c: tf.cond(c, lambda: x * 2, lambda: -x),
        [X, boolean(True)],
        [X, boolean(False)],
        forms=BOTH,
    ),
    row(
        "cond_of_two",
        lambda x, c: tf.cond(c, lambda: [x, x + 1], lambda: [x * 2, x]),
        [X, boolean(True)],
        [X, boolean(False)],
        forms=BOTH,
    ),
    row(
        "cond_in_cond",
        lambda x, s: tf.cond(s > 0, lambda: tf.cond(s > 1, lambda: x, lambda: x * 3), lambda: x - s),
        [X, np.float32(2)],
        [X, np.float32(0.5)],
        [X, np.float32(-1)],
        forms=BOTH,
    ),
    row(
        "cond_of_other_dims",
        lambda x, c: tf.cond(c, lambda: x[:1], lambda: x),
        [X, boolean(True)],
        [X, boolean(False)],
        forms=BOTH,
    ),
    row("cond_of_integers", lambda n: tf.cond(n > 2, lambda: n * 2, lambda: n), [i32(3)], [i32(1)], forms=BOTH),
    row(
        "cond_of_constants",
        lambda c: tf.cond(c, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0])),
        [boolean(True)],
        [boolean(False)],
        forms=BOTH,
    ),
    row(
        "cond_of_no_rank",
        lambda x, c: tf.cond(c, lambda: x * 2, lambda: -x),
        [X, boolean(True)],
        forms="unranked",
        gap="a condition that is not a scalar",
    ),
    row(
        "cond_on_a_number",
        lambda x, n: tf.cond(tf.cast(n, tf.bool), lambda: x, lambda: -x),
        [X, i32(1)],
        [X, i32(0)],
        forms=BOTH,
    ),
    row(
        "switch_case",
        lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2, lambda: x * 3]),
        [X, i32(1)],
        [X, i32(5)],
        [X, i32(-1)],
        forms=BOTH,
    ),
    row(
        "case",
        lambda x: tf.case(
            [(tf.reduce_sum(x) > 5, lambda: x), (tf.reduce_sum(x) > 0, lambda: x * 2)], default=lambda: -x
        ),
        [X],
        [-X],
        [X + 9],
        forms=BOTH,
    ),
    row(
        "while",
        lambda n, x: tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.5), [0, x])[1],
        [i32(3), X],
        [i32(0), X],
        forms=BOTH,
    ),
    row(
        "while_of_data",
        lambda x: tf.while_loop(lambda y: tf.reduce_max(tf.abs(y)) > 0.1, lambda y: [y / 2], [x]),
        [X],
        forms=BOTH,
    ),
    row("while_of_one_element", one_element, [X], forms="static open"),
    row(
        "while_of_one_fed_element",
        lambda x, c: tf.while_loop(lambda x, c: c > 0, lambda x, c: (x * 2, c - 1), [x, c])[0],
        [X, np.float32([2])],
        forms="static",
    ),
    row("while_that_grows", growing, [i32(3)], [i32(0)], forms=BOTH),
    row("while_of_fibonacci", fibonacci, [i32(9)], [i32(0)], forms=BOTH),
    row("while_down", descending, [i32(9)], [i32(-3)], forms=BOTH),
    row(
        "while_in_while",
        lambda n: tf.while_loop(
            lambda i, s: i < n,
            lambda i, s: (i + 1, tf.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + j), [0, s])[1]),
            [0, 0],
        )[1],
        [i32(5)],
        forms=BOTH,
    ),
    row(
        "cond_in_while",
        lambda n, x: tf.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * 2, lambda: y - 1)), [0, x]
        )[1],
        [i32(3), X],
        forms=BOTH,
    ),
    row(
        "while_in_cond",
        lambda c, x: tf.cond(
            c, lambda: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [0, x])[1], lambda: x
        ),
        [boolean(True), X],
        [boolean(False), X],
        forms=BOTH,
    ),
    row(
        "while_of_an_outer_value",
        lambda x, w: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y @ w), [0, x])[1],
        [X, f32(4, 4)],
        forms=BOTH,
    ),
    row("for_with_a_break", autographed(sum_until), [X], [X * 90]),
    row("while_of_python", autographed(halved), [X]),
    row("collatz", autographed(counted), [i32(6)], [i32(1)]),
    row("loops_in_loops", autographed(nested), [f32(3, 3)]),
    row("for_with_a_continue", autographed(skipping), [X]),
    row("returns", autographed(returning), [X], [X - 9]),
    row("assertions", lambda x: (tf.debugging.assert_greater(tf.size(x), 0), x * 2)[1], [X], forms="static open"),
    row("variable", lambda x: x @ tf.compat.v1.get_variable("w", initializer=f32(4, 2)), [X], forms="old"),
    row("printed", lambda x: (tf.print(x), x * 2)[1], [X], forms="static"),
    row("custom_gradient", tf.custom_gradient(lambda x: (x * 2, lambda d: d)), [X]),
    row("gradient", lambda x: tf.gradients(tf.reduce_sum(x**3), x)[0], [X], forms=BOTH),
    row("stopped", lambda x: tf.stop_gradient(x) + 1, [X]),
    row(
        "condition_of_one_element",
        lambda x, c: tf.compat.v1.cond(tf.reshape(c, []), lambda: x, lambda: -x),
        [X, boolean([True])],
        [X, boolean([False])],
        forms=BOTH,
    ),
]
