"""The rules of `backends/caffe2/ops/region.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32

IMAGE = f32(2, 4, 7, 8)
GRID = f32(2, 3, 5, 2, low=-1.4, high=1.4)
REGIONS = np.array([[0, 0, 5, 5], [1.5, 2, 6, 4.5], [2, 1, 7, 6]], np.float32)

ROWS = both(
    [
        (case("Col2Im", f32(1, 8, 12), weight(4, 5), weight(2, 2)), RUNTIME),
        (
            case(
                "Col2Im", f32(2, 12, 9), weight(5, 6), weight(3, 2), strides=[1, 2], pads=[0, 0, 0, 0], dilations=[1, 1]
            ),
            RUNTIME,
        ),
        *(
            case("GridSample", IMAGE, GRID, mode=mode, padding_mode=pad, align_corners=corners).named(
                f"{mode} {pad} {corners}"
            )
            for mode in ("linear", "nearest", "cubic")
            for pad in ("zeros", "border", "reflection")
            for corners in (0, 1)
        ),
        case("GridSample", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 4, 3, low=-1.2, high=1.2)).named("3d"),
        *(
            case(
                "RoiAlign",
                IMAGE,
                weight(REGIONS),
                weight(0, 1, 1),
                output_height=2,
                output_width=3,
                sampling_ratio=2,
                coordinate_transformation_mode=mode,
            ).named(mode)
            for mode in ("half_pixel", "output_half_pixel")
        ),
        case("RoiAlign", IMAGE, weight(REGIONS), weight(0, 1, 1), output_height=2, output_width=2, mode="max"),
        case("DeformConv", f32(1, 2, 5, 5), weight(f32(3, 2, 2, 2)), f32(1, 8, 4, 4), weight(f32(3))),
        case(
            "DeformConv",
            f32(1, 4, 5, 5),
            weight(f32(2, 2, 2, 2)),
            f32(1, 16, 5, 6),
            None,
            f32(1, 8, 5, 6),
            group=2,
            offset_group=2,
            pads=[0, 1, 1, 1],
        ).named("mask"),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
