"""The rules of `backends/tensorflow/ops/cast.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tests.backends.tensorflow.ops.onnx_cases import SPECIAL
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, boolean, case, f32, f64, i32, i64, params

ROWS = [
    case("Cast", f32(5), to=TensorProto.INT64),
    case("Cast", f32(5), to=TensorProto.FLOAT16),
    case("Cast", SPECIAL, to=TensorProto.BOOL),
    case("Cast", i64(5), to=TensorProto.DOUBLE),
    case("Cast", boolean(5), to=TensorProto.FLOAT),
    case("Cast", i64(5), to=TensorProto.UINT8),
    *(case("Cast", x, to=TensorProto.STRING) for x in (SPECIAL, f64(5), 1e-9 * f32(5), i64(5), boolean(5))),
    case("Cast", np.array(["7", "4294967295"]), to=TensorProto.UINT32),
    # Kernels for many numbers differ from those for a few.
    *(
        case("Cast", np.linspace(-700, 700, 3000, dtype=np.float32), to=to)
        for to in (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16)
    ),
    case("Cast", np.linspace(-7e4, 7e4, 3000, dtype=np.float32), to=TensorProto.INT16),
    case("Cast", np.linspace(-7e4, 4e9, 3000, dtype=np.float32), to=TensorProto.UINT32),
    case("CastLike", f32(5), i32(1)),
    case("Constant", value_floats=[1.0, 2.0]),
    case("Constant", value_int=3),
    case("BitCast", f32(2, 3), to=TensorProto.INT32),
    case("BitCast", i64(4), to=TensorProto.DOUBLE),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
