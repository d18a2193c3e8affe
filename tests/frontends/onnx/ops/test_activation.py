"""Rows of activations, and of ONNX operators in the other domain."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.frontends.onnx.ops.support import check
from tests.support.cases import Case, case, f32, params

MS = "com.microsoft"
STEPS = np.array([[-3, 7, 200], [0, 1, -200]], np.int16)
ROWS = params(
    [
        case(f"{MS}::Gelu", f32(2, 3, 4)),
        case(f"{MS}::BiasGelu", f32(2, 3, 4), const(f32(4))),
        case(f"{MS}::FastGelu", f32(2, 3, 4)),
        case(f"{MS}::FastGelu", f32(2, 3, 4), const(f32(4))).named("with a bias"),
        case(f"{MS}::QuickGelu", f32(2, 3)),
        case(f"{MS}::QuickGelu", f32(2, 3), alpha=0.5).named("of another slope"),
        case(f"{MS}::Trilu", f32(2, 3, 4)),
        case(f"{MS}::Trilu", f32(2, 3, 4), const(-1), upper=0).named("below"),
        case(f"{MS}::Range", const(np.array(1, np.float32)), const(np.array(4, np.float32))),
        case(f"{MS}::Range", const([1]), const([-6]), const([-2])).named("back"),
        case(f"{MS}::ExpandDims", f32(2, 3), const(np.array(-1, np.int32))),
        case(f"{MS}::GridSample", f32(2, 3, 4, 5), f32(2, 2, 3, 2, low=-1.3, high=1.3)),
        case(
            f"{MS}::GridSample", f32(2, 3, 4, 5), f32(2, 2, 3, 2), mode="nearest", padding_mode="border",
            align_corners=1,
        ).named("to the edge"),
        case(f"{MS}::QuantizeLinear", f32(2, 3), const(np.array(0.01, np.float32)), const(np.array(3, np.int16))),
        case(f"{MS}::DequantizeLinear", STEPS, const(np.array(0.01, np.float32)), const(np.array(3, np.int16))),
        case(
            f"{MS}::DequantizeLinear", STEPS, const(f32(3, low=0.01, high=0.1)), const(np.zeros(3, np.int16)), axis=1
        ).named("by axis"),
    ]
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_what_onnx_runtime_computes(row: Case) -> None:
    check(row)
