"""Lists of tensors: TensorArray in all its uses, map_fn, scan, foldl, vectorized_map."""

from __future__ import annotations

import tensorflow as tf

from tests.suites.frozen_graphs.row import autographed, f32, i32, i64, row

X = f32(3, 4)
BOTH = "static open old"


def appended(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        found = found.write(i, x[i] * 2)
    return found.stack()


def appended_at_its_size(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for r in x:
        found = found.write(found.size(), r * 2)
    return found.stack()


def counted_as_written(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return how long a list is after a write in the same iteration."""
    found, total = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4]), 0
    for i in tf.range(tf.shape(x)[0]):
        found = found.write(i, x[i])
        total += found.size()
    return found.stack(), total


def filled_up_to(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    """Return a loop whose condition depends on the list's length."""
    start = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    (found,) = tf.while_loop(lambda t: t.size() < n, lambda t: (t.write(t.size(), x[0] * 2.0),), [start])
    return found.stack()


def written_until_long(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    start = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    i, found = tf.while_loop(
        lambda i, t: tf.logical_and(t.size() < 2, i < 3), lambda i, t: (i + 1, t.write(i, tf.gather(x, i))), [0, start]
    )
    return i, found.stack()


def pushed_and_counted(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    start = tf.raw_ops.EmptyTensorList(element_shape=[4], max_num_elements=-1, element_dtype=tf.float32)

    def body(i: tf.Tensor, total: tf.Tensor, items: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        items = tf.raw_ops.TensorListPushBack(input_handle=items, tensor=tf.gather(x, i))
        return i + 1, total + tf.raw_ops.TensorListLength(input_handle=items), items

    _, total, items = tf.while_loop(lambda i, total, items: i < 3, body, [0, 0, start])
    return total, tf.raw_ops.TensorListStack(input_handle=items, element_shape=[4], element_dtype=tf.float32)


def last_of_some_steps(x: tf.Tensor, n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a recurrent loop that may end before the sequence, with the last output in its state."""
    w, r = tf.constant(f32(4, 4, seed=1)), tf.constant(f32(4, 4, seed=2))

    def body(t: tf.Tensor, h: tf.Tensor, last: tf.Tensor, ta: tf.TensorArray) -> tuple[object, ...]:
        new = tf.tanh(tf.matmul(tf.gather(x, t), w) + tf.matmul(h, r))
        return t + 1, new, new, ta.write(t, new)

    start = [0, tf.zeros([2, 4]), tf.zeros([2, 4]), tf.TensorArray(tf.float32, size=5, element_shape=[2, 4])]
    _, _, last, ta = tf.while_loop(lambda t, *_: tf.logical_and(t < 5, t < n), body, start)
    return ta.stack(), last


def filtered(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    n = 0
    for r in x:
        if r[0] > 0:
            found = found.write(n, r)
            n += 1
    return found.stack()


def filtered_numbers(x: tf.Tensor) -> tf.Tensor:
    """Return a list whose element shape is known only from the branch that writes one."""
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    n = 0
    for r in x:
        if r[0] > 0:
            found = found.write(n, r[0])
            n += 1
    return found.stack()


def joined(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(3):
        found = found.write(i, x[:2] * tf.cast(i, tf.float32))
    return found.concat()


def joined_unequal(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=3, infer_shape=False, element_shape=[None, 4])
    for i in tf.range(3):
        found = found.write(i, x[: i + 1])
    return found.concat()


def joined_of_lengths(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False, clear_after_read=False)
    for i in tf.range(tf.shape(x)[0]):
        found = found.write(i, tf.repeat(x[i : i + 1], i, axis=0))
    return found.concat(), found.read(2)


def items_of_lengths(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
    found = tf.TensorArray(tf.float32, size=2, infer_shape=False, clear_after_read=False)
    found = found.write(1, x[:1]).write(0, x)
    return found.read(0), found.concat()


def appended_while(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    i = 0
    while tf.reduce_max(x) > 0.1:
        found = found.write(i, x)
        x = x / 2
        i += 1
    return found.stack()


def read_and_written(x: tf.Tensor) -> tf.Tensor:
    n = tf.shape(x)[0]
    found = tf.TensorArray(tf.float32, size=n + 1, clear_after_read=False, element_shape=[4])
    found = found.write(0, tf.ones([4]))
    for i in tf.range(n):
        found = found.write(i + 1, found.read(i) * 0.5 + x[i])
    return found.stack()


def read_and_grown(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=1, dynamic_size=True, clear_after_read=False)
    found = found.write(0, tf.ones([4]))
    for i in tf.range(tf.shape(x)[0]):
        found = found.write(i + 1, found.read(i) * 0.5 + x[i])
    return found.stack()


def same_place(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=2, clear_after_read=False).unstack(x[:2])
    for i in tf.range(3):
        found = found.write(1, found.read(0) + found.read(1) * tf.cast(i, tf.float32))
    return found.stack()


def backwards(x: tf.Tensor) -> tf.Tensor:
    n = tf.shape(x)[0]
    found = tf.TensorArray(tf.float32, size=n, element_shape=[4])
    for i in tf.range(n):
        found = found.write(n - 1 - i, x[i])
    return found.stack()


def two_lists(x: tf.Tensor) -> list[tf.Tensor]:
    a = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    b = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        a = a.write(i, x[i])
        b = b.write(i, i * i)
    return [a.stack(), b.stack()]


def python_list(x: tf.Tensor) -> tf.Tensor:
    found = []
    for i in range(3):
        found.append(x[i] * i)
    return tf.stack(found)


def sizes(x: tf.Tensor) -> tf.Tensor:
    found = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    for i in tf.range(tf.shape(x)[0]):
        found = found.write(i, x[i])
    return found.size()


def gathered(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.float32, size=tf.shape(x)[0]).unstack(x).gather(i)


def scattered(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.float32, size=3, element_shape=[4]).scatter(i, x).stack()


def scattered_by_data(x: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4]).scatter(i, x).stack()


def parts(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.float32, size=3, infer_shape=False).split(x, n).read(1)


def written_once(x: tf.Tensor) -> tf.Tensor:
    return tf.TensorArray(tf.float32, size=3).write(0, x).write(2, x * 2).write(1, -x).stack()


def beam(x: tf.Tensor) -> tf.Tensor:
    """Return a greedy decoder: each step reads what the previous step wrote."""
    tokens = tf.TensorArray(tf.int32, size=0, dynamic_size=True, clear_after_read=False)
    tokens = tokens.write(0, tf.constant([1, 2]))
    for i in tf.range(4):
        last = tokens.read(i)
        scores = tf.gather(x, last)
        tokens = tokens.write(i + 1, tf.argmax(scores, 1, tf.int32))
    return tf.transpose(tokens.stack())


def so_far(x: tf.Tensor) -> tf.Tensor:
    """Return a decoder that reads all earlier outputs at each step."""
    tokens = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False, element_shape=[4])
    tokens = tokens.write(0, x[0])
    for i in tf.range(3):
        tokens = tokens.write(i + 1, tf.reduce_sum(tokens.stack(), 0) + x[i])
    return tokens.stack()


def ragged_map(v: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(tf.reduce_sum, tf.RaggedTensor.from_row_lengths(v, n), fn_output_signature=tf.float32)


def ragged_to_ragged(v: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    rows = tf.RaggedTensor.from_row_lengths(v, n)
    signature = tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0)
    return tf.map_fn(lambda r: r * 2, rows, fn_output_signature=signature).to_tensor()


def ragged_max(v: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
    rows = tf.RaggedTensor.from_row_lengths(v, n)
    return tf.map_fn(lambda r: tf.reduce_max(tf.concat([r, [0.0]], 0)), rows, fn_output_signature=tf.float32)


ROWS = [
    row("appended", autographed(appended), [X], [X[:1]], forms=BOTH),
    row("appended_at_its_size", autographed(appended_at_its_size), [X]),
    row("filtered", autographed(filtered), [X], [-X]),
    row("filtered_numbers", autographed(filtered_numbers), [X], [-X], forms="open"),
    row("joined", autographed(joined), [X]),
    row("joined_unequal", autographed(joined_unequal), [X], [-X]),
    row("appended_while", autographed(appended_while), [X]),
    row("read_and_written", autographed(read_and_written), [X]),
    row("read_and_grown", autographed(read_and_grown), [X]),
    row("same_place", autographed(same_place), [X]),
    row("backwards", autographed(backwards), [X]),
    row("two_lists", autographed(two_lists), [X]),
    row("python_list", python_list, [X]),
    row("size_of_a_list", autographed(sizes), [X]),
    row("gathered", gathered, [X, i32([2, 0])], forms=BOTH),
    row("scattered", scattered, [X, i32([2, 0, 1])], forms=BOTH),
    row("scattered_by_data", scattered_by_data, [X, i32([2, 0, 1])]),
    row("parts", parts, [X, i64([1, 2, 0])], [X, i64([0, 1, 2])], forms=BOTH),
    row("items_of_lengths", items_of_lengths, [X], forms=BOTH),
    row("joined_of_lengths", autographed(joined_of_lengths), [X], [-X]),
    row("written_once", written_once, [f32(4)], forms=BOTH),
    row("beam", autographed(beam), [f32(5, 5)]),
    row("so_far", autographed(so_far), [X]),
    row("map", lambda x: tf.map_fn(lambda r: r * 2 + tf.reduce_sum(r), x), [X], forms=BOTH),
    row(
        "map_of_two",
        lambda x, y: tf.map_fn(lambda t: t[0] * t[1], (x, y), fn_output_signature=tf.float32),
        [X, X],
        forms=BOTH,
    ),
    row(
        "map_to_another_dtype",
        lambda x: tf.map_fn(lambda r: tf.argmax(r), x, fn_output_signature=tf.int64),
        [X],
        forms=BOTH,
    ),
    row("map_of_numbers", lambda n: tf.map_fn(lambda i: i * i, tf.range(n)), [i32(4)], forms=BOTH),
    row("map_of_products", lambda x, w: tf.map_fn(lambda r: tf.matmul(r, w), x), [f32(2, 3, 4), f32(4, 2)], forms=BOTH),
    row(
        "map_of_crops",
        lambda x, n: tf.map_fn(lambda t: tf.reduce_sum(t[0][: t[1]]), (x, n), fn_output_signature=tf.float32),
        [X, i32([1, 4, 2])],
    ),
    row("fold", lambda x: tf.foldl(lambda a, r: a + r, x), [X], forms=BOTH),
    row("fold_back", lambda x: tf.foldr(lambda a, r: a * 0.5 + r, x), [X], forms=BOTH),
    row("scan", lambda x: tf.scan(lambda a, r: a * 0.5 + r, x), [X], forms=BOTH),
    row("scan_from", lambda x: tf.scan(lambda a, r: a * 0.5 + r, x, tf.zeros([4]), reverse=True), [X], forms=BOTH),
    row(
        "scan_of_two",
        lambda x: tf.scan(lambda a, r: (a[0] + r, a[1] * r), x, (tf.zeros([4]), tf.ones([4]))),
        [X],
        forms=BOTH,
    ),
    row("vectorized", lambda x: tf.vectorized_map(lambda r: r * 2 + tf.reduce_sum(r), x), [X]),
    row("vectorized_pairs", lambda x, y: tf.vectorized_map(lambda t: tf.tensordot(t[0], t[1], 1), (x, y)), [X, X]),
    row("vectorized_products", lambda x, w: tf.vectorized_map(lambda r: tf.linalg.matvec(w, r), x), [X, f32(2, 4)]),
    row("vectorized_outer", lambda x: tf.vectorized_map(lambda r: r[:, None] * r[None], x), [X]),
    row(
        "vectorized_gathers",
        lambda x, i: tf.vectorized_map(lambda t: tf.gather(t[0], t[1]), (x, i)),
        [X, i32([[0, 1], [3, 3], [2, 0]])],
    ),
    row(
        "vectorized_slices",
        lambda x, i: tf.vectorized_map(lambda t: tf.slice(t[0], [t[1]], [2]), (x, i)),
        [X, i32([0, 2, 1])],
    ),
    row("vectorized_sorts", lambda x: tf.vectorized_map(lambda r: tf.sort(r), x), [X]),
    row(
        "vectorized_conv",
        lambda x: tf.vectorized_map(lambda r: tf.nn.conv2d(r[None], tf.ones([2, 2, 1, 2]), 1, "SAME")[0], x),
        [f32(2, 4, 5, 1)],
    ),
    row("vectorized_norms", lambda x: tf.vectorized_map(lambda r: r / tf.norm(r), x), [X]),
    row("vectorized_choices", lambda x: tf.vectorized_map(lambda r: tf.where(r > 0, r, tf.zeros_like(r)), x), [X]),
    row(
        "vectorized_solves",
        lambda x: tf.vectorized_map(lambda r: tf.linalg.inv(r), x),
        [f32(2, 3, 3)],
        gap="open: of unknown size",
    ),
    row("map_over_ragged", ragged_map, [f32(5), i64([2, 0, 3])], [f32(3), i64([3])]),
    row("map_from_ragged_to_ragged", ragged_to_ragged, [f32(5), i64([2, 0, 3])], gap="a list of ragged"),
    row("map_of_maxima_of_ragged", ragged_max, [f32(5), i64([2, 0, 3])]),
    # Not in TensorFlow 1's form, whose iterations write ahead of each other: 9 for 1 + 2 + 3.
    row("counted_as_written", autographed(counted_as_written), [X], [f32(5, 4)], forms="static open"),
    row("filled_up_to_a_length", filled_up_to, [X, i32(3)]),
    row("written_until_it_is_long", written_until_long, [X]),
    row("pushed_and_counted", pushed_and_counted, [X]),
    row("last_of_some_steps", last_of_some_steps, [f32(5, 2, 4), i32(3)]),
    row("stacked_over_time", lambda x: tf.stack([x[:, i] * i for i in range(3)], 1), [X]),
]
