"""The rules of `backends/tensorflow/ops/random.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.backends.tensorflow.ops.support import STATIC
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params

ROWS = [
    case("Dropout", f32(2, 3)),
    case("Dropout", f32(2, 3), _outputs=2),
]


DRAWN = [
    case("RandomNormal", shape=[40, 50], mean=2.0, scale=0.5),
    case("RandomNormalLike", f32(40, 50), mean=-1.0, scale=2.0, dtype=onnx.TensorProto.DOUBLE),
    case("RandomUniform", shape=[40, 50], low=1.0, high=3.0, seed=7.0),
    case("RandomUniformLike", f32(40, 50), low=-1.0, high=1.0),
    case("Bernoulli", np.full((40, 50), 0.25, np.float32)),
    case("Multinomial", np.log(np.full((40, 2), [0.25, 0.75], np.float32)), sample_size=50),
]
# dtype, lowest, highest, mean, standard deviation
DISTRIBUTIONS = {
    "RandomNormal": (np.float32, -np.inf, np.inf, 2, 0.5),
    "RandomNormalLike": (np.float64, -np.inf, np.inf, -1, 2),
    "RandomUniform": (np.float32, 1, 3, 2, 2 / 12**0.5),
    "RandomUniformLike": (np.float32, -1, 1, 0, 2 / 12**0.5),
    "Bernoulli": (np.float32, 0, 1, 0.25, 0.1875**0.5),
    "Multinomial": (np.int32, 0, 1, 0.75, 0.1875**0.5),
}


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)


@pytest.mark.parametrize("row", params(DRAWN))
def test_random_numbers_are_of_their_distribution(row: Case, workers: Workers) -> None:
    (got,) = workers["1"].run(row, STATIC)
    dtype, low, high, mean, deviation = DISTRIBUTIONS[row.operator]
    assert got.dtype == dtype
    assert got.shape == (40, 50)
    assert low <= got.min() <= got.max() <= high
    # Five standard errors of 2,000 numbers.
    assert abs(got.mean() - mean) < 5 * deviation / 2000**0.5
    assert abs(got.std() - deviation) < 0.15 * deviation
