"""The rules of `frontends/caffe2/ops/shape.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("MergeDim", f32(2, 3, 4)),
        case("MergeDim", f32(2, 3)).named("a matrix"),
        case("PrependDim", f32(4, 3), dim_size=2),
        case("Concat", f32(2, 3), f32(2, 4), outputs=2),
        case("Concat", f32(2, 3), f32(2, 3), outputs=2, add_axis=1, axis=1).named("stack"),
        case("Concat", f32(2, 3), f32(2, 3), outputs=2, add_axis=1).named("no axis"),
        case("Split", f32(2, 6), outputs=3),
        case("Split", f32(2, 6), outputs=2, axis=1, split=[2, 4]).named("sizes"),
        case("Reshape", f32(2, 3, 4), outputs=2, shape=[0, -1]),
        case("ResizeLike", f32(2, 6), f32(3, 4)),
        case("Flatten", f32(2, 3, 4)),
        case("FlattenToVec", f32(2, 3)),
        case("ExpandDims", f32(2, 3), dims=[0, 2]),
        case("Squeeze", f32(2, 1, 3), dims=[1]),
        case("Transpose", f32(2, 3, 4)),
        case("ChannelShuffle", f32(1, 6, 2, 2), group=3, kernel=1),
        case("Tile", f32(2, 3), tiles=2, axis=1),
        case("Tile", f32(2, 3), np.array([2], np.int32), axis=1).named("tiles as an input"),
        case("Tile", f32(2, 3), np.array([3]), axis=1).named("tiles of int64"),
        case("ConstantFill", f32(2, 3), value=1.5),
        case("Shape", f32(2, 3, 4), axes=[2, 0]),
        case("Size", f32(2, 3)),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
