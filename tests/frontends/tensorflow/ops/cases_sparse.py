"""Rows for sparse tensors, resizes by a kernel, and the rest of what TensorFlow 1's models hold."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i64

PICTURE = f32(2, 5, 7, 3)
ROWS = f32(6, 3)
PICKED, SEGMENTS = np.int32([4, 0, 5, 1]), np.int32([0, 0, 2, 2])
INDICES = np.int64([[0, 1], [1, 3], [2, 0]])

RESAMPLE = [
    case("ResizeBicubic", PICTURE, [8, 4], half_pixel_centers=True),
    case("ResizeBicubic", PICTURE, [3, 11]),
    case("ResizeBicubic", PICTURE, [9, 9], align_corners=True),
    case("ResizeArea", PICTURE, [3, 4]),
    case("ResizeArea", PICTURE, [8, 10], align_corners=True),
    *(
        case("ScaleAndTranslate", PICTURE, [4, 9], [0.8, 1.25], [0.1, 0.5], kernel_type=kernel)
        for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
    ),
    case("ScaleAndTranslate", PICTURE, [3, 5], [0.6, 0.7], [0.2, -0.4], kernel_type="triangle", antialias=False),
]

SPARSE = [
    case("SparseSegmentSum", ROWS, PICKED, SEGMENTS),
    case("SparseSegmentMean", ROWS, PICKED, SEGMENTS),
    case("SparseSegmentSqrtN", ROWS, PICKED, SEGMENTS),
    case("SparseSegmentSumWithNumSegments", ROWS, PICKED, SEGMENTS, np.int32(4)),
    case("SparseSegmentMeanWithNumSegments", ROWS, PICKED, SEGMENTS, np.int32(4)),
    case("SparseTensorDenseMatMul", INDICES, f32(3), np.int64([3, 4]), f32(4, 2)),
    case("SparseTensorDenseMatMul", INDICES, f32(3), np.int64([3, 4]), f32(2, 3), adjoint_a=True, adjoint_b=True),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [1]),
    case("SparseReduceSum", INDICES, f32(3), np.int64([3, 4]), [0], keep_dims=True),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, 6])),
    case("SparseReshape", INDICES, np.int64([3, 4]), np.int64([2, -1, 3])),
    case("HistogramFixedWidth", f32(20), np.float32([-1.5, 1.0]), 5),
    case("HistogramFixedWidth", i64(4, 5).astype(np.float32), np.float32([-4.0, 4.0]), 3, dtype="int64"),
    case("CumulativeLogsumexp", f32(2, 4, 3), 1),
    case("CumulativeLogsumexp", f32(2, 4, 3, low=-80, high=80), 1, reverse=True),
    case("CumulativeLogsumexp", f32(2, 4), 1, exclusive=True),
    case("LogMatrixDeterminant", f32(2, 3, 3)),
    case("Dilation2D", PICTURE, f32(2, 3, 3), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"),
    case("Dilation2D", PICTURE, f32(2, 2, 3), strides=[1, 2, 1, 1], rates=[1, 2, 3, 1], padding="VALID"),
]

MISSING = [*RESAMPLE, *SPARSE]
