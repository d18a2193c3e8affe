"""The rules of `backends/caffe2/ops/conv.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check, weight
from tests.support.cases import case, f32

IMAGE = f32(2, 4, 8, 8)
ODD = f32(2, 4, 7, 9)
ODD_IMAGE = f32(2, 4, 7, 8)

ROWS = both(
    [
        case("Conv", IMAGE, weight(f32(6, 4, 3, 3)), weight(f32(6))),
        case("Conv", IMAGE, weight(f32(6, 4, 3, 3)), pads=[1, 0, 2, 1], strides=[2, 1]).named("pads"),
        case("Conv", IMAGE, weight(f32(8, 2, 3, 3)), group=2, dilations=[2, 1]).named("group"),
        case("Conv", IMAGE, weight(f32(4, 1, 3, 3)), weight(f32(4)), group=4, pads=[1] * 4).named("depthwise"),
        case("Conv", f32(2, 3, 9), weight(f32(4, 3, 3)), weight(f32(4)), strides=[2], pads=[1, 1]).named("1d"),
        case("Conv", f32(1, 2, 5, 5, 5), weight(f32(3, 2, 2, 2, 2)), weight(f32(3))).named("3d"),
        case("Conv", ODD, weight(f32(6, 4, 3, 3)), auto_pad="SAME_UPPER").named("same"),
        (
            case("Conv", ODD, weight(f32(6, 4, 2, 2)), auto_pad="SAME_LOWER", strides=[2, 2]).named("same strided"),
            RUNTIME,
        ),
        case("Conv", ODD, weight(f32(6, 4, 2, 2)), auto_pad="VALID", strides=[2, 2]).named("valid"),
        case("Conv", IMAGE.astype(np.float16), weight(f32(6, 4, 1, 1).astype(np.float16))).named("float16"),
        case("ConvTranspose", IMAGE, weight(f32(4, 6, 3, 3)), weight(f32(6))),
        case(
            "ConvTranspose",
            IMAGE,
            weight(f32(4, 3, 3, 3)),
            group=2,
            strides=[2, 2],
            pads=[1] * 4,
            output_padding=[1, 1],
        ),
        case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 2)), dilations=[2, 2], strides=[2, 1]).named("dilated"),
        case("ConvTranspose", f32(2, 3, 7), weight(f32(3, 4, 3)), weight(f32(4)), strides=[2]).named("1d"),
        (case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 3)), strides=[2, 2], output_shape=[15, 16]), RUNTIME),
        case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 3)), strides=[2, 2], auto_pad="SAME_UPPER").named("same"),
        case("ConvTranspose", f32(1, 2, 3, 3, 3), weight(f32(2, 2, 2, 2, 2))).named("3d"),
        (
            case(
                "ConvTranspose",
                f32(1, 2, 3, 3, 3),
                weight(f32(2, 2, 2, 2, 2)),
                strides=[2, 1, 2],
                pads=[1, 0, 0, 0, 1, 1],
            ).named("3d"),
            RUNTIME,
        ),
        (
            case("ConvTranspose", ODD_IMAGE, f32(4, 2, 3, 2), dilations=[2, 1], group=2).named("computed kernel"),
            RUNTIME,
        ),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
