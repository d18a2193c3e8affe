"""Resize, which is written out for SavedModels, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, params

EMPTY = const(np.array([], np.float32))

ROWS = [
    *(
        case(
            "Resize",
            f32(1, 2, 4, 5),
            EMPTY,
            const(np.array([1, 1, 2, 1.4], np.float32)),
            mode=mode,
            coordinate_transformation_mode=how,
        )
        for mode in ("nearest", "linear", "cubic")
        for how in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        if (mode, how) != ("nearest", "align_corners")
    ),
    *(
        case(
            "Resize",
            f32(1, 2, 4, 5),
            EMPTY,
            EMPTY,
            const([1, 2, 7, 3]),
            mode="nearest",
            nearest_mode=how,
            coordinate_transformation_mode="asymmetric",
        )
        for how in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    ),
    case("Resize", f32(1, 2, 4, 5), None, None, ints(1, 2, 7, 3), mode="linear"),
    case("Resize", f32(1, 2, 4, 5), None, np.array([1, 1, 2, 2], np.float32), mode="nearest"),
    case("Resize", f32(1, 2, 8, 9), None, None, const([1, 2, 4, 3]), mode="linear", antialias=1),
    case("Resize", f32(1, 2, 8, 9), None, None, const([1, 2, 4, 3]), mode="cubic", antialias=1),
    case(
        "Resize",
        f32(1, 2, 4, 5),
        None,
        None,
        const([6, 7]),
        mode="cubic",
        axes=[2, 3],
        exclude_outside=1,
        cubic_coeff_a=-0.5,
    ),
    case("Resize", f32(1, 2, 9), None, None, const([1, 2, 4]), mode="linear"),
    case("Resize", f32(1, 1, 3, 4, 5), None, None, const([1, 1, 6, 2, 5]), mode="linear"),
    case(
        "Resize",
        f32(1, 2, 4, 5),
        const(np.array([0, 0, 0.2, 0.3, 1, 1, 0.8, 1.2], np.float32)),
        None,
        const([1, 2, 3, 6]),
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
    ),
    case("Resize", f32(4, 6), None, None, const([8, 3]), mode="linear", keep_aspect_ratio_policy="not_larger"),
    *(
        case(
            "Resize",
            f32(1, 2, 4, 5),
            None,
            const(np.array([1, 1, 2, 1.4], np.float32)),
            nearest_mode=how,
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        ).named(f"of opset 11, {how}")
        for how in ("floor", "round_prefer_floor", "ceil")
    ),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
