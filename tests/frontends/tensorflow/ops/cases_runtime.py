"""Cases of the TensorFlow frontend: steps, shifts, counts and axes that only the run tells, and integers."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i32

MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
SIGNED = np.array([-9, -8, -1, 0, 7, 1 << 30], np.int32)
BY = np.array([1, 3, 2, 5, 1, 3], np.int32)
WHOLE = np.array([[-7, 2, 0], [100, 100, 101], [-1, -1, 0]])
BYTES = np.random.default_rng(0).integers(-128, 128, (5, 9)).astype(np.int8)

RUNTIME = [
    *(
        case("StridedSlice", f32(3, 7), [0, 0], [3, 7], np.array([1, step], np.int32), **MASKS | {
            "begin_mask": 3, "end_mask": 3}).named(f"every {step}")
        for step in (2, -3)
    ),
    case("Roll", f32(3, 5), np.int32(-7), 1).named("by data"),
    case("Roll", f32(3, 5), np.array([1, 8], np.int32), [0, -1]).named("by data, two axes"),
    *(
        case("MatrixBandPart", f32(2, 4, 5), np.int32(low), np.int32(high)).named(f"by data, {low} {high}")
        for low, high in ((1, 0), (-1, 2), (2, -1))
    ),
    case("MatrixDiag", f32(4)).named("of one vector"),
    *(case("MatrixDiagV3", f32(4), k, -1, -1, np.float32(9), align="RIGHT_LEFT").named(f"of one vector, {k}")
      for k in (-2, 0, 1)),
    case("MatrixDiagV3", f32(3), 1, np.int32(5), np.int32(4), np.float32(9), align="RIGHT_LEFT").named("size by data"),
    *(case("MatrixDiagPartV3", f32(5, 4), k, np.float32(9), align="RIGHT_LEFT").named(f"of one matrix, {k}")
      for k in (-2, 0, 1)),
    *(case("MatrixSetDiagV3", f32(5, 4), f32(n), k, align="RIGHT_LEFT").named(f"of one matrix, {k}")
      for k, n in ((-2, 3), (0, 4), (1, 3))),
    case("LeftShift", SIGNED, BY),
    case("RightShift", SIGNED, BY),
    *(case("Mean", WHOLE.astype(kind), [1], keep_dims=False).named(np.dtype(kind).name)
      for kind in (np.int32, np.int64, np.int8, np.uint8, np.int16)),
    case("Sum", i32(2, 3, 4), np.int32(1), keep_dims=False).named("axis by data"),
    case("Max", f32(2, 3, 4), np.array([0, 2], np.int32), keep_dims=True).named("axes by data"),
    case("Sum", WHOLE.astype(np.int8), [1], keep_dims=False).named("int8, which runs over"),
    case("Einsum", [f32(2, 4, 3), f32(3, 5)], equation="...ij,...jk->...ik").named("an ellipsis of two ranks"),
    case("BatchMatMulV3", BYTES, BYTES, Tout="int32", adj_x=False, adj_y=True).named("signed bytes"),
    case("Add", np.array(["a", "b"], object), np.array(["x", ""], object)).named("strings"),
]  # fmt: skip
