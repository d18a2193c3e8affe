"""The rules of `frontends/caffe2/ops/conv.py`: operators and arguments that the backend does not write."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.caffe2.ops.support import Foreign, check
from tests.support.cases import Case, case, f32, params

ROWS = params(
    [
        case("Conv", f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4), kernel=3, is_test=1).named("is_test"),
        case("Conv1D", f32(1, 3, 9), f32(4, 3, 3), f32(4), kernels=[3], strides=[2]),
        case("Conv2D", f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4), kernel=3),
        case("Conv3D", f32(1, 2, 4, 5, 6), f32(3, 2, 2, 2, 2), f32(3), kernels=[2, 2, 2]),
        *(
            case(f"{kind}Pool{n}D", f32(1, 2, *sizes), kernels=[2] * n, strides=[2] * n)
            for kind in ("Max", "Average")
            for n, sizes in ((1, (8,)), (2, (6, 8)), (3, (4, 6, 8)))
        ),
        case("Conv", f32(1, 6, 7, 3), f32(4, 2, 2, 3), kernel_h=2, kernel_w=2, stride=2, order="NHWC").named("nhwc"),
        case("Conv", f32(1, 3, 6, 7), f32(4, 3, 3, 3), f32(4), kernel=3, pad_t=1, pad_l=2, pad_b=0, pad_r=1).named(
            "sides"
        ),
        case("Conv", f32(1, 4, 6, 7), f32(4, 2, 3, 3), kernel=3, pad=2, dilation=2, group=2).named("single"),
        case("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 3), kernel=3, stride=2, pad=1, adj=1),
        case("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 3), kernel=3, dilation=1).named("a dilation of one"),
        case("ConvTranspose", f32(1, 3, 4, 5), f32(3, 2, 3, 3), kernel=3, dilation=2).xfail(
            "dilations, which are ignored"
        ),
        case("MaxPool", f32(1, 6, 7, 3), kernel=3, stride=2, order="NHWC"),
        case("AveragePool", f32(1, 3, 6, 7), kernel_h=3, kernel_w=2, stride_h=2, stride_w=1),
        case("MaxPool", f32(1, 2, 9, 8), kernel=3, stride=2, legacy_pad=3).named("caffe"),
        case("MaxPool", f32(1, 2, 9, 8), kernel=3, stride=3, pad=1, legacy_pad=3).named("caffe with pads"),
        case("AveragePool", f32(1, 2, 9, 8), kernel=3, stride=2, pad=1, legacy_pad=3).named("caffe"),
        case("MaxPool", f32(1, 2, 9, 8), kernel=3, stride=2, legacy_pad=2).named("same"),
        case("Conv", f32(1, 2, 9, 8), f32(4, 2, 2, 3), kernel_h=2, kernel_w=3, stride=2, legacy_pad=2).named("same"),
        case("MaxPool", f32(1, 2, 9, 8), kernel=3, stride=2, legacy_pad=1).named("valid"),
        case("LRN", f32(1, 5, 4, 4), size=3, alpha=0.1, beta=0.75, bias=1.0),
        case("LRN", f32(2, 5, 4, 3), outputs=2, size=3, alpha=0.1, beta=0.75, bias=1.5).named("with its scale"),
        case("PadImage", f32(1, 2, 4, 4), pad_t=1, pad_l=2, pad_b=0, pad_r=1),
        case("PadImage", f32(1, 2, 4, 4), pad=1, mode="reflect").named("reflect"),
        case("ResizeNearest", f32(1, 2, 3, 3), width_scale=2.0, height_scale=1.5),
        case("UpsampleBilinear", f32(1, 2, 3, 3), width_scale=2.0, height_scale=2.0),
        case(
            "RoIAlign",
            f32(1, 2, 8, 8),
            np.array([[0, 1, 1, 6, 5]], np.float32),
            spatial_scale=1.0,
            pooled_h=2,
            pooled_w=3,
            sampling_ratio=2,
        ),
        case("RoIPool", f32(1, 2, 8, 8), np.array([[0, 1, 1, 6, 5]], np.float32), is_test=1, pooled_h=2, pooled_w=3),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_nets_of_others(row: Case, foreign: Foreign) -> None:
    check(row, foreign)
