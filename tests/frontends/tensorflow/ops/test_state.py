"""The rules of `frontends/tensorflow/ops/state.py` against TensorFlow."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i32, params

ROWS = [
    *(case(name, f32(2, 3)) for name in ("Identity", "StopGradient", "PreventGradient", "Snapshot")),
    case("DebugGradientIdentity", f32(2, 3)),
    case("CheckNumerics", f32(2, 3), message="x"),
    case("EnsureShape", f32(2, 3), shape=[2, None]),
    case("PlaceholderWithDefault", f32(2, 3), shape=[2, 3]),
    case("IdentityN", [f32(2, 3), i32(4)]),
    case("Const", value=f32(2, 3), dtype="float32"),
    *(case(name, f32(2, 3), out_type=kind).named(kind) for name in ("Shape", "Size") for kind in ("int32", "int64")),
    case("ShapeN", [f32(2, 3), f32(4)]),
    case("Rank", f32(2, 3)),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
