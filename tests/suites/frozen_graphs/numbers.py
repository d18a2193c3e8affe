"""Scalars, dtypes, elementwise arithmetic with operands of any rank."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import above, boolean, f32, i32, i64, row

SCALAR, ANY = "static old", "static open unranked"
X = f32(3, 4)


TURNS = np.exp(1j * np.outer(np.arange(8), [1.0, 0.1, 0.3, 2.0])).astype(np.complex64)
WIDE = i64([1, 2, 3])


def _parts(z: tf.Tensor) -> list[tf.Tensor]:
    return [tf.math.real(z), tf.math.imag(z)]


ROWS = [
    row("add_of_scalars", lambda a, b: a + b, [f32(), f32(seed=1)], forms=SCALAR),
    row("scaled_by_a_scalar", lambda x, s: x * s, [X, f32()], forms="static open old"),
    row("power_of_scalars", tf.pow, [above(), i32(3).astype(np.float32)], forms=SCALAR),
    row("where_by_a_scalar", tf.where, [boolean(True), X, -X], forms="static open old"),
    row("filled_by_a_scalar", lambda v: tf.fill([2, 3], v), [f32()], forms=SCALAR),
    row("range_to_a_scalar", lambda n: tf.range(n), [i32(5)], [i32(0)], forms=SCALAR),
    row("range_of_three_scalars", tf.range, [i32(2), i32(11), i32(3)], [i32(9), i32(0), i32(-2)], forms=SCALAR),
    row("range_of_floats", tf.range, [np.float32(0.5), np.float32(3), np.float32(0.75)], forms=SCALAR),
    row("linspace_of_scalars", lambda a, b: tf.linspace(a, b, 5), [np.float32(0), np.float32(2)], forms=SCALAR),
    row("linspace_of_a_count", lambda n: tf.linspace(0.0, 1.0, n), [i32(4)], [i32(1)], forms=SCALAR),
    row("clipped_by_scalars", tf.clip_by_value, [X, np.float32(-0.5), np.float32(0.5)], forms="static open old"),
    row("scalar_expanded", lambda x: tf.expand_dims(x, 0), [f32()], forms=SCALAR),
    row("scalar_reshaped", lambda x: tf.reshape(x, [1, 1]), [f32()], forms=SCALAR),
    row("to_a_scalar", lambda x: tf.reshape(x, []), [f32(1, 1)]),
    row("scalars_stacked", lambda a, b: tf.stack([a, b, a]), [f32(), f32(seed=1)], forms=SCALAR),
    row("scalar_broadcast", lambda x, s: tf.broadcast_to(x, s), [f32(), i32([2, 3])], forms=SCALAR),
    row("scalar_tiled", lambda x, n: tf.tile(tf.reshape(x, [1]), [n]), [f32(), i32(4)], forms=SCALAR),
    row("scalar_of_bool", lambda b: tf.cast(b, tf.float32), [boolean(True)], forms=SCALAR),
    row("mean_of_a_scalar", tf.reduce_mean, [f32()], forms=SCALAR),
    row("integer_division", lambda a, b: [a // b, a % b], [i32([-7, 7, 5]), i32([2, -2, 5])], forms="static open old"),
    row("truncated_division", lambda a, b: [tf.truncatediv(a, b), tf.truncatemod(a, b)], [i32([-7, 7]), i32([2, -2])]),
    row("floor_of_floats", lambda a, b: [tf.math.floordiv(a, b), tf.math.floormod(a, b)], [X, X + np.float32(3)]),
    row("wide_integers", lambda a, b: [a * b, a - b, tf.maximum(a, b)], [i64([1 << 40, -3]), i64([3, 9])]),
    row("halves", lambda a: [tf.exp(a), tf.nn.softmax(a)], [X.astype(np.float16)]),
    row("doubles", lambda a: [tf.sin(a), tf.matmul(a, a, transpose_b=True)], [X.astype(np.float64)]),
    row("bytes", lambda a, b: [a + b, tf.bitwise.bitwise_xor(a, b)], [np.uint8([200, 3]), np.uint8([100, 5])]),
    *(
        row(
            f"{name}_of_{np.dtype(kind).name}",
            function,
            [np.arange(-3 if np.dtype(kind).kind == "i" else 0, 6).astype(kind)],
        )
        for kind in (np.uint8, np.int8, np.int16, np.uint16, np.int64)
        for name, function in (
            ("quotients", lambda x: [x // 2, x % 3]),
            ("sums", lambda x: [x + x, x - 1, x * 2]),
            ("comparisons", lambda x: [x > 2, x == 3, x <= 1]),
            ("the_largest", lambda x: list(tf.math.top_k(x, 2))),
            ("distinct", lambda x: tf.unique(tf.concat([x, x], 0)).y),
            ("no_less_than_zero", tf.nn.relu),
            ("sign_changed", lambda x: -x),
        )
        if (name, kind) != ("sign_changed", np.uint8) and (name, kind) != ("sign_changed", np.uint16)
    ),
    row("cast_to_each", lambda x: [tf.cast(x, t) for t in ("int32", "int64", "float64", "bool", "int8")], [X * 3]),
    *(
        row(f"complex_{f.__name__}", lambda a, b, f=f: _parts(f(tf.complex(a, b))), [X, X + 1])
        for f in (tf.cos, tf.sin, tf.cosh, tf.sinh, tf.exp)
    ),
    row("complex_magnitude", lambda a, b: tf.abs(tf.complex(a, b)), [X, X + 1]),
    row("complex_product", lambda a, b: tf.math.real(tf.complex(a, b) * tf.complex(b, a)), [X, X + 1]),
    row("complex_rows_of_a_table", lambda x: _parts(tf.complex(x, x + 1) * tf.constant(TURNS)[: tf.shape(x)[0]]), [X]),
    row("complex_rows_gathered", lambda x: _parts(tf.complex(x, x + 1) * tf.gather(TURNS, [0, 2, 4])), [X]),
    row("complex_number", lambda x: x * tf.math.real(tf.constant(2 + 1j, tf.complex64)), [X]),
    row("complex_exponential", lambda x: _parts(tf.complex(x, x) * tf.exp(tf.constant(0.5j, tf.complex64))), [X]),
    row("complex_spectrum", lambda x: _parts(tf.complex(x, x) * tf.signal.fft(tf.constant(TURNS[0]))), [X]),
    row("complex_adjoint", lambda x: _parts(tf.linalg.adjoint(tf.complex(x, x + 1))), [X]),
    row("complex_filled", lambda x: _parts(tf.fill([3, 4], tf.constant(1 - 2j, tf.complex64)) * tf.complex(x, x)), [X]),
    row("complex_diagonal", lambda x: _parts(tf.linalg.tensor_diag(tf.complex(x, x + 1))), [f32(3)]),
    row(
        "cast_that_wraps_around",
        lambda x: [tf.cast(tf.constant([200, 300, -1]), tf.uint8), tf.cast(x, tf.uint32) + tf.cast(-1, tf.uint32)],
        [np.float32([3, 4])],
    ),
    row(
        "bias_of_integers",
        lambda x: tf.nn.bias_add(tf.matmul(x, [[1, -2], [3, 4]]), [10, 20]),
        [i32([[1, 2], [3, 4]])],
    ),
    row(
        "counted_in_tenths",
        lambda n, step: tf.range(0.0, n, step),
        *([np.float32(n / 10), np.float32(0.1)] for n in (3, 6, 7, 12, 23)),
        forms=SCALAR,
    ),
    row("counted_in_tenths_of_constants", lambda x: x + tf.range(0.0, 0.3, 0.1), [f32(2, 1)]),
    row("list_difference", lambda x: [x + 1, tf.raw_ops.ListDiff(x=WIDE, y=WIDE[1:2])[1]], [X]),
    row("negated", lambda x: -x, [X], forms=ANY),
    row("activations", lambda x: [tf.nn.relu6(x), tf.nn.elu(x), tf.nn.selu(x), tf.nn.softplus(x)], [X], forms=ANY),
    row("leaky", lambda x: [tf.nn.leaky_relu(x, 0.1), tf.nn.swish(x), tf.nn.gelu(x)], [X], forms=ANY),
    row("sum_with_a_constant", lambda x: x + np.float32(2), [X], forms=ANY),
    row("sum_of_two", lambda x, y: x + y, [X, X], forms=ANY),
    row("comparison", lambda x, y: tf.cast(x > y, tf.float32), [X, -X], forms=ANY),
    row(
        "logic",
        lambda a, b: tf.logical_and(a, tf.logical_not(b)),
        [boolean([True, True]), boolean([False, True])],
        forms=ANY,
    ),
    row("broadcast_of_ranks", lambda x, y: x * y, [f32(2, 3, 4), f32(4)]),
    row("squared_difference", tf.math.squared_difference, [X, f32(4)]),
    row(
        "logarithms",
        lambda x: [tf.math.log(x), tf.math.log1p(x), tf.math.rsqrt(x), tf.math.reciprocal(x)],
        [above(3, 4)],
        forms=ANY,
    ),
    row(
        "rounding",
        lambda x: [tf.round(x), tf.floor(x), tf.math.ceil(x), tf.math.rint(x)],
        [np.float32([-2.5, -1.5, 0.5, 1.5, 2.5])],
        forms=ANY,
    ),
    row("trigonometry", lambda x: [tf.tan(x), tf.asin(x / 9), tf.atan(x), tf.sinh(x), tf.acosh(x * x + 1)], [X]),
    row("atan2", tf.atan2, [X, -X]),
    row("special", lambda x: [tf.math.erf(x), tf.math.lgamma(x), tf.math.digamma(x), tf.math.erfc(x)], [above(3, 4)]),
    row("zeta", lambda x: [tf.math.zeta(x + 1, x), tf.math.igamma(x, x), tf.math.polygamma(1.0, x)], [above(3)]),
    row(
        "not_a_number",
        lambda x: [tf.math.is_nan(x), tf.math.is_inf(x), tf.math.is_finite(x)],
        [np.float32([np.nan, np.inf, -np.inf, 1])],
        forms=ANY,
    ),
    row("division_without_nan", tf.math.divide_no_nan, [np.float32([1, 0, 2]), np.float32([0, 0, 4])]),
    row("sum_of_many", lambda a, b, c: tf.add_n([a, b, c]), [X, X, X]),
    row("signs", lambda x: [tf.sign(x), tf.abs(x), tf.square(x)], [X], forms=ANY),
    row("clip_by_norm", lambda x, n: tf.clip_by_norm(x, n), [X, np.float32(1)]),
    row(
        "shifts", lambda a, b: [tf.bitwise.left_shift(a, b), tf.bitwise.right_shift(a, b)], [i32([5, -9]), i32([2, 1])]
    ),
    row("one_hot", lambda i: tf.one_hot(i, 4, 2.0, -1.0), [i32([0, 3, 7])]),
    row("one_hot_of_a_depth", lambda i, d: tf.one_hot(i, d), [i32([0, 2]), i32(4)], [i32([1, 1]), i32(2)]),
    row("one_hot_of_a_scalar", lambda i: tf.one_hot(i, 4), [i32(2)], forms=SCALAR),
    row("one_hot_of_values", lambda i, a, b: tf.one_hot(i, 3, a, b), [i32([0, 2]), np.float32(5), np.float32(1)]),
    row("with_a_default", lambda x: x * tf.compat.v1.placeholder_with_default(np.float32(3), []), [X], forms="old"),
]
