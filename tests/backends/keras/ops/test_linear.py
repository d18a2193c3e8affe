"""The rules of `backends/keras/ops/linear.py` against onnxruntime: the shared rows of its operators."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.keras.ops.keras_support import Outcomes, check, shared_rows
from tests.backends.tensorflow.ops.onnx_cases import const
from tests.support.cases import Case, case, params

LARGE = np.int32([[30001, 7], [-30001, 32767]]), np.int32([[30003, 65535], [5, -32769]])
"""Factors whose products are not exact in float32, and one pair whose product overflows."""

A, B = LARGE
ROWS = [
    *shared_rows(__name__),
    case("MatMul", A, B).named("integers beyond 2²⁴"),
    case("MatMul", A, const(B)).named("integers by a constant"),
    case("MatMul", np.abs(A).astype(np.uint32), np.abs(B).astype(np.uint32)).named("unsigned beyond 2²⁴"),
    case("MatMul", np.abs(A).astype(np.uint64), np.abs(B).astype(np.uint64)).named("unsigned of 64 bits"),
    case("Einsum", A, B, equation="ij,jk->ik").named("integers beyond 2²⁴"),
    case("Einsum", 10**7 * A.astype(np.int64), equation="ij->ji").named("integers of one operand"),
    case("Gemm", A, const(B), const(np.int32([1, 2]))).named("integers by a constant"),
    case("Gemm", A, B, const(np.int32([1, 2])), transB=1).named("integers beyond 2²⁴"),
    case("Gemm", A, np.int32([[3, 5], [7, 11]]), np.int32([[1, 2]]), alpha=0.5, beta=1.5).named("integers in parts"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, keras_outcomes: Outcomes) -> None:
    check(row, keras_outcomes)
