"""The rules of `backends/tensorflow/ops/linalg.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, number
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, i32, params

ROWS = [
    case("Det", f32(2, 3, 3)),
    case("MatMul", f32(2, 3), f32(3, 4)),
    case("MatMul", f32(3), f32(3, 4)),
    case("MatMul", f32(2, 3), f32(3)),
    case("MatMul", f32(3), f32(3)),
    case("MatMul", f32(2, 1, 3, 4), f32(5, 4, 2)),
    case("MatMul", f32(4, 1, 6, 2), const(f32(1, 2, 2))).named("one matrix of rank 3"),
    case("MatMul", f32(4, 6, 2), const(f32(1, 1, 2, 2))).named("one matrix of a higher rank"),
    case("MatMul", f32(4, 1, 6, 2), f32(1, 2, 2)).named("one matrix of rank 3 at run time"),
    case("MatMul", f32(4, 1, 6, 2), f32(2, 3)).named("one matrix at run time"),
    case("MatMul", const(f32(4, 3)), f32(2, 3, 5)).named("a matrix by what comes at run time"),
    case("MatMul", i32(2, 3), i32(3, 4)),
    case("MatMul", f32(2, 5, 3), const(f32(3, 4))),
    case("MatMul", f64(2, 3), f64(3, 4)),
    case("Gemm", f32(2, 3), f32(3, 4)),
    case("Gemm", f32(2, 3), const(f32(4, 3)), const(f32(4)), transB=1),
    case("Gemm", f32(3, 2), f32(4, 3), f32(1, 4), transA=1, transB=1, alpha=0.5, beta=2.0),
    case("Gemm", f32(3, 2), const(f32(3, 4)), const(f32(1, 4)), transA=1),
    case("Gemm", f32(2, 3), f32(3, 4), f32(2, 1)),
    case("Gemm", f32(3, 2), const(f32(3, 4)), const(f32(4)), transA=1),
    case("Gemm", f32(2, 3), f32(3, 4), number(2)),
    case("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij, bjk -> bik"),
    case("Einsum", f32(3, 3), equation="ii->i"),
    case("Einsum", f32(2, 3, 4, 4), const(f32(2, 1, 4, 1), np.float32), equation="bchw,bdhw->bcd").named("dims of 1"),
    case("Einsum", f32(2, 3, 4), f32(3, 4), equation="...ij,ij->...i"),
    case("Einsum", f32(2, 3), f32(3, 4, 5), equation="aB,BCd->aCd").named("capitals"),
    case("Einsum", f32(2, 3, 1), f32(2, 3, 4), equation="bij,bij->bji").named("nothing summed, dims of 1"),
    case("Einsum", f32(3), f32(2, 4), f32(4), equation="i,bj,j->jib").named("nothing summed, outer"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
