"""The rules of `backends/caffe2/ops/pool.py`, run by the real Caffe2 and compared with onnxruntime."""

from __future__ import annotations

import pytest

from tests.support.caffe2_support import RUNTIME, Nets, Row, both, check
from tests.support.cases import case, f32

IMAGE = f32(2, 4, 8, 8)
ODD = f32(2, 4, 7, 9)
ODD_IMAGE = f32(2, 4, 7, 8)
LINE = f32(2, 3, 9)

ROWS = both(
    [
        case("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
        case("MaxPool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4).named("pads"),
        case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1).named("ceil"),
        case("MaxPool", ODD, kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, ceil_mode=1).named("ceil pads"),
        case("MaxPool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 0]).named("1d"),
        case("MaxPool", f32(1, 2, 5, 5, 5), kernel_shape=[2, 2, 2]).named("3d"),
        case("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
        case("AveragePool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4).named("pads"),
        case("AveragePool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1).named(
            "counted"
        ),
        case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1).named("ceil"),
        case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1, pads=[1] * 4),
        case("AveragePool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]).named("1d"),
        *(case("GlobalAveragePool", x) for x in (IMAGE, f32(2, 3, 7), f32(1, 2, 3, 4, 5))),
        *(case("GlobalMaxPool", x) for x in (IMAGE, f32(2, 3, 7), f32(1, 2, 3, 4, 5))),
        (case("MaxPool", ODD_IMAGE, kernel_shape=[2, 2], dilations=[2, 2]).named("dilated"), RUNTIME),
        (
            case("MaxPool", ODD_IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], outputs=2).named(
                "indices"
            ),
            RUNTIME,
        ),
        (case("MaxPool", ODD_IMAGE, kernel_shape=[2, 2], storage_order=1, outputs=2).named("columns"), RUNTIME),
        (
            case("MaxPool", LINE, kernel_shape=[3], dilations=[2], strides=[2], ceil_mode=1, pads=[1, 1]).named("1d"),
            RUNTIME,
        ),
        (case("AveragePool", ODD_IMAGE, kernel_shape=[2, 2], dilations=[2, 2], pads=[1] * 4).named("dilated"), RUNTIME),
        (
            case(
                "AveragePool",
                ODD_IMAGE,
                kernel_shape=[2, 2],
                dilations=[2, 2],
                pads=[1] * 4,
                count_include_pad=1,
                strides=[2, 2],
                ceil_mode=1,
            ).named("dilated counted"),
            RUNTIME,
        ),
        *(case("LpPool", ODD_IMAGE, kernel_shape=[2, 3], p=p, pads=[0, 1, 0, 1]).named(f"p {p}") for p in (1, 2, 3)),
    ]
)


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    check(row, caffe2_outcomes)
