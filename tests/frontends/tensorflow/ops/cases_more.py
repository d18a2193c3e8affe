"""Cases of the TensorFlow frontend: segments, diagonals, pictures, Fourier transforms, strings.

Arrays are inputs; numbers and lists are constants, int32 unless they are floats.
"""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i32, i64

IDS = np.array([0, 0, 2, 3, 3], np.int32)
MIXED = np.array([3, -1, 0, 3, 1], np.int32)
BOXES = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 2, 1, 3], [0, 2.4, 1, 3.4], [5, 5, 6, 6]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3, 0.7, 0.1], np.float32)
EMPTY = np.zeros(0, np.float32)
CUTS = np.array([[0, 0, 1, 1], [0.13, 0.21, 0.77, 0.63], [-0.3, 0.9, 0.52, 0.11]], np.float32)
VALUE = {"extrapolation_value": 0.5}
PATCHES = {"ksizes": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1]}
WORDS = np.array([["Hello", "ÄRGER"], ["", "x y"]], object)

SEGMENTS = [
    *(case(f"Segment{kind}", f32(5, 3), IDS) for kind in ("Sum", "Prod", "Max", "Min", "Mean")),
    *(case(f"UnsortedSegment{kind}", f32(5, 3), MIXED, 5) for kind in ("Sum", "Prod", "Max", "Min")),
    case("UnsortedSegmentSum", i32(2, 3, 2), np.array([[0, 2, -1], [2, 2, 1]], np.int32), 4).named("rank 2"),
    case("SegmentMax", i32(5, 2), IDS).named("int32"),
    case("Bincount", np.array([1, 3, 3, 9], np.int32), 5, f32(4)),
    case("Bincount", np.array([1, 3, 3, 9], np.int32), 5, EMPTY).named("unweighted"),
    case("DenseBincount", i32(2, 6, low=0, high=5), 4, f32(2, 6), binary_output=False),
    case("DenseBincount", i64(2, 6, low=0, high=5), np.int64(4), EMPTY, binary_output=True).named("binary"),
    *(case(name, np.array([5, 1, 5, 2, 1, 7], np.int32)) for name in ("Unique", "UniqueWithCounts")),
    case("UniqueV2", np.array([5, 1, 5, 2, 1, 7], np.float32), [0], out_idx="int64"),
    case("ListDiff", np.array([5, 1, 5, 2, 1, 7], np.int32), np.array([1, 7], np.int32)),
    case("DynamicPartition", f32(5, 2), np.array([1, 0, 2, 1, 0], np.int32), num_partitions=3),
    case("DynamicPartition", f32(2, 3), np.array([[1, 0, 2], [1, 0, 1]], np.int32), num_partitions=3).named("rank 2"),
    *(
        case(name, [np.array([0, 3], np.int32), np.array([[1, 2], [3, 4]], np.int32)], [f32(2, 3), f32(2, 2, 3)])
        for name in ("DynamicStitch", "ParallelDynamicStitch")
    ),
    case("Bucketize", f32(2, 5), boundaries=[-1.0, 0.0, 0.5]),
    *(
        case(name, np.array([[0, 1, 1, 4]], np.float32), np.array([[1, -1, 5]], np.float32))
        for name in ("LowerBound", "UpperBound")
    ),
    case("SparseToDense", [[0, 1], [2, 0]], [3, 2], f32(2), np.float32(-1)),
    case("SparseToDense", [1, 3], [5], np.float32(2), np.float32(0)).named("scalar"),
]
DIAGONALS = [
    case("MatrixDiagPart", f32(2, 3, 4)),
    case("MatrixDiagPartV2", f32(2, 3, 4), [-1, 1], np.float32(9)),
    *(
        case("MatrixDiagPartV3", f32(2, 4, 5), k, np.float32(9), align=align).named(f"{k} {align}")
        for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
        for k in ([0], [1], [-2, 3], [-3, -1])
    ),
    case("MatrixDiag", f32(2, 3)),
    case("MatrixDiagV2", f32(2, 3), 1, -1, -1, np.float32(9)),
    *(
        case("MatrixDiagV3", f32(2, 3, 4), [-1, 1], 4, rows, np.float32(9), align=align).named(f"{rows} {align}")
        for align in ("RIGHT_LEFT", "LEFT_RIGHT")
        for rows in (4, 5)
    ),
    case("MatrixSetDiag", f32(2, 3, 4), f32(2, 3)),
    case("MatrixSetDiagV2", f32(2, 3, 4), f32(2, 2, 3), [0, 1]),
    case("MatrixSetDiagV3", f32(2, 3, 4), f32(2, 3, 3), [-1, 1], align="RIGHT_LEFT"),
]
PICTURES = [
    *(case("ExtractImagePatches", f32(2, 7, 6, 3), padding=padding, **PATCHES) for padding in ("SAME", "VALID")),
    *(
        case(
            "MaxPoolWithArgmax", f32(2, 5, 6, 3), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME",
            Targmax="int64", include_batch_in_index=whole,
        ).named(f"{whole}")
        for whole in (False, True)
    ),
    case("NonMaxSuppressionV2", BOXES, SCORES, 4, np.float32(0.5)),
    case("NonMaxSuppressionV3", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2)),
    *(
        case("NonMaxSuppressionV4", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), pad_to_max_output_size=pad)
        for pad in (False, True)
    ),
    case("NonMaxSuppressionV5", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), 0.0),
    case("NonMaxSuppressionV5", BOXES, SCORES, 4, np.float32(0.5), np.float32(0.2), 0.3).named("soft").xfail(
        "lowers scores"
    ),
    *(
        case("CropAndResize", f32(2, 7, 6, 3), CUTS, np.array([0, 1, 1], np.int32), size, method=method, **VALUE).named(
            f"{method} {size}"
        )
        for method in ("bilinear", "nearest")
        for size in ([4, 3], [1, 2])
    ),
    case("AdjustSaturation", f32(2, 4, 5, 3, low=0.0, high=1.0), np.float32(0.6)),
    case("AdjustHue", f32(2, 4, 5, 3, low=0.0, high=1.0), np.float32(-0.3)),
    case("AdjustContrastv2", f32(2, 4, 5, 3), np.float32(1.7)),
    case("RGBToHSV", f32(2, 4, 5, 3, low=0.0, high=1.0)),
    case("HSVToRGB", f32(2, 4, 5, 3, low=0.0, high=1.0)),
]  # fmt: skip
COMPLEX = [
    *(case(name, f32(2, 3)) for name in ("Real", "Imag", "Angle", "ComplexAbs", "Conj", "FFT", "IFFT")),
    case("Complex", f32(2, 3), f32(2, 3, low=0)),
    case("FFT2D", f32(2, 3, 4)),
    case("IFFT2D", f32(2, 3, 4)),
    case("RFFT", f32(2, 8), [8]),
    case("RFFT", f32(2, 10), [7]).named("cropped"),
    case("RFFT2D", f32(2, 6, 8), [4, 8]),
    *(case("IRFFT", f32(2, 5), [n]).named(f"{n}") for n in (8, 9, 6)),
    *(case("IRFFT2D", f32(2, 6, 5), [*n]).named(f"{n}") for n in ((6, 8), (4, 7))),
    *(
        case("BroadcastGradientArgs", np.array(a, np.int32), np.array(b, np.int32)).named(f"{a} {b}")
        for a, b in (([2, 3, 1], [3, 1]), ([3, 1], [3, 1]), ([1, 1], [1]), ([2, 1, 4], [1, 3, 1]))
    ),
    case("TensorStridedSliceUpdate", f32(3, 4), [0, 1], [2, 4], [1, 2], f32(2, 2)),
    case("TensorStridedSliceUpdate", f32(3, 4), [1, 0], [2, 0], [1, 1], f32(4), end_mask=2, shrink_axis_mask=1).named(
        "row"
    ),
]
"""Their complex inputs are made of, and their complex outputs taken apart into, real tensors by the runner."""
GRADIENTS = [
    *(case(name, f32(2, 3), f32(2, 3, low=-1)) for name in ("ReluGrad", "TanhGrad", "SigmoidGrad", "SoftplusGrad")),
    case("BiasAddGrad", f32(2, 3, 4)),
    case("SoftmaxCrossEntropyWithLogits", f32(3, 4), f32(3, 4, low=0.0, high=1.0)),
    case("SparseSoftmaxCrossEntropyWithLogits", f32(3, 4), np.array([1, 0, 3], np.int32)),
]
STRINGS = [
    case("StringLower", WORDS),
    case("StringUpper", WORDS),
    case("StringUpper", WORDS, encoding="utf-8").named("utf-8").xfail("takes a locale of the machine"),
    case("StaticRegexFullMatch", WORDS, pattern="H.*|x y"),
    case("StringJoin", [WORDS, WORDS], separator="-"),
    case("AsString", i32(3)),
    case("AsString", f32(3)).named("float").xfail("another format"),
    case("StringToNumber", np.array(["1.5", "-2e3", "7"], object)),
]
MORE = [*SEGMENTS, *DIAGONALS, *PICTURES, *COMPLEX, *GRADIENTS, *STRINGS]
