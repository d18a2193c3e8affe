"""Resize by the rule of `backends/caffe2/ops/resize.py` and written out, run by Caffe2, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import Nets, Row, both, check, weight
from tests.support.cases import case, f32

IMAGE = f32(2, 4, 8, 8)
ODD = f32(2, 4, 7, 9)
SCALES = weight(np.array([1, 1, 2, 1.5], np.float32))
CUBIC = {"mode": "cubic", "cubic_coeff_a": -0.5}
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
ODD_IMAGE = f32(2, 4, 7, 8)

ROWS = both(
    [
        *(
            case("Resize", IMAGE, None, SCALES, coordinate_transformation_mode=c, mode="linear").named(c)
            for c in COORDINATES
        ),
        case("Resize", ODD, None, SCALES, coordinate_transformation_mode="half_pixel_symmetric", mode="linear"),
        *(
            case("Resize", ODD, None, SCALES, coordinate_transformation_mode="asymmetric", nearest_mode=n).named(n)
            for n in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        ),
        case("Resize", ODD, None, None, weight(2, 4, 14, 18), **CUBIC).named("cubic"),
        case("Resize", ODD, None, None, weight(2, 4, 5, 12), exclude_outside=1, **CUBIC).named("excluded"),
        case("Resize", ODD, None, None, weight(10, 11), axes=[2, 3]).named("axes"),
        case(
            "Resize",
            ODD,
            None,
            weight(np.array([1, 1, 2, 3], np.float32)),
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ).named("whole"),
        *(
            case("Resize", ODD_IMAGE, None, None, weight(2, 4, 7, size), mode=mode, antialias=1).named(
                f"antialias {mode} {size}"
            )
            for mode in ("linear", "cubic")
            for size in (2, 4)  # ONNX's evaluator computes coordinates in float32, which is exact for such scales only
        ),
        case(
            "Resize",
            ODD_IMAGE,
            weight(np.array([0.2, 0.1, 0.9, 1.2], np.float32)),
            None,
            weight(6, 5),
            mode="linear",
            axes=[2, 3],
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=3.0,
        ).named("crop"),
        case("Resize", ODD_IMAGE, None, None, weight(14, 20), axes=[2, 3], keep_aspect_ratio_policy="not_larger").named(
            "ratio"
        ),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
