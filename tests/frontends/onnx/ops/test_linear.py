"""Rows of products with fused operators."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params

MS = "com.microsoft"


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(0, 256, shape).astype(np.uint8)


IMAGE, KERNEL = f32(2, 3, 6, 5), const(f32(4, 3, 3, 3))
IN_BLOCKS = {"K": 40, "N": 3, "block_size": 16}
SCALES = const(f32(9, low=0.01, high=0.1))
ROWS = params(
    [
        case(f"{MS}::FusedMatMul", f32(2, 4, 3), f32(2, 4, 5), transA=1, alpha=0.125),
        case(f"{MS}::FusedMatMul", f32(2, 3, 4), f32(5, 4), transB=1).named("of a matrix"),
        case(f"{MS}::FusedMatMul", f32(4), f32(4, 3), transA=1).named("of a vector"),
        case(f"{MS}::FusedMatMul", f32(3, 2, 4), f32(2, 4, 5), transBatchA=1).named("behind the batch"),
        case(f"{MS}::FusedMatMul", f32(2, 3, 4), f32(5, 2, 4), transBatchB=1, transB=1).named("both ways"),
        case(f"{MS}::TransposeMatMul", f32(4, 3), f32(4, 5), transA=1),
        case(f"{MS}::FusedGemm", f32(2, 3), const(f32(3, 4)), const(f32(4)), activation="Relu"),
        case(
            f"{MS}::FusedGemm", f32(3, 2), const(f32(4, 3)), const(f32(4)), activation="LeakyRelu",
            activation_alpha=0.2, transA=1, transB=1, alpha=0.5, beta=2.0,
        ).named("turned"),
        case(f"{MS}::FusedConv", IMAGE, KERNEL, const(f32(4)), activation="Relu", pads=[1, 1, 1, 1]),
        case(
            f"{MS}::FusedConv", IMAGE, KERNEL, None, activation="LeakyRelu", activation_params=[0.3], strides=[2, 1]
        ).named("without a bias"),
        case(
            f"{MS}::FusedConv", IMAGE, KERNEL, const(f32(4)), f32(2, 4, 6, 5), activation="Relu", pads=[1, 1, 1, 1]
        ).named("with a sum"),
        case(
            f"{MS}::FusedConv", IMAGE, KERNEL, None, activation="Clip", activation_params=[-0.5, 0.75]
        ).named("between bounds"),
        case(
            f"{MS}::FusedConv", IMAGE, KERNEL, None, activation="HardSigmoid", activation_params=[0.3, 0.4]
        ).named("hard"),
        case(f"{MS}::Inverse", (np.eye(3) + f32(2, 3, 3) / 4).astype(np.float32), _dynamic=False),
        case(f"{MS}::MatMulNBits", f32(2, 40), const(_bytes(3, 3, 8)), SCALES, bits=4, **IN_BLOCKS),
        case(
            f"{MS}::MatMulNBits", f32(2, 3, 40), const(_bytes(3, 3, 8)), SCALES, const(_bytes(6)), bits=4, **IN_BLOCKS
        ).named("with zero points"),
        case(
            f"{MS}::MatMulNBits", f32(2, 40), const(_bytes(3, 3, 8)), SCALES, None, None, const(f32(3)), bits=4,
            **IN_BLOCKS,
        ).named("with a bias"),
        case(f"{MS}::MatMulNBits", f32(2, 40), const(_bytes(3, 3, 16)), SCALES, bits=8, **IN_BLOCKS).named("of bytes"),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row)
