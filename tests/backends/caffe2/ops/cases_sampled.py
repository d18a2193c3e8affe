"""Rows of the Caffe2 table: recurrent layers, windows that are gathered, images at computed coordinates, transforms."""

from __future__ import annotations

import numpy as np

from tests.support.caffe2_support import RUNTIME, weight
from tests.support.cases import boolean, case, f32, f64

IMAGE, LINE = f32(2, 4, 7, 8), f32(2, 3, 9)
GRID = f32(2, 3, 5, 2, low=-1.4, high=1.4)
REGIONS = np.array([[0, 0, 5, 5], [1.5, 2, 6, 4.5], [2, 1, 7, 6]], np.float32)
X = f32(5, 2, 3)
LENGTHS = np.array([5, 3], np.int32)


def layer(operator: str, gates: int, directions: int = 1, hidden: int = 4, size: int = 3) -> list:
    """The weights of a recurrent layer."""
    return [
        weight(f32(directions, gates * hidden, size, low=-0.7, high=0.7)),
        weight(f32(directions, gates * hidden, hidden, low=-0.7, high=0.7)),
    ]


def bias(gates: int, directions: int = 1, hidden: int = 4) -> object:
    return weight(f32(directions, 2 * gates * hidden))


RECURRENT = [
    *(
        case(name, X, *layer(name, gates, count), bias(gates, count), hidden_size=4, direction=way, outputs=n).named(
            way
        )
        for name, gates, n in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3))
        for way, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2))
    ),
    *(
        case(name, X, *layer(name, gates, 2), None, LENGTHS, hidden_size=4, direction="bidirectional", outputs=n).named(
            "lengths"
        )
        for name, gates, n in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3))
    ),
    case("RNN", X, *layer("RNN", 1), hidden_size=4, activations=["Relu"], clip=0.5, outputs=2).named("relu"),
    *(
        case("RNN", X, *layer("RNN", 1), hidden_size=4, activations=[name], outputs=2).named(name)
        for name in ("Elu", "HardSigmoid", "LeakyRelu", "Softsign", "Softplus")
    ),
    *(
        case(
            "RNN",
            X,
            *layer("RNN", 1),
            hidden_size=4,
            activations=[name],
            outputs=2,
            activation_alpha=[0.5],
            activation_beta=[0.25],
        ).named(name)
        for name in ("Affine", "ScaledTanh", "ThresholdedRelu")
    ),
    case("GRU", X, *layer("GRU", 3), bias(3), hidden_size=4, linear_before_reset=1, outputs=2).named("reset"),
    case("GRU", X, *layer("GRU", 3), None, None, f32(1, 2, 4), hidden_size=4, outputs=2).named("initial"),
    case(
        "LSTM",
        X,
        *layer("LSTM", 4),
        bias(4),
        None,
        f32(1, 2, 4),
        f32(1, 2, 4),
        weight(f32(1, 12)),
        hidden_size=4,
        outputs=3,
    ).named("peepholes"),
    case("LSTM", X, *layer("LSTM", 4), bias(4), hidden_size=4, clip=0.4, outputs=3).named("clip"),
    (case("LSTM", f32(70, 2, 3), *layer("LSTM", 4), bias(4), hidden_size=4, outputs=3).named("long")),
]

POOLED = [
    (case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2]).named("dilated"), RUNTIME),
    (
        case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], outputs=2).named("indices"),
        RUNTIME,
    ),
    (case("MaxPool", IMAGE, kernel_shape=[2, 2], storage_order=1, outputs=2).named("columns"), RUNTIME),
    (
        case("MaxPool", LINE, kernel_shape=[3], dilations=[2], strides=[2], ceil_mode=1, pads=[1, 1]).named("1d"),
        RUNTIME,
    ),
    (case("AveragePool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2], pads=[1] * 4).named("dilated"), RUNTIME),
    (
        case(
            "AveragePool",
            IMAGE,
            kernel_shape=[2, 2],
            dilations=[2, 2],
            pads=[1] * 4,
            count_include_pad=1,
            strides=[2, 2],
            ceil_mode=1,
        ).named("dilated counted"),
        RUNTIME,
    ),
    *((case("LpPool", IMAGE, kernel_shape=[2, 3], p=p, pads=[0, 1, 0, 1]).named(f"p {p}"), RUNTIME) for p in (1, 2, 3)),
    (
        case(
            "ConvTranspose", f32(1, 2, 3, 3, 3), weight(f32(2, 2, 2, 2, 2)), strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 1]
        ).named("3d"),
        RUNTIME,
    ),
    (case("ConvTranspose", IMAGE, f32(4, 2, 3, 2), dilations=[2, 1], group=2).named("computed kernel"), RUNTIME),
    (case("Col2Im", f32(1, 8, 12), weight(4, 5), weight(2, 2)), RUNTIME),
    (
        case("Col2Im", f32(2, 12, 9), weight(5, 6), weight(3, 2), strides=[1, 2], pads=[0, 0, 0, 0], dilations=[1, 1]),
        RUNTIME,
    ),
]

