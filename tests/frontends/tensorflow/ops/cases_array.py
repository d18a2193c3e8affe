"""Cases of the TensorFlow frontend: shapes, slices, gathers and tensors put together.

Arrays are inputs; numbers and lists are constants, int32 unless they are floats.
"""

from __future__ import annotations

import numpy as np

from tests.support.cases import boolean, case, f32, i32

SELDOM = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}

ARRAY = [
    case("Const", value=f32(2, 3), dtype="float32"),
    *(case(name, f32(2, 3), out_type=kind).named(kind) for name in ("Shape", "Size") for kind in ("int32", "int64")),
    case("ShapeN", [f32(2, 3), f32(4)]),
    case("Rank", f32(2, 3)),
    case("Reshape", f32(2, 3, 4), [4, -1]),
    case("Reshape", f32(2, 3, 4), np.array([4, 6], np.int32)).named("dynamic"),
    case("Reshape", f32(2, 0, 4), [0, 3]).named("empty"),
    case("ExpandDims", f32(2, 3), -1),
    case("Squeeze", f32(1, 2, 1, 3)),
    case("Squeeze", f32(1, 2, 1, 3), squeeze_dims=[-2]).named("one"),
    case("Transpose", f32(2, 3, 4), [2, 0, 1]),
    case("BroadcastTo", f32(3, 1), [2, 3, 4]),
    case("BroadcastArgs", np.array([2, 1, 3], np.int32), np.array([4, 1], np.int32)),
    case("BroadcastArgs", [2, 1, 3], [4, 1]).named("known"),
    case("Fill", [2, 3], np.float32(1.5)),
    case("Tile", f32(2, 3), [2, 1]),
    case("Range", np.int32(2), np.int32(11), np.int32(3)),
    case("Range", np.float32(0), np.float32(1), np.float32(0.25)).named("float"),
    case("LinSpace", np.float32(1), np.float32(4), 7),
    case("ConcatV2", [f32(2, 3), f32(2, 1)], 1),
    case("Concat", -1, [f32(2, 3), f32(2, 1)]),
    *(case("Pack", [f32(2, 3), f32(2, 3, low=0)], axis=axis) for axis in (0, -1)),
    case("Unpack", f32(2, 3), num=3, axis=1),
    case("Unpack", f32(1, 3), num=1).named("single"),
    case("Split", 1, f32(2, 6), num_split=3),
    case("Split", 1, f32(2, 6), num_split=1).named("single"),
    case("SplitV", f32(2, 6), [1, -1, 2], 1, num_split=3),
    case("ReverseV2", f32(2, 3, 4), [0, -1]),
    case("ReverseSequence", f32(2, 5, 3), np.array([2, 4], np.int32), seq_dim=1, batch_dim=0),
    case("ReverseSequence", f32(5, 3, 2), np.array([2, 4], np.int32), seq_dim=0, batch_dim=2).named("elsewhere"),
    case("Roll", f32(3, 5), [1, -2], [0, 1]),
    case("InvertPermutation", np.array([2, 0, 1, 3], np.int32)),
    case("Slice", f32(4, 5), [1, 0], [2, -1]),
    case("Slice", f32(4, 5), np.array([1, 2], np.int32), np.array([2, -1], np.int32)).named("dynamic"),
    case("Pad", f32(2, 3), [[1, 0], [0, 2]]),
    case("Pad", f32(2, 3), np.array([[1, 0], [0, 2]], np.int32)).named("dynamic"),
    case("PadV2", f32(2, 3), [[1, 0], [0, 2]], np.float32(3.5)),
    *(case("MirrorPad", f32(3, 4), [[2, 1], [0, 2]], mode=mode) for mode in ("REFLECT", "SYMMETRIC")),
    case("Gather", f32(4, 3), np.array([2, 0], np.int32)),
    case("GatherV2", f32(4, 3, 2), np.array([[2, 0]], np.int32), 1),
    case("GatherV2", f32(2, 4, 3), i32(2, 5, low=0, high=4), 1, batch_dims=1).named("batch"),
    case("GatherV2", f32(2, 3, 4, 2), i32(2, 5, 6, low=0, high=4), 2, batch_dims=1).named("batch before axis"),
    case("GatherNd", f32(4, 3), np.array([[2, 0], [3, 1]], np.int32)),
    case("ScatterNd", np.array([[1], [3], [1]], np.int32), f32(3, 2), [4, 2]),
    *(case(name, f32(4, 2), np.array([[1], [3]], np.int32), f32(2, 2, low=0)) for name in
      ["TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin"]),
    *(case("OneHot", np.array([[0, 2], [-1, 5]], np.int32), 4, np.float32(2), np.float32(-1), axis=axis)
      for axis in (-1, 1)),
    case("Where", boolean(3, 4)),
    *(case("MatrixBandPart", f32(2, 4, 5), lower, upper) for lower, upper in ((1, 0), (-1, 1), (0, -1), (4, 5))),
]  # fmt: skip
SLICES = [
    case("StridedSlice", f32(4, 5, 6), [1, 0, 0], [3, 5, -1], [1, 2, 1], **SELDOM),
    case("StridedSlice", f32(4, 5, 6), [-1, 4], [-4, 0], [-1, -2], **SELDOM).named("backwards"),
    case("StridedSlice", f32(4, 5, 6), [2, 0], [0, 0], [1, 1], **SELDOM | {"begin_mask": 2, "end_mask": 3}).named(
        "open"
    ),
    case("StridedSlice", f32(4, 5, 6), [0, 0], [0, 0], [-1, 1], **SELDOM | {"begin_mask": 3, "end_mask": 3}).named(
        "reversed"
    ),
    case("StridedSlice", f32(4, 5, 6), [-1, 1], [0, 3], [1, 1], **SELDOM | {"shrink_axis_mask": 1}).named("shrink"),
    case(
        "StridedSlice",
        f32(4, 5, 6),
        [1, 0, 0, 2],
        [2, 0, 0, 3],
        [1, 1, 1, 1],
        **SELDOM | {"ellipsis_mask": 2, "new_axis_mask": 4, "shrink_axis_mask": 9},
    ).named("ellipsis"),
    case("StridedSlice", f32(4, 5), np.array([1, 0], np.int32), np.array([3, 4], np.int32), [1, 2], **SELDOM).named(
        "dynamic"
    ),
    case(
        "StridedSlice",
        f32(4, 5),
        np.array([-1, 0], np.int32),
        np.array([3, 4], np.int32),
        [1, 2],
        **SELDOM | {"shrink_axis_mask": 1},
    ).named("dynamic shrink"),
]
ARRAYS = [*ARRAY, *SLICES]
