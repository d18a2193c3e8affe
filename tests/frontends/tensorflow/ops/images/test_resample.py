"""The rules of `frontends/tensorflow/ops/images/resample.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

PICTURE = f32(2, 5, 7, 3)

ROWS = [
    case("ResizeBicubic", PICTURE, [8, 4], half_pixel_centers=True),
    case("ResizeBicubic", PICTURE, [3, 11]),
    case("ResizeBicubic", PICTURE, [9, 9], align_corners=True),
    case("ResizeArea", PICTURE, [3, 4]),
    case("ResizeArea", PICTURE, [8, 10], align_corners=True),
    *(
        case("ScaleAndTranslate", PICTURE, [4, 9], [0.8, 1.25], [0.1, 0.5], kernel_type=kernel)
        for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
    ),
    *(
        case("ResizeBicubic", PICTURE, np.array(size, np.int32), half_pixel_centers=half, align_corners=corners).named(
            f"{size} by data, {half} {corners}"
        )
        for half, corners in ((True, False), (False, True), (False, False))
        for size in ([8, 4], [1, 7])
    ),
    *(
        case("ResizeArea", PICTURE, np.array(size, np.int32), align_corners=corners).named(f"{size} by data, {corners}")
        for corners in (False, True)
        for size in ([3, 9], [2, 1])
    ),
    *(
        case(
            "ScaleAndTranslate",
            PICTURE,
            np.array([4, 9], np.int32),
            np.float32([0.8, 1.25]),
            np.float32([0.1, 0.5]),
            kernel_type=kernel,
            antialias=kernel != "box",
        ).named(f"{kernel} by data")
        for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
    ),
    case("ScaleAndTranslate", PICTURE, [3, 5], [0.6, 0.7], [0.2, -0.4], kernel_type="triangle", antialias=False),
    case("ResizeBicubic", f32(1, 3, 2, 1), [66_000, 1], half_pixel_centers=True).named("cubic, 66,000 rows"),
    case("ResizeArea", f32(1, 3, 2, 1), [2, 66_000]).named("area, 66,000 columns"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