SAMPLED = [
    *(
        (
            case("GridSample", IMAGE, GRID, mode=mode, padding_mode=pad, align_corners=corners).named(
                f"{mode} {pad} {corners}"
            ),
            RUNTIME,
        )
        for mode in ("linear", "nearest", "cubic")
        for pad in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ),
    (case("GridSample", f32(1, 2, 3, 4, 5), f32(1, 2, 3, 4, 3, low=-1.2, high=1.2)).named("3d"), RUNTIME),
    *(
        case(
            "RoiAlign",
            IMAGE,
            weight(REGIONS),
            weight(0, 1, 1),
            output_height=2,
            output_width=3,
            sampling_ratio=2,
            coordinate_transformation_mode=mode,
        ).named(mode)
        for mode in ("half_pixel", "output_half_pixel")
    ),
    case("RoiAlign", IMAGE, weight(REGIONS), weight(0, 1, 1), output_height=2, output_width=2, mode="max").xfail(
        "the mean only"
    ),
    (case("DeformConv", f32(1, 2, 5, 5), weight(f32(3, 2, 2, 2)), f32(1, 8, 4, 4), weight(f32(3))), RUNTIME),
    (
        case(
            "DeformConv",
            f32(1, 4, 5, 5),
            weight(f32(2, 2, 2, 2)),
            f32(1, 16, 5, 6),
            None,
            f32(1, 8, 5, 6),
            group=2,
            offset_group=2,
            pads=[0, 1, 1, 1],
        ).named("mask"),
        RUNTIME,
    ),
    *(
        (
            case("Resize", IMAGE, None, None, weight(2, 4, 7, size), mode=mode, antialias=1).named(
                f"antialias {mode} {size}"
            ),
            RUNTIME,
        )
        for mode in ("linear", "cubic")
        for size in (2, 4)  # ONNX's evaluator places cells in float32, which is exact for such scales only
    ),
    (
        case(
            "Resize",
            IMAGE,
            weight(np.array([0.2, 0.1, 0.9, 1.2], np.float32)),
            None,
            weight(6, 5),
            mode="linear",
            axes=[2, 3],
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=3.0,
        ).named("crop"),
        RUNTIME,
    ),
    (
        case("Resize", IMAGE, None, None, weight(14, 20), axes=[2, 3], keep_aspect_ratio_policy="not_larger").named(
            "ratio"
        ),
        RUNTIME,
    ),
]

TRANSFORMS = [
    *(
        (case("DFT", f32(2, 6, parts), None, weight(np.int64(1)), **more), RUNTIME)
        for parts, more in ((1, {}), (2, {}), (2, {"inverse": 1}), (1, {"onesided": 1}))
    ),
    (case("DFT", f32(2, 5, 2), weight(np.int64(8)), weight(np.int64(1))).named("length"), RUNTIME),
    (case("DFT", f64(2, 5, 2), None, weight(np.int64(1))).named("float64").xfail("Caffe2 has no float64 kernel")),
    (case("STFT", f32(1, 32, 1), weight(np.int64(8)), weight(f32(16))), RUNTIME),
    (
        case("STFT", f32(1, 32, 1), weight(np.int64(8)), None, weight(np.int64(16)), onesided=0).named("two-sided"),
        RUNTIME,
    ),
]

NORMALISED = [
    case("LayerNormalization", f32(2, 3, 8), weight(f32(8)), weight(f32(8)), outputs=3, fixed=(1,)).named("moments"),
    case("LpNormalization", np.array([[0, 0, 0], [3, 0, 4]], np.float32)).named("nothing"),
    (case("Dropout", f32(3, 4), weight(np.float32(0.0)), weight(np.bool_(True)), outputs=2).named("training")),
    case(
        "Attention",
        f32(2, 4, 3, 8),
        f32(2, 4, 5, 8),
        f32(2, 4, 5, 8),
        boolean(3, 5) & (np.arange(3) != 1)[:, None],
        fixed=(1, 3),
    ).named("nothing"),
    case(
        "Attention",
        f32(1, 2, 3, 8),
        f32(1, 2, 2, 8),
        f32(1, 2, 2, 8),
        None,
        f32(1, 2, 4, 8),
        f32(1, 2, 4, 8),
        is_causal=1,
        softcap=2.0,
        outputs=4,
        qk_matmul_output_mode=1,
        fixed=(0, 1, 3),
    ).named("past"),
]

SAMPLED_CASES = [*RECURRENT, *POOLED, *SAMPLED, *TRANSFORMS, *NORMALISED]
