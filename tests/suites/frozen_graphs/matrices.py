"""Matrix products, diagonals and solvers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.suites.frozen_graphs.row import f32, i32, row

A = f32(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)
SPD = A @ A.transpose(0, 2, 1)

ROWS = [
    row("product", tf.matmul, [f32(2, 3), f32(3, 4)], forms="static open old"),
    row("product_of_no_rank", tf.matmul, [f32(2, 3), f32(3, 4)], forms="unranked"),
    row("product_turned", lambda a, b: tf.matmul(a, b, transpose_a=True, transpose_b=True), [f32(3, 2), f32(4, 3)]),
    row("products", tf.matmul, [f32(5, 2, 3), f32(5, 3, 4)], forms="static open old"),
    row("products_broadcast", tf.matmul, [f32(5, 2, 3), f32(3, 4)]),
    row("product_of_integers", tf.matmul, [i32([[1, 2]]), i32([[3], [4]])]),
    row("vector_product", tf.linalg.matvec, [f32(5, 2, 3), f32(5, 3)]),
    row("einsum", lambda a, b: tf.einsum("bij,bjk->bik", a, b), [f32(5, 2, 3), f32(5, 3, 4)]),
    row("einsum_of_heads", lambda a, b: tf.einsum("bthd,bshd->bhts", a, b), [f32(2, 3, 2, 4), f32(2, 5, 2, 4)]),
    row("dense", lambda x: tf.nn.relu(x @ f32(4, 3) + f32(3)), [f32(2, 4)], forms="static open old"),
    row("diagonal", tf.linalg.diag, [f32(2, 3)]),
    row(
        "diagonal_of_fed",
        lambda x, k: tf.linalg.diag(x, k=k),
        [f32(2, 3), i32(1)],
        [f32(2, 3), i32(-2)],
        [f32(2, 3), i32(0)],
    ),
    row(
        "diagonals_of_fed",
        lambda x, k: tf.linalg.diag(x, k=k, num_rows=3, num_cols=3),
        [f32(2, 2, 3), i32([-1, 0])],
        [f32(2, 2, 3), i32([0, 1])],
        forms="static",
    ),
    row(
        "diagonal_in_a_matrix",
        lambda x: tf.linalg.diag(x, k=1, num_rows=4, num_cols=5, padding_value=9.0),
        [f32(2, 4)],
        forms="static",
    ),
    row("part_of_fed", lambda x, k: tf.linalg.diag_part(x, k=k), [f32(2, 3, 4), i32(1)], [f32(2, 3, 4), i32(-1)]),
    row("parts", lambda x: tf.linalg.diag_part(x, k=(-1, 1), padding_value=7.0), [f32(2, 3, 4)]),
    row(
        "parts_of_fed",
        lambda x, k: tf.linalg.diag_part(x, k=k),
        [f32(2, 3, 4), i32([-1, 1])],
        [f32(2, 3, 4), i32([0, 2])],
    ),
    row("diagonal_set", tf.linalg.set_diag, [f32(2, 3, 3), f32(2, 3)]),
    row(
        "diagonal_set_at_fed",
        lambda x, d, k: tf.linalg.set_diag(x, d, k=k),
        [f32(2, 3, 4), f32(2, 3), i32(1)],
        [f32(2, 3, 4), f32(2, 3), i32(0)],
    ),
    row(
        "diagonals_set_at_fed",
        lambda x, d, k: tf.linalg.set_diag(x, d, k=k),
        [f32(2, 3, 3), f32(2, 2, 3), i32([-1, 0])],
        [f32(2, 3, 3), f32(2, 2, 3), i32([0, 1])],
        forms="static",
    ),
    row("band", lambda x: tf.linalg.band_part(x, 1, 0), [f32(2, 3, 4)]),
    row("band_of_fed", tf.linalg.band_part, [f32(2, 3, 4), i32(1), i32(0)], [f32(2, 3, 4), i32(-1), i32(1)]),
    row("eye_of_fed", lambda n: tf.eye(n), [i32(3)], [i32(1)]),
    row("trace", tf.linalg.trace, [f32(2, 3, 3)]),
    row("inverse", tf.linalg.inv, [A], gap="open: of unknown size"),
    row("determinant", tf.linalg.det, [A]),
    row("log_determinant", tf.linalg.logdet, [SPD], gap="open: of unknown size"),
    row("cholesky", tf.linalg.cholesky, [SPD], gap="open: of unknown size"),
    row("solve", tf.linalg.solve, [A, f32(2, 4, 3)], gap="open: of unknown size"),
    row(
        "triangular_solve",
        lambda a, b: tf.linalg.triangular_solve(a, b),
        [A, f32(2, 4, 3)],
        gap="open: of unknown size",
    ),
    row(
        "cholesky_solve",
        lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b),
        [SPD, f32(2, 4, 3)],
        gap="open: of unknown size",
    ),
    row("pseudo_inverse", lambda a: tf.linalg.pinv(a), [f32(2, 4, 5)], forms="static"),
    row("eigenvalues", tf.linalg.eigvalsh, [SPD], forms="static"),
    row("singular_values", lambda a: tf.linalg.svd(a, compute_uv=False), [f32(2, 4, 5)], forms="static"),
    row("norm", lambda x: [tf.norm(x), tf.norm(x, ord=1, axis=1), tf.norm(x, np.inf, axis=0)], [f32(3, 4)]),
    row("cross", tf.linalg.cross, [f32(4, 3), f32(4, 3)]),
    row("least_squares", lambda a, b: tf.linalg.lstsq(a, b), [f32(2, 5, 3), f32(2, 5, 1)], forms="static"),
    row("matrix_power", lambda a: tf.linalg.matmul(a, tf.linalg.matmul(a, a)), [A]),
    row("fft", lambda x: tf.abs(tf.signal.rfft(x)), [f32(3, 8)]),
    row("fft_there_and_back", lambda x: tf.signal.irfft(tf.signal.rfft(x)), [f32(3, 8)], forms="static"),
    row("stft", lambda x: tf.abs(tf.signal.stft(x, 8, 4)), [f32(2, 20)]),
]


def batched(function: object, *dims: int | None) -> object:
    """Return the function of a tensor of which only the batch is dynamic."""
    return lambda x: function(tf.ensure_shape(x, [None, *dims]))  # type: ignore[operator]


ROWS += [
    row("pseudo_inverse_of_a_batch", batched(tf.linalg.pinv, 4, 5), [f32(2, 4, 5)], [f32(3, 4, 5)], forms="open old"),
    row(
        "singular_values_of_a_batch",
        batched(lambda a: tf.linalg.svd(a, compute_uv=False), 4, 5),
        [f32(2, 4, 5)],
        forms="open",
    ),
    row("eigenvalues_of_a_batch", batched(tf.linalg.eigvalsh, 4, 4), [SPD], forms="open"),
    row("solve_of_a_batch", batched(lambda a: tf.linalg.solve(a, tf.ones_like(a)), 4, 4), [A], forms="open"),
    row(
        "least_squares_of_a_batch",
        batched(lambda a: tf.linalg.lstsq(a, tf.ones_like(a)), 5, 4),
        [f32(2, 5, 4)],
        forms="open",
    ),
    row("exponential_of_a_batch", batched(tf.linalg.expm, 3, 3), [f32(2, 3, 3)], forms="open"),
    row("orthogonal_factor", batched(lambda a: tf.matmul(*tf.linalg.qr(a)), 4, 3), [f32(2, 4, 3)], forms="open"),
    row("logarithm_determinant_of_a_batch", batched(lambda a: tf.linalg.slogdet(a), 4, 4), [A], forms="open"),
    row(
        "norms_of_matrices",
        batched(lambda a: tf.norm(a, 2, axis=[-2, -1]), 4, 5),
        [f32(2, 4, 5)],
        forms="open",
        gap="of unknown size",
    ),
]
