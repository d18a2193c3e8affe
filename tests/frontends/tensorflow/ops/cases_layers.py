"""Cases of the TensorFlow frontend: convolutions, pools, normalisation, products, resizes.

Arrays are inputs; numbers and lists are constants, int32 unless they are floats.
"""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i32

NHWC, NCHW = f32(2, 7, 6, 4), f32(2, 4, 7, 6)
SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}
VALID = {"strides": [1, 1, 1, 1], "padding": "VALID"}
HALVED = {"strides": [1, 2, 2, 1], "padding": "SAME"}
STATISTICS = (f32(4, low=0.5), f32(4), f32(4), f32(4, low=0.2, high=2.0))
EMPTY = np.zeros(0, np.float32)

LAYERS = [
    case("Conv2D", NHWC, f32(3, 3, 4, 5), **SAME),
    case("Conv2D", NHWC, f32(3, 3, 4, 5), **HALVED).named("strides"),
    case("Conv2D", NHWC, f32(2, 4, 4, 5), strides=[1, 3, 2, 1], padding="SAME").named("unequal"),
    case("Conv2D", NHWC, f32(3, 2, 4, 5), strides=[1, 1, 1, 1], padding="SAME", dilations=[1, 2, 3, 1]).named(
        "dilations"
    ),
    case("Conv2D", NHWC, f32(3, 3, 2, 6), **VALID).named("groups"),
    case(
        "Conv2D",
        NHWC,
        f32(3, 3, 4, 5),
        strides=[1, 2, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 2, 0, 3, 0, 0],
    ).named("explicit"),
    case("Conv3D", f32(1, 4, 5, 6, 2), f32(2, 3, 3, 2, 3), strides=[1, 1, 2, 2, 1], padding="SAME"),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 2), **SAME),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 1), **HALVED).named("strides"),
    case("DepthwiseConv2dNative", NHWC, f32(3, 3, 4, 1).tolist(), **VALID).named("constant"),
    case("Conv2DBackpropInput", [2, 7, 6, 3], f32(3, 3, 3, 4), NHWC, **SAME),
    case("Conv2DBackpropInput", [2, 14, 12, 3], f32(3, 3, 3, 4), NHWC, **HALVED).named("strides"),
    case("Conv2DBackpropInput", [2, 13, 12, 3], f32(2, 2, 3, 4), NHWC, **HALVED).named("odd"),
    case("Conv2DBackpropInput", [2, 14, 12, 3], f32(1, 1, 3, 4), NHWC, **HALVED).named("holes"),
    case("Conv2DBackpropInput", np.array([2, 13, 12, 3], np.int32), f32(3, 3, 3, 4), NHWC, **HALVED).named(
        "dynamic size"
    ),
    case("Conv2DBackpropInput", [2, 16, 13, 3], f32(3, 3, 3, 4), NHWC, strides=[1, 2, 2, 1], padding="VALID").named(
        "valid"
    ),
    case(
        "Conv3DBackpropInputV2",
        [1, 4, 6, 6, 2],
        f32(2, 3, 3, 2, 3),
        f32(1, 2, 3, 3, 3),
        strides=[1, 2, 2, 2, 1],
        padding="SAME",
    ),
    *(
        case(name, NHWC, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding=padding).named(padding)
        for name in ("MaxPool", "AvgPool")
        for padding in ("SAME", "VALID")
    ),
    case(
        "MaxPool",
        NHWC,
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0],
    ).named("explicit"),
    case("MaxPoolV2", NHWC, [1, 2, 2, 1], [1, 2, 2, 1], padding="SAME"),
    *(
        case(name, f32(1, 4, 5, 6, 2), ksize=[1, 2, 2, 3, 1], strides=[1, 2, 1, 2, 1], padding="SAME")
        for name in ("MaxPool3D", "AvgPool3D")
    ),
    case("BiasAdd", NHWC, f32(4)),
    case("BiasAdd", NCHW, f32(4), data_format="NCHW").named("nchw"),
    case("BiasAddV1", NHWC, f32(4)),
    *(
        case(name, NHWC, *STATISTICS, is_training=False, epsilon=0.01)
        for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    ),
    case("FusedBatchNormV3", NHWC, *STATISTICS[:2], EMPTY, EMPTY, is_training=True).named("training"),
    case("LRN", f32(1, 2, 2, 9, low=0), depth_radius=2, bias=2.0, alpha=0.3, beta=0.6),
    case("MatMul", f32(2, 3), f32(3, 4)),
    case("MatMul", f32(3, 2), f32(4, 3), transpose_a=True, transpose_b=True).named("transposed"),
    case("BatchMatMul", f32(2, 2, 3), f32(2, 3, 4)),
    *(
        case(name, f32(2, 1, 3, 2), f32(4, 5, 3), adj_x=True, adj_y=True, **more)
        for name, more in (("BatchMatMulV2", {}), ("BatchMatMulV3", {"Tout": "float32"}))
    ),
    case("MatrixDeterminant", f32(2, 3, 3)),
    case("Cross", f32(2, 3), f32(2, 3, low=0)),
    case("Einsum", [f32(2, 3, 4), f32(4, 5)], equation="abc,cd->abd"),
    case("Einsum", [f32(2, 3, 4), f32(2, 3, 4)], equation="...ij,...kj->...ik").named("ellipsis"),
    *(
        case("ResizeBilinear", f32(1, 5, 4, 2), [7, 9], **flags)
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True})
    ),
    case("ResizeBilinear", f32(1, 8, 6, 2), [4, 3], half_pixel_centers=True).named("down"),
    *(
        case("ResizeNearestNeighbor", f32(1, 5, 4, 2), [7, 9], **flags)
        for flags in ({}, {"half_pixel_centers": True}, {"align_corners": True})
    ),
    case("ResizeNearestNeighbor", i32(1, 8, 6, 2), [4, 3], half_pixel_centers=True).named("down"),
    case("SpaceToDepth", f32(2, 4, 6, 3), block_size=2),
    case("DepthToSpace", f32(2, 4, 6, 8), block_size=2),
    case("SpaceToBatchND", f32(2, 4, 6, 3), [2, 3], [[1, 1], [0, 3]]),
    case("BatchToSpaceND", f32(12, 3, 3, 3), [2, 3], [[1, 1], [0, 3]]),
]
