"""The rules of `backends/tensorflow/ops/blocks.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, params

ROWS = [
    case("Col2Im", f32(2, 12, 12), ints(5, 6), ints(2, 2), dilations=[1, 3]).named("dilated"),
    case("Col2Im", boolean(1, 4, 12), ints(4, 5), ints(2, 2), strides=[1, 1]).named("boolean"),
    case("Col2Im", f32(1, 18, 6), ints(5, 6), ints(3, 3), pads=[1, 1, 0, 1], strides=[2, 2]).named("strided"),
    case("MaxUnpool", f32(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
    case("TensorScatter", f32(2, 3, 5, 4), f32(2, 3, 2, 4), ints(1, 3)),
    case("TensorScatter", f32(2, 5, 4), f32(2, 3, 4), ints(4, 3), mode="circular"),
    case("TensorScatter", f32(3, 5), f32(3, 2), None, axis=1),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
