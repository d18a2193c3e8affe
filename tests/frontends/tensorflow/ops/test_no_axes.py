"""Operators on vectors and scalars whose rules reduce over lists of axes that may be empty, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow says what is right")

import onnxruntime
import tensorflow as tf

import convert

REDUCING = ("sum", "mean", "max", "min", "prod", "logsumexp", "euclidean_norm", "variance", "std")


def levels(axis: int) -> Callable[[Any], Any]:
    """Return levels whose range is the range of the numbers, along an axis."""
    return lambda x: tf.raw_ops.QuantizeAndDequantizeV4(
        input=x, input_min=[0.0] * x.shape[axis], input_max=[0.0] * x.shape[axis], range_given=False, axis=axis,
        signed_input=True, num_bits=8, round_mode="HALF_TO_EVEN", narrow_range=False,
    )  # fmt: skip


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{
        f"reduce_{name} of no axes": (lambda x, name=name: getattr(tf.math, f"reduce_{name}")(x, axis=[]))
        for name in REDUCING
    },
    "reduce_all of no axes": lambda x: tf.reduce_all(x > 0, axis=[]),
    "reduce_any of no axes": lambda x: tf.reduce_any(x > 0, axis=[]),
    "mean of integers": lambda x: tf.reduce_mean(tf.cast(x * 9, tf.int32), axis=[]),
    "sum of bytes": lambda x: tf.reduce_sum(tf.cast(x * 9, tf.int8), axis=[]),
    "moments": lambda x: tf.stack(tf.nn.moments(x, [])),
    "levels along the only axis": levels(0),
    "l2_normalize of no axes": lambda x: tf.nn.l2_normalize(x, []),
    "squeeze": lambda x: tf.squeeze(x[None], [0]),
    "reverse of no axes": lambda x: tf.reverse(x, []),
    "sum of sparse numbers over no axes": lambda x: tf.sparse.reduce_sum(tf.sparse.from_dense(x), axis=[]),
    "tensordot of no axes": lambda x: tf.tensordot(x, x, 0),
    "largest": lambda x: tf.math.top_k(x, 1)[0],
    "softmax": lambda x: tf.nn.softmax(x, 0),
}


@pytest.mark.parametrize("shape", [(5,), (1,), ()], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_gives_what_tensorflow_gives(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32).reshape(shape)
    try:
        want = FUNCTIONS[name](tf.constant(x)).numpy()
    except (tf.errors.InvalidArgumentError, ValueError, IndexError):
        return  # TensorFlow has no such operator of this rank
    called = FUNCTIONS[name]
    function = tf.function(called, input_signature=[tf.TensorSpec(shape, name="x")], autograph=False)
    session = onnxruntime.InferenceSession(convert.to_onnx(function, verify=False).SerializeToString())
    (got,) = session.run(None, {i.name: x for i in session.get_inputs()})
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
