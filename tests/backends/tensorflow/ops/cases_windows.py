"""Rows of the TensorFlow backend's table: convolutions, pools, normalization and Resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.backends.tensorflow.ops.onnx_cases import const, ints
from tests.support.cases import case, f32, f64, i64


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
    """A convolution with a weight that is an initializer."""
    group = attributes.get("group", 1)
    shape = (channels, outputs // group, *kernel) if transposed else (outputs, channels // group, *kernel)
    inputs = [f32(n, channels, *spatial), const(f32(*shape)), *([const(f32(outputs))] if bias else [])]
    return case("ConvTranspose" if transposed else "Conv", *inputs, **attributes)


CONV = [
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
    conv(2, 4, (9, 9), 4, (3, 3), group=4, dilations=[2, 2], strides=[2, 2]),
    conv(2, 4, (9, 9), 4, (3, 3), True, group=4, dilations=[2, 2], pads=[2, 2, 2, 2]),
    conv(1, 3, (4, 5, 6), 4, (2, 3, 2), True, pads=[1, 0, 1, 0, 1, 1]),
    conv(1, 4, (4, 5, 6), 4, (2, 2, 2), True, group=2, strides=[1, 2, 1]),
    conv(1, 2, (5, 5, 6), 3, (2, 2, 2), dilations=[2, 1, 2]),
    conv(1, 4, (5, 5, 6), 4, (2, 2, 2), group=4, dilations=[2, 2, 2], strides=[2, 1, 1]),
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
]

POOL = [
    *(
        case(name, f32(2, 3, 7, 8), kernel_shape=[3, 2], **attributes)
        for name in ("MaxPool", "AveragePool", "LpPool")
        for attributes in (
            {},
            {"strides": [2, 2], "pads": [1, 0, 1, 1]},
            {"strides": [2, 3], "ceil_mode": 1},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
            {"dilations": [2, 2], "pads": [1, 1, 1, 1]},
        )
    ),
    case("AveragePool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], count_include_pad=1),
    case(
        "AveragePool",
        f32(2, 3, 7, 8),
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        count_include_pad=1,
        ceil_mode=1,
    ),
    case("AveragePool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 0, 1, 0], strides=[2, 2], ceil_mode=1),
    case("MaxPool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]),
    case("AveragePool", f32(2, 3, 9), kernel_shape=[3], strides=[2]),
    case("MaxPool", f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2], strides=[2, 1, 2]),
    case("AveragePool", f32(1, 2, 4, 5, 6), kernel_shape=[2, 2, 2]),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    case("MaxPool", f32(1, 2, 5, 5), kernel_shape=[1, 1], strides=[2, 2]),
    case("MaxPool", i64(1, 2, 5, 5).astype(np.int8), kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
    case("MaxPool", f64(1, 2, 5, 5), kernel_shape=[2, 2]),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], _outputs=2),
    case("MaxPool", f32(2, 3, 7, 8), kernel_shape=[3, 2], storage_order=1, _outputs=2),
    case("LpPool", f32(2, 3, 8), kernel_shape=[3], p=3),
    *(case(name, f32(2, 3, 4, 5)) for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")),
    case("GlobalAveragePool", f32(2, 3, 4)),
    case("GlobalLpPool", f32(2, 3, 4), p=3),
]

NORM = [
    case("BatchNormalization", f32(2, 3, 4, 5), f32(3), f32(3), f32(3), f32(3, low=0.1), epsilon=1e-3),
    case("BatchNormalization", f32(2, 3), f32(3), f32(3), f32(3), f32(3, low=0.1)),
    case("BatchNormalization", f32(2, 3, 4, 5).astype(np.float16), f32(3), f32(3), f32(3), f32(3, low=0.1)),
    case("BatchNormalization", f32(2, 3, 4), *(const(f32(3, low=0.1)) for _ in range(4))),
    case("InstanceNormalization", f32(2, 3, 4, 5), f32(3), f32(3)),
    case("InstanceNormalization", f32(2, 3, 9), f32(3), f32(3), epsilon=1e-2),
    case("GroupNormalization", f32(2, 6, 4, 5), f32(6), f32(6), num_groups=3),
    case("LayerNormalization", f32(2, 3, 8), f32(8), f32(8)),
    case("LayerNormalization", f32(2, 3, 8), f32(3, 8), axis=1, epsilon=1e-2, _outputs=3),
    case("RMSNormalization", f32(2, 3, 8), f32(8)),
    case("MeanVarianceNormalization", f32(2, 3, 4, 5)),
    case("LpNormalization", f32(2, 3, 4), p=1, axis=1),
    case("LpNormalization", f32(2, 3, 4)),
    case("LRN", f32(2, 7, 3, 3), size=3),
    case("LRN", f32(7, 7, 3, 3), size=4, alpha=0.1, beta=0.6, bias=2.0),
]

EMPTY = const(np.array([], np.float32))
RESIZE = [
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
]

CASES = [*CONV, *POOL, *NORM, *RESIZE]
