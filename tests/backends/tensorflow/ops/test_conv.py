"""The rules of `backends/tensorflow/ops/conv.py` against onnxruntime."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, f32, f64, params


def conv(
    n: int,
    channels: int,
    spatial: tuple[int, ...],
    outputs: int,
    kernel: tuple[int, ...],
    bias: bool = False,
    transposed: bool = False,
    **attributes: Any,
):
    """Return a convolution whose weight is an initializer."""
    group = attributes.get("group", 1)
    shape = (channels, outputs // group, *kernel) if transposed else (outputs, channels // group, *kernel)
    inputs = [f32(n, channels, *spatial), const(f32(*shape)), *([const(f32(outputs))] if bias else [])]
    return case("ConvTranspose" if transposed else "Conv", *inputs, **attributes)


ROWS = [
    conv(2, 3, (9,), 4, (3,), True),
    conv(2, 4, (9,), 4, (3,), True, group=4, strides=[2], pads=[1, 1]),
    conv(2, 4, (9,), 6, (3,), group=2, dilations=[2]),
    conv(2, 4, (9,), 6, (3,), True, dilations=[2], strides=[2], pads=[2, 1]),
    conv(2, 3, (7, 8), 4, (3, 3), True),
    conv(2, 3, (7, 8), 4, (3, 3), True, pads=[1, 1, 1, 1]),
    conv(2, 3, (7, 8), 4, (3, 2), pads=[0, 1, 2, 0], strides=[2, 1]),
    conv(2, 3, (9, 8), 4, (3, 3), True, dilations=[2, 1], strides=[2, 1]),
    *(conv(2, 3, (7, 8), 4, (3, 2), True, auto_pad=p, strides=[2, 3]) for p in ("SAME_UPPER", "SAME_LOWER", "VALID")),
    conv(2, 4, (7, 8), 6, (3, 3), True, group=2, pads=[1, 1, 1, 1]),
    conv(2, 4, (7, 8), 6, (3, 3), True, group=2, dilations=[2, 2]),
    conv(2, 4, (7, 8), 4, (3, 3), True, group=4, pads=[1, 1, 1, 1]),
    conv(2, 4, (7, 8), 4, (3, 3), True, group=4, pads=[1, 1, 1, 1], strides=[2, 2]),
    conv(2, 4, (7, 8), 8, (3, 3), True, group=4, pads=[1, 0, 2, 1], strides=[2, 1]),
    # The kernel's own pads: larger than a window, so that some windows hold nothing else.
    conv(2, 4, (7, 8), 8, (3, 3), True, group=4, pads=[1, 0, 2, 1], strides=[2, 2]),
    conv(3, 4, (1, 2), 4, (5, 3), True, group=4, pads=[2, 3, 4, 5], strides=[2, 2]),
    conv(2, 4, (2, 1), 4, (1, 2), True, group=4, pads=[2, 2, 3, 3], strides=[3, 3]),
    conv(2, 4, (9,), 4, (3,), True, group=4, pads=[1, 1], strides=[2]),
    case("Conv", f64(2, 3, 6, 6), const(f64(3, 1, 3, 3)), const(f64(3)), group=3, pads=[1] * 4, strides=[2, 2]).named(
        "depthwise in float64"
    ),
    conv(2, 4, (9, 9), 4, (3, 3), group=4, dilations=[2, 2], strides=[2, 2]),
    conv(2, 4, (9, 9), 4, (3, 3), True, group=4, dilations=[2, 2], pads=[2, 2, 2, 2]),
    conv(1, 3, (4, 5, 6), 4, (2, 3, 2), True, pads=[1, 0, 1, 0, 1, 1]),
    conv(1, 4, (4, 5, 6), 4, (2, 2, 2), True, group=2, strides=[1, 2, 1]),
    conv(1, 2, (5, 5, 6), 3, (2, 2, 2), dilations=[2, 1, 2]),
    conv(1, 4, (5, 5, 6), 4, (2, 2, 2), group=4, dilations=[2, 2, 2], strides=[2, 1, 1]),
    # With one channel, one window along the width and a stride there alone, oneDNN reads other elements.
    conv(3, 1, (6, 3), 4, (3, 3), True, strides=[1, 2]),
    conv(3, 1, (6, 4), 4, (3, 3), strides=[1, 3]),
    conv(3, 1, (5, 1), 2, (2, 3), True, strides=[1, 2], pads=[1, 1, 1, 1]),
    conv(3, 1, (5, 2), 2, (2, 2), True, strides=[1, 3], auto_pad="SAME_UPPER"),
    conv(3, 1, (6, 4), 4, (3, 3), strides=[1, 2], dilations=[2, 1]),
    conv(2, 1, (2, 6, 4), 3, (2, 3, 3), strides=[1, 1, 2]),
    conv(3, 2, (6, 3), 4, (3, 3), strides=[1, 2], group=2),
    case("Conv", f32(2, 4, 6, 6), const(f32(4, 2, 3, 3)), f32(4), group=2, pads=[1, 1, 1, 1]).named("bias at run time"),
    case("Conv", f32(2, 4, 7, 8), f32(6, 2, 3, 3), f32(6), group=2, pads=[1, 0, 1, 2]).named("weights at run time"),
    case("Conv", f32(1, 3, 9), f32(3, 1, 4), group=3, auto_pad="SAME_UPPER", strides=[2]).named(
        "depthwise at run time"
    ),
    case("ConvTranspose", f32(1, 2, 4, 5), f32(2, 3, 3, 2), dilations=[2, 1], strides=[2, 1]).named("at run time"),
    case("Conv", f64(1, 2, 5, 5), const(f64(3, 2, 3, 3))).named("float64"),
    conv(2, 3, (6,), 4, (3,), True, True, strides=[2], pads=[1, 0]),
    conv(2, 3, (5, 6), 4, (3, 3), True, True),
    conv(2, 3, (5, 6), 4, (3, 3), True, True, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    conv(2, 3, (5, 6), 4, (4, 4), False, True, strides=[2, 2], pads=[1, 1, 1, 1]),
    conv(2, 3, (5, 6), 4, (2, 2), True, True, strides=[3, 2]),
    conv(2, 4, (5, 6), 6, (3, 3), True, True, group=2, strides=[2, 1]),
    conv(2, 4, (5, 6), 4, (3, 3), True, True, group=4, strides=[2, 2], pads=[1, 1, 0, 0]),
    conv(2, 3, (5, 6), 4, (3, 2), True, True, dilations=[2, 3], strides=[2, 1]),
    conv(1, 3, (3, 4, 5), 2, (2, 3, 2), True, True, strides=[2, 1, 2]),
    conv(2, 3, (5, 6), 4, (3, 3), False, True, strides=[2, 2], output_shape=[10, 12]),
    conv(2, 3, (5, 6), 4, (3, 3), False, True, strides=[2, 2], auto_pad="SAME_UPPER"),
    conv(2, 3, (5, 6), 4, (3, 3), False, True, strides=[2, 2], auto_pad="SAME_LOWER"),
    conv(2, 3, (5, 6), 4, (1, 2), True, True, strides=[3, 4], auto_pad="SAME_UPPER"),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
