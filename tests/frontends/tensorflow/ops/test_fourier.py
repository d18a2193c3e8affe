"""The rules of `frontends/tensorflow/ops/fourier.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from convert import api, plugin
from convert.options import Options
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.report import Report
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

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
    """However large they are: a transform there and back was said to be wrong from 16 elements on."""
    import tensorflow as tf

    def there_and_back(x: tf.Tensor) -> tf.Tensor:
        return tf.signal.irfft(tf.signal.rfft(x))

    source = api.open_source(tf.function(there_and_back, input_signature=[tf.TensorSpec([None, 32], name="x")]))
    graph = plugin.frontend_for(source).read(source, Options(), Report("test"))
    x = np.random.default_rng(0).standard_normal((3, 32))
    (found,) = run(widen_model(graph), {"x": x}).values()
    np.testing.assert_allclose(found, x, rtol=0, atol=1e-13)
