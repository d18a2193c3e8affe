"""A network of bytes, as TensorFlow 1 wrote it: what reaches one kernel from another is the same to the last level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convert.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support import eigen_kernels
from tests.support.tensorflow_helper import read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
CHANCE = np.random.default_rng(3)


def stored(*shape: int) -> tuple[Any, float, float]:
    """A weight as bytes, in a constant of TensorFlow's own type for them, and its range."""
    levels = CHANCE.integers(0, 256, shape).astype(tf.quint8.as_numpy_dtype)
    return tf.constant(levels, tf.quint8), -1.2, 0.9


def narrowed(sums: Any, low: Any, high: Any) -> Any:
    ends = tf.raw_ops.RequantizationRange(input=sums, input_min=low, input_max=high)
    return tf.raw_ops.Requantize(
        input=sums, input_min=low, input_max=high, requested_output_min=ends[0], requested_output_max=ends[1],
        out_type=tf.quint8,
    )  # fmt: skip


def layer(x: Any, low: Any, high: Any, inner: int, outer: int) -> Any:
    """Convolution, bias and Relu: nine kernels, with the ranges of the sums found in between."""
    (w, *of_w), (b, *of_b) = stored(3, 3, inner, outer), stored(outer)
    sums = tf.raw_ops.QuantizedConv2D(
        input=x, filter=w, min_input=low, max_input=high, min_filter=of_w[0], max_filter=of_w[1],
        strides=[1, 2, 2, 1], padding="SAME",
    )  # fmt: skip
    y, *of_y = narrowed(*sums)
    sums = tf.raw_ops.QuantizedBiasAdd(
        input=y, bias=b, min_input=of_y[0], max_input=of_y[1], min_bias=of_b[0], max_bias=of_b[1], out_type=tf.qint32
    )
    y, *of_y = narrowed(*sums)
    return tf.raw_ops.QuantizedRelu(features=y, min_features=of_y[0], max_features=of_y[1], out_type=tf.quint8)


@tf.function(input_signature=[tf.TensorSpec([None, 11, 12, 3], name="image")], autograph=False)
def network(image: Any) -> dict[str, Any]:
    ends = tf.reduce_min(image), tf.reduce_max(image)
    x = tf.raw_ops.QuantizeV2(input=image, min_range=ends[0], max_range=ends[1], T=tf.quint8, mode="MIN_FIRST")
    first = layer(*x, 3, 8)
    second = layer(*first, 8, 5)
    return {"levels": tf.bitcast(second[0], tf.uint8), "low": second[1], "high": second[2]}


def test_every_level_is_the_same() -> None:
    """Of two pictures, with the ranges that they lead to."""
    concrete = network.get_concrete_function()
    model = read(Source("tf-function-object", model=concrete))
    for image in (CHANCE.normal(size=(2, 11, 12, 3)), CHANCE.uniform(0, 3, (1, 11, 12, 3))):
        feed = {"image": image.astype(np.float32)}
        expected = eigen_kernels.computed(concrete, [feed["image"]])  # QuantizeV2 departs otherwise
        for name, got in run(model, feed).items():
            np.testing.assert_array_equal(got, expected[name])
            assert got.dtype == expected[name].dtype
    counts = [n.op_type for n in model.graph].count("ConvInteger")
    assert counts == 3  # the first picture's range holds zero, the second layer's may not
