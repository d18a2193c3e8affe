"""The rules of `frontends/tensorflow/ops/quantized/v1.py` against TensorFlow: bytes, and a network of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import check, run, some_bytes, with_batch
from tests.support import eigen_kernels
from tests.support.cases import Case, case, params
from tests.support.tensorflow_helper import read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
_F32 = np.float32
RANGES = [(-1.1, 0.7), (0.0, 6.0), (-2.0, -0.5), (0.25, 3.0)]
"""Ranges of quantized values. The last two do not contain zero, so the level of zero is not a byte."""


def _sums(*shape: int) -> np.ndarray:
    """Return sums in 32 bits, of both signs."""
    return ((np.arange(np.prod(shape)) * 7919 % 40009 - 19000) * 13).astype(np.int32).reshape(shape)


def _ranged(operator: str, *inputs: np.ndarray, **attributes: object) -> list[Case]:
    """Return both inputs with constant ranges, and with ranges that are data."""
    pairs = [(RANGES[0], RANGES[1]), (RANGES[2], RANGES[0]), (RANGES[3], RANGES[1])]
    rows = [(str(pairs[0]), (*pairs[0][0], *pairs[0][1]))]
    rows += [(f"run time {x} {y}", tuple(map(_F32, (*x, *y)))) for x, y in pairs]
    return [case(operator, *inputs, *ends, **attributes).named(label) for label, ends in rows]


SUMS = [
    *_ranged("QuantizedMatMul", some_bytes(3, 5), some_bytes(5, 4, step=91)),
    case(
        "QuantizedMatMul", some_bytes(5, 3), some_bytes(4, 5), -1.0, 1.0, -3.0, 2.0, transpose_a=True, transpose_b=True
    ),
    *_ranged("QuantizedMul", some_bytes(3, 5), some_bytes(5, step=91)),
    *_ranged("QuantizedAdd", some_bytes(3, 5), some_bytes(5, step=91)),
    *_ranged("QuantizedBiasAdd", some_bytes(3, 4, 5), some_bytes(5, step=91), out_type="qint32"),
    case(
        "QuantizedBiasAdd",
        some_bytes(3, 5).view(np.int8),
        some_bytes(5).view(np.int8),
        -1.0,
        1.0,
        -3.0,
        2.0,
        out_type="qint32",
    ).named("int8"),
    case("QuantizedAdd", some_bytes(3, 5), some_bytes(1, step=91), -1.1, 0.7, -0.3, 0.9).named("one element"),
    case("QuantizedAdd", some_bytes(1), some_bytes(4), -1.1, 0.7, -0.3, 0.9).named("one element first"),
]
ONE = [
    *(
        case(f"QuantizedRelu{kind}", values, *ends, out_type=f"q{values.dtype}").named(f"{values.dtype} {ends}")
        for kind in ("", "6")
        for values, ranges in ((some_bytes(3, 5), RANGES), (_sums(3, 5), [(-4e4, 4e4), (_F32(-9e4), _F32(3e4))]))
        for ends in ranges
    ),
    *(
        case("Requantize", _sums(3, 7), *map(kind, (-4e4, 5e4)), *map(kind, ends), out_type=out).named(
            f"{out} {ends} {kind.__name__}"
        )
        for out, kind in (("quint8", _F32), ("qint8", float))
        for ends in ((-2.0, 1.5), (0.0, 3.0), (-2.5, 0.0), (0.0, 0.0))
    ),
    *(
        case(name, values, _F32(-4e4), _F32(5e4), **more).named(label)
        for name, more in (("RequantizationRange", {}), ("QuantizeDownAndShrinkRange", {"out_type": "quint8"}))
        for label, values in (("", _sums(3, 7)), ("above", np.abs(_sums(3, 7))), ("alike", np.full((2, 2), -7, "i4")))
    ),
    case("RequantizationRange", _sums(3, 7), _F32(2), _F32(2)).named("no range"),
    case("QuantizedReshape", some_bytes(3, 4), [-1, 2, 2], -1.0, _F32(1)),
    *(
        case("QuantizedConcat", 1, [some_bytes(3, n).astype(kind) for n in (2, 4, 1)], lows, highs).named(
            f"{kind} {label}"
        )
        for kind in ("uint8", "int32")
        for label, lows, highs in (
            ("", [_F32(-1), _F32(-0.3), _F32(-1)], [_F32(1.5), _F32(0.9), _F32(1.5)]),
            ("alike", [_F32(-1), _F32(-1), _F32(-1)], [_F32(2), _F32(2), _F32(2)]),
            ("no range", [_F32(0.5), _F32(1), _F32(0)], [_F32(1), _F32(1), _F32(3)]),
        )
    ),
]  # fmt: skip
ROWS = [*SUMS, *ONE]
BATCHED = [*SUMS[::3], *ONE[::7]]
"""Rows that are also read with a dynamic batch. They are few, because each needs twenty operators or more."""


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(BATCHED)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


CHANCE = np.random.default_rng(3)


def stored(*shape: int) -> tuple[Any, float, float]:
    """Return a weight as bytes, in a constant of TensorFlow's own dtype for them, and its range."""
    levels = CHANCE.integers(0, 256, shape).astype(tf.quint8.as_numpy_dtype)
    return tf.constant(levels, tf.quint8), -1.2, 0.9


def narrowed(sums: Any, low: Any, high: Any) -> Any:
    ends = tf.raw_ops.RequantizationRange(input=sums, input_min=low, input_max=high)
    return tf.raw_ops.Requantize(
        input=sums, input_min=low, input_max=high, requested_output_min=ends[0], requested_output_max=ends[1],
        out_type=tf.quint8,
    )  # fmt: skip


def layer(x: Any, low: Any, high: Any, inner: int, outer: int) -> Any:
    """Return convolution, bias and Relu: nine kernels, with the ranges of the sums computed in between."""
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


@pytest.mark.slow
def test_every_level_is_the_same() -> None:
    """Two images, with the ranges that follow from them."""
    concrete = network.get_concrete_function()
    model = read(Source("tf-function-object", model=concrete))
    for image in (CHANCE.normal(size=(2, 11, 12, 3)), CHANCE.uniform(0, 3, (1, 11, 12, 3))):
        feed = {"image": image.astype(np.float32)}
        expected = eigen_kernels.computed(concrete, [feed["image"]])  # oneDNN's QuantizeV2 differs
        for name, got in run(model, feed).items():
            np.testing.assert_array_equal(got, expected[name])
            assert got.dtype == expected[name].dtype
    counts = [n.op_type for n in model.graph].count("ConvInteger")
    assert counts == 3  # the first image's range contains zero, the second layer's may not
