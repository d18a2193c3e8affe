"""The rules of `backends/caffe2/ops/norm.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, assert_same, both, check, weight
from tests.support.cases import case, f32

IMAGE = f32(2, 4, 8, 8)
CHANNELS = [weight(f32(4)), weight(f32(4, low=-1, high=1))]

ROWS = both(
    [
        case("BatchNormalization", IMAGE, *CHANNELS, weight(f32(4)), weight(f32(4, low=0.5, high=2))),
        case("BatchNormalization", f32(5, 4), *CHANNELS, weight(f32(4)), weight(f32(4, low=0.5, high=2)), epsilon=0.01),
        case("InstanceNormalization", IMAGE, *CHANNELS),
        case("InstanceNormalization", f32(2, 4, 9), *CHANNELS, epsilon=0.01),
        case("InstanceNormalization", f32(2, 4, 3, 4, 5), *CHANNELS).named("5d"),
        case("LayerNormalization", f32(2, 3, 8), weight(f32(8)), weight(f32(8))),
        case("LayerNormalization", f32(2, 3, 8), weight(f32(3, 8)), axis=1, epsilon=1e-3),
        case("RMSNormalization", f32(2, 3, 8), weight(f32(8))),
        case("GroupNormalization", IMAGE, *CHANNELS, num_groups=2),
        case("GroupNormalization", f32(2, 4, 9), *CHANNELS, num_groups=2, epsilon=0.01),
        case("LRN", IMAGE, size=3),
        case("LRN", IMAGE, size=5, alpha=0.01, beta=0.5, bias=2.0),
        case("LpNormalization", f32(3, 4)),
        case("LpNormalization", f32(3, 4), axis=0, p=1),
        case("MeanVarianceNormalization", IMAGE),
        case("LayerNormalization", f32(2, 3, 8), weight(f32(8)), weight(f32(8)), outputs=3, fixed=(1,)).named(
            "moments"
        ),
        case("LpNormalization", np.array([[0, 0, 0], [3, 0, 4]], np.float32)).named("nothing"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)


def far(*shape: int) -> np.ndarray:
    """Numbers whose squares need more bits than float32 has, while their sums do not."""
    draws = np.random.default_rng(0).integers(-64, 65, shape)
    return (1000 + draws / 64).astype(np.float32)


FAR = both(
    [
        case("InstanceNormalization", far(2, 4, 8, 8), *CHANNELS).named("far"),
        case("InstanceNormalization", far(2, 4, 16), *CHANNELS).named("far 3d"),
        case("LayerNormalization", far(2, 3, 8), weight(np.ones(8, np.float32))).named("far"),
        case("GroupNormalization", far(2, 4, 8, 8), *CHANNELS, num_groups=2).named("far"),
        case("BatchNormalization", far(4, 4, 4, 4), *CHANNELS, *CHANNELS, training_mode=1, outputs=3).named("far"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", FAR)
def test_variances_of_numbers_far_from_zero(row: Row, caffe2_outcomes: Nets) -> None:
    """Compare with numpy in float64, because some runtimes, and ONNX's own evaluator, compute E[x²] − E[x]²."""
    x = row.case.inputs[0].astype(np.float64)
    groups = {"InstanceNormalization": 4, "GroupNormalization": 2}.get(row.case.operator)
    cells = x if groups is None else x.reshape(len(x), groups, -1)
    axes = {"LayerNormalization": (2,), "BatchNormalization": (0, 2, 3)}.get(row.case.operator, (2,))
    mean, variance = (f(cells, axis=axes, keepdims=True) for f in (np.mean, np.var))
    want = ((cells - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    if row.case.operator != "LayerNormalization":
        scale, bias = (w.array.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2)) for w in CHANNELS)
        want = want * scale + bias
    outcome = caffe2_outcomes.outcome(row)
    assert outcome.outputs is not None, outcome.error
    assert_same({"y0": outcome.outputs["y0"]}, {"y0": want.astype(np.float32)})
