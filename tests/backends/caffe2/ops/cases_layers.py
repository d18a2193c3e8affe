"""Rows of the Caffe2 table: windows, normalisation, shapes, indices and attention."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.support.caffe2_support import RUNTIME, weight
from tests.support.cases import boolean, case, f32, i32, i64

IMAGE, ODD = f32(2, 4, 8, 8), f32(2, 4, 7, 9)
HALF = f32(3, 4).astype(np.float16)

WINDOWS = [
    case("Conv", IMAGE, weight(f32(6, 4, 3, 3)), weight(f32(6))),
    case("Conv", IMAGE, weight(f32(6, 4, 3, 3)), pads=[1, 0, 2, 1], strides=[2, 1]).named("pads"),
    case("Conv", IMAGE, weight(f32(8, 2, 3, 3)), group=2, dilations=[2, 1]).named("group"),
    case("Conv", IMAGE, weight(f32(4, 1, 3, 3)), weight(f32(4)), group=4, pads=[1] * 4).named("depthwise"),
    case("Conv", f32(2, 3, 9), weight(f32(4, 3, 3)), weight(f32(4)), strides=[2], pads=[1, 1]).named("1d"),
    case("Conv", f32(1, 2, 5, 5, 5), weight(f32(3, 2, 2, 2, 2)), weight(f32(3))).named("3d"),
    case("Conv", ODD, weight(f32(6, 4, 3, 3)), auto_pad="SAME_UPPER").named("same"),
    (case("Conv", ODD, weight(f32(6, 4, 2, 2)), auto_pad="SAME_LOWER", strides=[2, 2]).named("same strided"), RUNTIME),
    case("Conv", ODD, weight(f32(6, 4, 2, 2)), auto_pad="VALID", strides=[2, 2]).named("valid"),
    case("Conv", IMAGE.astype(np.float16), weight(f32(6, 4, 1, 1).astype(np.float16))).named("float16"),
    case("ConvTranspose", IMAGE, weight(f32(4, 6, 3, 3)), weight(f32(6))),
    case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 3)), group=2, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]),
    case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 2)), dilations=[2, 2], strides=[2, 1]).named("dilated"),
    case("ConvTranspose", f32(2, 3, 7), weight(f32(3, 4, 3)), weight(f32(4)), strides=[2]).named("1d"),
    (case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 3)), strides=[2, 2], output_shape=[15, 16]), RUNTIME),
    case("ConvTranspose", IMAGE, weight(f32(4, 3, 3, 3)), strides=[2, 2], auto_pad="SAME_UPPER").named("same"),
    case("ConvTranspose", f32(1, 2, 3, 3, 3), weight(f32(2, 2, 2, 2, 2))).named("3d"),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxPool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4).named("pads"),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1).named("ceil"),
    (case("MaxPool", ODD, kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4, ceil_mode=1).named("ceil pads"), RUNTIME),
    case("MaxPool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 0]).named("1d"),
    case("MaxPool", f32(1, 2, 5, 5, 5), kernel_shape=[2, 2, 2]).named("3d"),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    case("AveragePool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4).named("pads"),
    case("AveragePool", ODD, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1).named("counted"),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1).named("ceil"),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, count_include_pad=1, pads=[1] * 4),
    case("AveragePool", f32(2, 3, 9), kernel_shape=[3], strides=[2], pads=[1, 1]).named("1d"),
    *(case("GlobalAveragePool", x) for x in (IMAGE, f32(2, 3, 7), f32(1, 2, 3, 4, 5))),
    *(case("GlobalMaxPool", x) for x in (IMAGE, f32(2, 3, 7), f32(1, 2, 3, 4, 5))),
]

CHANNELS = [weight(f32(4)), weight(f32(4, low=-1, high=1))]

NORMALISATION = [
    case("BatchNormalization", IMAGE, *CHANNELS, weight(f32(4)), weight(f32(4, low=0.5, high=2))),
    case("BatchNormalization", f32(5, 4), *CHANNELS, weight(f32(4)), weight(f32(4, low=0.5, high=2)), epsilon=0.01),
    case("InstanceNormalization", IMAGE, *CHANNELS),
    case("InstanceNormalization", f32(2, 4, 9), *CHANNELS, epsilon=0.01),
    case("InstanceNormalization", f32(2, 4, 3, 4, 5), *CHANNELS).named("5d"),
    case("LayerNormalization", f32(2, 3, 8), weight(f32(8)), weight(f32(8))),
    case("LayerNormalization", f32(2, 3, 8), weight(f32(3, 8)), axis=1, epsilon=1e-3),
    case("RMSNormalization", f32(2, 3, 8), weight(f32(8))),
    case("GroupNormalization", IMAGE, *CHANNELS, num_groups=2),
    case("GroupNormalization", f32(2, 4, 9), *CHANNELS, num_groups=2, epsilon=0.01),
    case("LRN", IMAGE, size=3),
    case("LRN", IMAGE, size=5, alpha=0.01, beta=0.5, bias=2.0),
    case("LpNormalization", f32(3, 4)),
    case("LpNormalization", f32(3, 4), axis=0, p=1),
    case("MeanVarianceNormalization", IMAGE),
]

SHAPES = [
    case("Reshape", f32(2, 3, 4), weight(0, -1)),
    case("Reshape", f32(2, 3, 4), weight(4, 6)),
    case("Reshape", i64(2, 3, 4), np.array([3, 2, -1])).named("computed"),
    case("Reshape", f32(1, 1), weight(np.zeros(0, np.int64))).named("scalar"),
    case("Reshape", f32(0, 3), weight(3, 0), allowzero=1).named("zero"),
    case("Flatten", f32(2, 3, 4)),
    case("Flatten", f32(2, 3, 4), axis=2),
    case("Flatten", i64(2, 3, 4), axis=0),
    case("Flatten", f32(2, 3, 4), axis=-1),
    case("Squeeze", f32(1, 3, 1), weight(0, -1)),
    (case("Squeeze", f32(1, 3, 1)), RUNTIME),
    case("Unsqueeze", f32(2, 3), weight(0, -1)),
    case("Unsqueeze", boolean(2, 3), weight(1)),
    case("Transpose", f32(2, 3, 4)),
    case("Transpose", f32(2, 3, 4, 5), perm=[0, 2, 3, 1]),
    *(case("Transpose", x) for x in (i64(2, 3), boolean(2, 3), HALF, i64(2, 3, low=0).astype(np.uint8))),
    case("Concat", f32(2, 3), f32(2, 1), axis=1),
    case("Concat", i64(2, 3), i64(1, 3), weight(i64(2, 3)), axis=-2),
    case("Concat", f32(2, 3), axis=0),
    (case("Split", f32(2, 7), axis=1, num_outputs=3, outputs=3), "Caffe2 divides a dynamic axis evenly only"),
    case("Split", f32(6, 2), axis=0, num_outputs=3, outputs=3).named("even"),
    case("Split", i64(2, 7), weight(2, 5), axis=-1, outputs=2),
    case("Shape", f32(2, 3, 4)),
    case("Shape", f32(2, 3, 4), start=1),
    case("Shape", f32(2, 3, 4), start=-2, end=-1),
    case("Size", f32(2, 3, 4)),
    case("Expand", f32(3, 1), weight(2, 1, 4)),
    case("Expand", f32(3, 1), np.array([2, 3, 4])).named("computed"),
    case("Expand", boolean(3, 1), weight(3, 4)),
    case("Tile", f32(2, 3), weight(1, 2)),
    case("Tile", i64(2, 3), np.array([2, 2])),
    case("ConstantOfShape", weight(2, 3), value=np.array([1.5], np.float32)),
    case("ConstantOfShape", np.array([2, 3]), value=np.array([7], np.int64)),
    case("ConstantOfShape", np.array([2, 3])),
    case("ConstantOfShape", np.array([2]), value=np.array([0.1], np.float64)).named("float64"),
    case("Range", np.int64(2), np.int64(9), weight(np.int64(3))),
    case("Range", np.float32(2), np.float32(-1), np.float32(-0.5)),
    case("Range", np.int64(9), np.int64(2), weight(np.int64(-3))).named("downwards"),
    *(case("DepthToSpace", f32(2, 12, 2, 3), blocksize=2, mode=mode) for mode in ("DCR", "CRD")),
    case("SpaceToDepth", f32(2, 3, 4, 6), blocksize=2),
]

Q, K = f32(2, 4, 3, 8), f32(2, 4, 5, 8)

PACKED = (f32(2, 3, 32), f32(2, 5, 32), f32(2, 5, 32))
HEADS = {"fixed": (1, 3)}  # the axes whose size is known in the dynamic case, too

ATTENTION = [
    case("Attention", Q, K, K, **HEADS),
    case("Attention", Q, K, K, scale=0.5, is_causal=1, **HEADS).named("causal"),
    case("Attention", Q, K, K, f32(3, 5), fixed=(1, 3)).named("bias"),
    case("Attention", Q, K, K, boolean(2, 1, 3, 5) | (np.arange(5) == 0), **HEADS).named("mask"),
    case("Attention", *PACKED, q_num_heads=4, kv_num_heads=4, softcap=2.0, fixed=(2,)).named("packed"),
    case("Attention", Q, K[:, :2], K[:, :2], **HEADS).named("grouped"),
    case("Attention", Q, K, K, None, f32(2, 4, 2, 8), f32(2, 4, 2, 8), outputs=3, **HEADS).named("past"),
]

SEVEN = i64(7, 5)

INDEXING = [
    case("Gather", f32(4, 3), i64(2, 2, low=-4, high=4)),
    case("Gather", f32(2, 4, 3), i64(2, 2, low=-4, high=4), axis=1),
    case("Gather", f32(2, 4, 3), weight(np.array(-1)), axis=-1).named("scalar"),
    case("Gather", i64(6), weight(i32(2, low=0)), axis=0).named("int32"),
    case("Slice", SEVEN, weight(1, 0), weight(4, 3)),
    case("Slice", SEVEN, weight(-3), weight(-1), weight(0)).named("negative"),
    case("Slice", f32(3, 7), weight(2), weight(np.iinfo(np.int64).max), weight(-1)).named("to the end"),
    case("Slice", f32(3, 7), weight(0), weight(99), weight(1)).named("beyond"),
    (case("Slice", f32(3, 7), weight(6), weight(0), weight(1), weight(-2)).named("backwards"), RUNTIME),
    case("Slice", f32(3, 7), weight(1), weight(np.iinfo(np.int64).max), weight(1), weight(2)).named("step"),
    case("Slice", f32(3, 7), np.array([1]), np.array([2]), fixed=(0,)).named("computed"),
    case("Slice", f32(3, 7, 4), np.array([-3, 0]), np.array([-1, 9]), weight(1, 2)).named("computed negative"),
    (case("GatherElements", f32(3, 4), i64(2, 4, low=-3, high=3)), RUNTIME),
    (case("GatherElements", f32(3, 4, 2), i64(3, 2, 2, low=0, high=4), axis=1), RUNTIME),
    case("Pad", f32(2, 3), weight(1, 2, 0, 1), weight(np.float32(0.5))),
    case("Pad", f32(2, 3, 4, 4), weight(0, 0, 1, 1, 0, 0, 1, 5)),
    case("Pad", i64(3, 4), weight(1, 3), weight(np.int64(7)), weight(-1)).named("axes"),
    case("Pad", f32(4, 5), weight(-1, 2, 0, -1)).named("negative"),
    case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="edge"),
    (case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="reflect"), RUNTIME),
    (case("Pad", f32(3, 4), weight(1, 2, 0, 3), mode="wrap"), RUNTIME),
    case("Pad", HALF, weight(1, 2, 0, 3)).named("float16"),
]

SCALES = weight(np.array([1, 1, 2, 1.5], np.float32))
CUBIC = {"mode": "cubic", "cubic_coeff_a": -0.5}
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")

RESIZES = [
    *((case("Resize", IMAGE, None, SCALES, coordinate_transformation_mode=c, mode="linear").named(c), RUNTIME)
      for c in COORDINATES),
    (case("Resize", ODD, None, SCALES, coordinate_transformation_mode="half_pixel_symmetric", mode="linear"), RUNTIME),
    *((case("Resize", ODD, None, SCALES, coordinate_transformation_mode="asymmetric", nearest_mode=n).named(n), RUNTIME)
      for n in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")),
    (case("Resize", ODD, None, None, weight(2, 4, 14, 18), **CUBIC).named("cubic"), RUNTIME),
    (case("Resize", ODD, None, None, weight(2, 4, 5, 12), exclude_outside=1, **CUBIC).named("excluded"), RUNTIME),
    (case("Resize", ODD, None, None, weight(10, 11), axes=[2, 3]).named("axes"), RUNTIME),
    case("Resize", ODD, None, weight(np.array([1, 1, 2, 3], np.float32)), nearest_mode="floor",
         coordinate_transformation_mode="asymmetric").named("whole"),
]  # fmt: skip

PATTERNS = [
    case("Trilu", f32(2, 4, 5)),
    case("Trilu", i64(4, 5), weight(np.int64(-1)), upper=0),
    case("EyeLike", i64(4, 5), k=1, dtype=ir.DataType.FLOAT),
    case("OneHot", i64(2, 3, low=-4, high=4), weight(np.int64(4)), weight(np.array([0.5, 2], np.float32))),
    case("OneHot", i64(2, 3, low=-4, high=4), weight(np.int64(4)), weight(0, 1), axis=1),
    case("Hardmax", f32(2, 3, 4), axis=1),
    (case("CumSum", f32(2, 3, 4), weight(np.int64(1))), RUNTIME),
    (case("CumSum", f32(2, 5), weight(np.int64(-1)), exclusive=1, reverse=1), RUNTIME),
    case("TopK", f32(3, 7), weight(3), outputs=2),
    case("TopK", f32(3, 7, 2), weight(2), axis=1, largest=0, outputs=2),
]

LAYER_CASES = [*WINDOWS, *NORMALISATION, *SHAPES, *INDEXING, *RESIZES, *PATTERNS, *ATTENTION]
