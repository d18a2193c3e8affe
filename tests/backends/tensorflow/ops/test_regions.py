"""The rules of `backends/tensorflow/ops/regions.py`, and DeformConv, which is written out, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params

ROIS = np.array([[0, 0, 5, 6], [1.5, 2, 4, 7], [-2, -1, 9, 11], [3, 3, 3, 3]], np.float32)
IMAGES = ints(0, 1, 1, 0)
BOXES = np.hstack([np.array([[0], [1], [1], [0], [1]], np.float32), [*ROIS, np.array([8, 7, 30, 9], np.float32)]])

ROWS = [
    *(
        case(
            "RoiAlign",
            f32(2, 3, 8, 9),
            ROIS,
            IMAGES,
            coordinate_transformation_mode=where,
            sampling_ratio=ratio,
            output_height=3,
            output_width=2,
            spatial_scale=0.9,
        )
        for where, ratio in (("half_pixel", 2), ("output_half_pixel", 0), ("half_pixel", 0))
    ),
    case("RoiAlign", f32(2, 3, 8, 9), ROIS, IMAGES, mode="max", sampling_ratio=2, output_height=2, output_width=3),
    case("MaxRoiPool", f32(2, 3, 8, 9), BOXES, pooled_shape=[2, 3], spatial_scale=0.9),
    case("MaxRoiPool", f32(2, 3, 8, 9), BOXES, pooled_shape=[4, 4]),
    case("DeformConv", f32(1, 2, 6, 7), const(f32(3, 2, 3, 3)), f32(1, 18, 4, 5), f32(3)),
    case(
        "DeformConv",
        f32(2, 4, 6, 7),
        const(f32(6, 2, 3, 3)),
        f32(2, 36, 3, 4),
        None,
        f32(2, 18, 3, 4),
        group=2,
        offset_group=2,
        pads=[1, 1, 1, 1],
        strides=[2, 2],
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS, ("DeformConv", "RoiAlign")))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
