"""The rules of `frontends/caffe2/ops/math.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, boolean, case, f32, i64, params

ROWS = params(
    [
        case("Add", f32(2, 3, 4, 5), f32(3, 4), broadcast=1, axis=1),
        case("Mul", f32(2, 3, 4), f32(4), broadcast=1),
        case("Add", f32(3), f32(1, 1), broadcast=1).named("a number of higher rank"),
        case("Pow", f32(2, 3, low=0.5), exponent=1.5),
        *(
            case(f"Bitwise{name}", boolean(6), boolean(6)[::-1].copy()).named("booleans")
            for name in ("And", "Or", "Xor")
        ),
        *(case(f"Bitwise{name}", i64(6), i64(6)[::-1].copy()).named("integers") for name in ("And", "Or", "Xor")),
        case("Sqr", f32(2, 3)),
        case("Cube", f32(2, 3)),
        case("Rsqrt", f32(2, 3, low=0.5)),
        case("Reciprocal", f32(2, 3, low=0.5)),
        case("Swish", f32(2, 3)),
        case("Scale", f32(2, 3), scale=0.5),
        case("Selu", f32(2, 3)),
        case("Elu", f32(2, 3)),
        case("LeakyRelu", f32(2, 3)),
        case("ThresholdedRelu", f32(2, 3)),
        case("HardSigmoid", f32(2, 3)),
        case("PRelu", f32(2, 3, 4, 4), f32(3)),
        case("PRelu", f32(2, 3, 4, 4), f32(1)).named("one slope"),
        case("PRelu", f32(2, 3, 4, 4), f32(3, 1, 1)).named("slopes of rank 3"),
        case("Clip", f32(2, 3), min=0.0),
        case("Clip", np.array([np.inf, -np.inf, 1], np.float32), min=-1.0).named("infinity"),
        case("Softplus", f32(2, 3)),
        case("Sum", f32(2, 3), f32(2, 3, low=0.0)),
        case("Mean", f32(2, 3), f32(2, 3, low=0.0)),
        case("Copy", f32(2, 3)),
        case("Alias", f32(2, 3)),
        case("StopGradient", f32(2, 3)),
        case("EnsureCPUOutput", f32(2, 3)),
        case("Dropout", f32(2, 3), is_test=1, ratio=0.5),
        case("Cast", f32(2, 3), to="int32"),
        case("ReluN", f32(2, 3), n=0.5),
        case("ReluN", f32(2, 3)).named("six"),
        case("Logit", f32(2, 3, low=0.0, high=1.0), eps=1e-3),
        case("IsNaN", np.array([1, np.nan], np.float32)),
        case("ReplaceNaN", np.array([1, np.nan], np.float32), value=3.0),
        case("Glu", f32(2, 4, 3), dim=1),
        case("WeightedSum", f32(2, 3), f32(1), f32(2, 3), f32(1)),
        case("ElementwiseLinear", f32(2, 5), f32(5), f32(5)),
        case("ElementwiseLinear", f32(2, 3, 4), f32(12), f32(12)).named("two dims"),
        case("AffineChannel", f32(2, 3, 4, 4), f32(3), f32(3)),
        case("AffineChannel", f32(2, 4, 4, 3), f32(3), f32(3), order="NHWC").named("channels last"),
        case("RowMul", f32(2, 3, 4), f32(2)),
        case("Conditional", np.array([True, False]), f32(2, 3), f32(2, 3, low=0.0)),
        case("Mod", i64(2, 3), divisor=3),
        case("Mod", i64(2, 3), divisor=3, sign_follow_divisor=1).named("floor"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
