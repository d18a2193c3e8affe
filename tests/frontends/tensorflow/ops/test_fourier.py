"""The rules of `frontends/tensorflow/ops/fourier.py` against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import tensorflow as tf
from convert.backends import onnx as onnx_backend

from convert import api, plugin
from convert.outcome.report import Report
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.request.options import Options
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params
from tests.support.onnx_support import run_ort

COMPLEX = tf.TensorSpec([None, 100], tf.complex64, name="x")


def read(function: Any) -> ir.Model:
    source = api.open_source(function)
    return plugin.frontend_for(source).read(source, Options(), Report("test"))


ROWS = [
    *(case(name, f32(2, 3)) for name in ("Real", "Imag", "Angle", "ComplexAbs", "Conj", "FFT", "IFFT")),
    case("ComplexAbs", np.array([np.inf, -np.inf, np.nan, 0, 3e38], np.float32)).named("edges"),
    case("Complex", f32(2, 3), f32(2, 3, low=0)),
    case("FFT2D", f32(2, 3, 4)),
    case("IFFT2D", f32(2, 3, 4)),
    *(case(name, f32(2, 3, 4, 5)) for name in ("FFT3D", "IFFT3D")),
    case("ConjugateTranspose", f32(2, 3, 4), [2, 0, 1]),
    case("RFFT3D", f32(2, 3, 6, 8), [3, 4, 8]),
    *(case("IRFFT3D", f32(2, 3, 6, 5), [*n]).named(f"{n}") for n in ((3, 6, 8), (2, 4, 7))),
    case("RFFT", f32(2, 8), [8]),
    case("RFFT", f32(2, 10), [7]).named("cropped"),
    case("RFFT2D", f32(2, 6, 8), [4, 8]),
    *(case("IRFFT", f32(2, 5), [n]).named(f"{n}") for n in (8, 9, 6)),
    *(case("IRFFT2D", f32(2, 6, 5), [*n]).named(f"{n}") for n in ((6, 8), (4, 7))),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


def test_matrices_of_the_inverse_are_not_rounded_in_float64() -> None:
    """This is for any size: a transform and its inverse were reported as wrong from 16 elements on."""

    def there_and_back(x: tf.Tensor) -> tf.Tensor:
        return tf.signal.irfft(tf.signal.rfft(x))

    graph = read(tf.function(there_and_back, input_signature=[tf.TensorSpec([None, 32], name="x")]))
    x = np.random.default_rng(0).standard_normal((3, 32))
    (found,) = run(widen_model(graph), {"x": x}).values()
    np.testing.assert_allclose(found, x, rtol=0, atol=1e-13)


def _halves(x: Any) -> Any:
    return tf.complex(x[..., 0], x[..., 1])


OF_OPEN_LENGTHS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "rfft": (lambda x: tf.abs(tf.signal.rfft(x)), [(2, 64), (1, 99)]),
    "rfft2d": (lambda x: tf.abs(tf.signal.rfft2d(x)), [(2, 6, 8), (1, 5, 7)]),
    "irfft": (lambda x: tf.signal.irfft(_halves(x)), [(2, 9, 2), (1, 6, 2)]),
    "irfft to a length": (lambda x: tf.signal.irfft(_halves(x), [12]), [(2, 9, 2), (1, 6, 2)]),
    "irfft of an odd length": (lambda x: tf.signal.irfft(_halves(x), [13]), [(2, 9, 2), (1, 6, 2)]),
    "irfft2d": (lambda x: tf.signal.irfft2d(_halves(x), [6, 11]), [(2, 4, 5, 2), (1, 9, 7, 2)]),
    "there and back": (lambda x: tf.signal.irfft2d(tf.signal.rfft2d(x), tf.shape(x)[1:]), [(2, 6, 8), (1, 5, 7)]),
    "twice the length": (lambda x: tf.abs(tf.signal.rfft(x, [2 * tf.shape(x)[1]])), [(2, 6), (1, 5)]),
    "stft": (lambda x: tf.abs(tf.signal.stft(x, tf.shape(x)[1] // 4, 8)), [(2, 64), (1, 100)]),
}


@pytest.mark.parametrize("name", OF_OPEN_LENGTHS)
def test_lengths_that_a_run_decides(name: str) -> None:
    function, shapes = OF_OPEN_LENGTHS[name]
    spec = tf.TensorSpec([None] * (len(shapes[0]) - 1) + [2 if "irfft" in name else None], name="x")
    graph = read(tf.function(function, input_signature=[spec]))
    proto = onnx_backend.to_proto(graph, Options())
    for shape in shapes:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        wanted = function(tf.constant(x)).numpy()
        np.testing.assert_allclose(run_ort(proto, {"x": x})[0], wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_lengths_that_are_no_powers_of_two_keep_their_digits() -> None:
    """onnxruntime's transform in float32 was off by six times TensorFlow's rounding error."""
    x = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    proto = onnx_backend.to_proto(read(tf.function(tf.signal.fft, input_signature=[COMPLEX])), Options())
    got = run_ort(proto, {"x": np.stack([x, 0 * x], -1)})[0]
    wanted = np.fft.fft(x.astype(np.float64))
    error = np.stack([wanted.real, wanted.imag], -1) - got
    assert np.sqrt(np.square(error).mean() / np.square(np.abs(wanted)).mean()) < 2e-7
