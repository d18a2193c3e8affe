"""The rules of `backends/caffe2/ops/norm.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
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
