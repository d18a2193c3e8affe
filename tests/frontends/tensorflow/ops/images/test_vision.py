"""The rules of `frontends/tensorflow/ops/images/vision.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params

BOXES = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 2, 1, 3], [0, 2.4, 1, 3.4], [5, 5, 6, 6]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3, 0.7, 0.1], np.float32)

ROWS = [
    *(
        case(
            "MaxPoolWithArgmax",
            f32(2, 5, 6, 3),
            ksize=[1, 2, 2, 1],
            strides=[1, 2, 2, 1],
            padding="SAME",
            Targmax="int64",
            include_batch_in_index=whole,
        ).named(f"{whole}")
        for whole in (False, True)
    ),
    *(
        case(
            "MaxPoolWithArgmax",
            (np.arange(90) * 7 % 91).reshape(1, 5, 6, 3).astype(kind),
            ksize=[1, 2, 2, 1],
            strides=[1, 2, 2, 1],
            padding="SAME",
            Targmax="int64",
        ).named(np.dtype(kind).name)
        for kind in (np.int32, np.int16, np.uint16, np.uint8, np.int8)
    ),
    case("NonMaxSuppressionV2", BOXES, SCORES, 4, np.float32(0.5)),
    case("NonMaxSuppressionV3", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2)),
    *(
        case("NonMaxSuppressionV4", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), pad_to_max_output_size=pad)
        for pad in (False, True)
    ),
    case("NonMaxSuppressionV5", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), 0.0),
    case(
        "NonMaxSuppressionV5", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), 0.0, pad_to_max_output_size=True
    ).named("padded"),
    *(
        case(
            "NonMaxSuppressionV5",
            BOXES,
            SCORES,
            6,
            np.float32(over),
            np.float32(least),
            sigma,
            pad_to_max_output_size=pad,
        ).named(f"soft, {over} {least} {sigma} {pad}")
        for over, least, sigma, pad in (
            (0.5, 0.2, 0.3, False),
            (1, 0, 0.5, True),
            (1, 0.9, 0.5, True),
            (0.3, -np.inf, 0.1, False),
        )
    ),
    *(
        case("NonMaxSuppressionV5", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), np.float32(sigma)).named(
            f"{sigma} by data"
        )
        for sigma in (0, 0.3)
    ),
    case("AdjustSaturation", f32(2, 4, 5, 3, low=0.0, high=1.0), np.float32(0.6)),
    case("AdjustSaturation", f32(2, 4, 5, 3, low=-1.0, high=1.0), np.float32(1.6)).named("below 0"),
    case("AdjustHue", f32(2, 4, 5, 3, low=0.0, high=1.0), np.float32(-0.3)),
    case("AdjustHue", f32(2, 4, 5, 3, low=-1.0, high=1.0), np.float32(0.7)).named("below 0"),
    case("AdjustContrastv2", f32(2, 4, 5, 3), np.float32(1.7)),
    case("RGBToHSV", f32(2, 4, 5, 3, low=0.0, high=1.0)),
    case("HSVToRGB", f32(2, 4, 5, 3, low=0.0, high=1.0)),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
