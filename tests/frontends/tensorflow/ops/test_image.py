"""The rules of `frontends/tensorflow/ops/image.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import check, with_batch
from tests.support.cases import Case, case, f32, i32, params

ROWS = [
    *(
        case("ResizeBilinear", f32(1, 5, 4, 2), [7, 9], **flags)
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True})
    ),
    case("ResizeBilinear", f32(1, 8, 6, 2), [4, 3], half_pixel_centers=True).named("down"),
    *(
        case("ResizeNearestNeighbor", f32(1, 5, 4, 2), [7, 9], **flags)
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True})
    ),
    case("ResizeNearestNeighbor", i32(1, 8, 6, 2), [4, 3], half_pixel_centers=True).named("down"),
    case("SpaceToDepth", f32(2, 4, 6, 3), block_size=2),
    case("DepthToSpace", f32(2, 4, 6, 8), block_size=2),
    case("SpaceToBatchND", f32(2, 4, 6, 3), [2, 3], [[1, 1], [0, 3]]),
    case("BatchToSpaceND", f32(12, 3, 3, 3), [2, 3], [[1, 1], [0, 3]]),
    case("SpaceToBatchND", f32(2, 4, 6, 3), np.array([2, 3], np.int32), [[1, 1], [0, 3]]).named("blocks by data"),
    case("BatchToSpaceND", f32(12, 3, 3, 3), [2, 3], np.array([[1, 1], [0, 3]], np.int32)).named("crops by data"),
    case("BatchToSpaceND", f32(12, 3, 3, 3), np.array([3, 2], np.int32), [[1, 0], [0, 3]]).named("blocks by data"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
