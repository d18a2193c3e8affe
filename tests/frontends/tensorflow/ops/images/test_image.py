"""The rules of `frontends/tensorflow/ops/images/image.py` against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, tf, with_batch
from tests.support.cases import Case, case, f32, i32, i64, params
from tests.support.tensorflow_helper import agrees

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
    *(
        case("ResizeNearestNeighbor", f32(1, *old, 1), [*new], **flags).named(f"{old} to {new} {[*flags]}")
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True})
        for old, new in (((2, 14), (41, 2)), ((2, 14), (83, 23)), ((8, 14), (47, 45)))
    ),
    case("ResizeNearestNeighbor", np.int64([[[[1 << 40], [-3]]]]), [2, 5], half_pixel_centers=True).named("int64"),
    case("SpaceToDepth", f32(2, 4, 6, 3), block_size=2),
    case("DepthToSpace", f32(2, 4, 6, 8), block_size=2),
    case("SpaceToDepth", i64(2, 4, 6, 3), block_size=2).named("int64"),
    case("DepthToSpace", i64(2, 4, 6, 8), block_size=2).named("int64"),
    case("SpaceToBatchND", f32(2, 4, 6, 3), [2, 3], [[1, 1], [0, 3]]),
    case("BatchToSpaceND", f32(12, 3, 3, 3), [2, 3], [[1, 1], [0, 3]]),
    case("SpaceToBatchND", f32(2, 4, 6, 3), np.array([2, 3], np.int32), [[1, 1], [0, 3]]).named("blocks by data"),
    case("BatchToSpaceND", f32(12, 3, 3, 3), [2, 3], np.array([[1, 1], [0, 3]], np.int32)).named("crops by data"),
    case("BatchToSpaceND", f32(12, 3, 3, 3), np.array([3, 2], np.int32), [[1, 0], [0, 3]]).named("blocks by data"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


def blocks(x: Any) -> Any:
    return tf.space_to_batch(x, [2, 2], [[0, 0], [0, 0]])


def dilated(x: Any) -> Any:
    return tf.nn.pool(x, [2, 2], "MAX", dilations=[2, 2], padding="VALID")


@pytest.mark.parametrize("body", [blocks, dilated])
def test_blocks_of_one_batch_whose_height_is_open(body: Callable[[Any], Any]) -> None:
    function = tf.function(body, input_signature=[tf.TensorSpec([1, None, 8, 2], name="x")], autograph=False)
    agrees(Source("tf-function-object", model=function), [{"x": f32(1, n, 8, 2)} for n in (4, 6, 10)])
