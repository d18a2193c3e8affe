"""Cases of the TensorFlow frontend: ragged tensors, sets, words, bits, pictures through projective transforms."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i32, i64

INNER, OUTER = np.array([0, 2, 2, 5, 6], np.int64), np.array([0, 1, 4], np.int64)
"""Rows of 2, 0, 3 and 1 values, and of 1 and 3 of those rows."""
SIX = f32(6)
WORDS = np.array(["a", "b", "c", "d", "e", "ü"], object)
RAGGED = [
    case(
        "RaggedRange",
        np.array([2, 5, 3, 8], np.int32),
        np.array([5, 5, 9, 2], np.int32),
        np.array([1, 1, 4, -2], np.int32),
    ),
    case("RaggedRange", 0, np.array([3, 0, 2], np.int32), 1).named("scalars"),
    case("RaggedRange", f32(3), f32(3, low=2, high=4), np.float32(0.4), Tsplits="int32").named("float"),
    case("RaggedGather", [INNER], SIX, np.array([2, 0, 1, 2], np.int32), OUTPUT_RAGGED_RANK=1),
    case("RaggedGather", [OUTER, INNER], f32(6, 2), np.array([1, 0, 1], np.int64), OUTPUT_RAGGED_RANK=2).named(
        "nested"
    ),
    case("RaggedGather", [INNER], SIX, np.array([[2, 0, 3], [1, 2, 2]], np.int32), OUTPUT_RAGGED_RANK=2).named(
        "matrix"
    ),
    case("RaggedTensorToSparse", [INNER], SIX),
    case("RaggedTensorToSparse", [OUTER, INNER], WORDS).named("nested"),
    case("RaggedTensorToSparse", [INNER], f32(6, 2)).named("matrix").xfail("values with dims of their own"),
    *(
        case("RaggedTensorToTensor", shape, SIX, np.float32(9), [INNER], row_partition_types=["ROW_SPLITS"]).named(
            f"{shape}"
        )
        for shape in (-1, [-1, -1], [4, 5], [3, 2], [-1, 2])
    ),
    case(
        "RaggedTensorToTensor",
        -1,
        f32(6, 2),
        np.float32(9),
        [OUTER, INNER],
        row_partition_types=["ROW_SPLITS", "ROW_SPLITS"],
    ).named("nested"),
    case("RaggedTensorToTensor", -1, WORDS, np.array("-", object), [INNER], row_partition_types=["ROW_SPLITS"]).named(
        "words"
    ),
    case(
        "RaggedTensorToTensor",
        -1,
        SIX,
        np.float32(9),
        [np.int64(4), np.array([0, 0, 2, 2, 2, 3], np.int64)],
        row_partition_types=["FIRST_DIM_SIZE", "VALUE_ROWIDS"],
    ).named("row of each value"),
    case("RaggedTensorToTensor", -1, SIX, np.float32(9), [INNER], row_partition_types=["ROW_LIMITS"])
    .named("limits")
    .xfail("rows that are given as limits"),
]
OPERATIONS = ("a-b", "b-a", "intersection", "union")
SETS = [
    *(case("DenseToDenseSetOperation", i32(3, 5), i32(3, 4), set_operation=o).named(o) for o in OPERATIONS),
    *(
        case("DenseToDenseSetOperation", i64(2, 3, 5), i64(2, 3, 2), set_operation=o).named(f"{o} of rank 3")
        for o in OPERATIONS
    ),
    case("DenseToDenseSetOperation", i32(3, 5).astype(np.int8), i32(3, 4).astype(np.int8), set_operation="union").named(
        "int8"
    ),
    case("DenseToDenseSetOperation", WORDS[None], WORDS[None, :2], set_operation="a-b")
    .named("words")
    .xfail("ONNX cannot sort strings"),
]
RUNS = {"separator": " ", "left_pad": "", "right_pad": "", "pad_width": 0, "preserve_short_sequences": False}
STRINGS = [
    *(
        case("StringNGrams", WORDS, INNER, **(RUNS | {"ngram_widths": widths})).named(f"{widths}")
        for widths in ([1], [2], [1, 2, 3], [3, 1])
    ),
    case("StringNGrams", WORDS, INNER.astype(np.int32), **(RUNS | {"ngram_widths": [2], "separator": ""})).named(
        "close"
    ),
    case("StringNGrams", WORDS, INNER, **(RUNS | {"ngram_widths": [2], "pad_width": -1, "left_pad": "<"}))
    .named("padded")
    .xfail("rows that are padded"),
]
EDGES = np.array(
    [0, -0.0, 1, -1, 1e-45, -1e-45, 1.1754944e-38, 3e38, -3.4028235e38, np.inf, -np.inf, np.nan], np.float32
)
NUMBERS = np.concatenate([EDGES, (f32(20) * np.exp2(np.arange(-140, 120, 13))).astype(np.float32)])
BITS = [
    case("NextAfter", np.repeat(NUMBERS, 3), np.tile(np.array([np.inf, -np.inf, 1], np.float32), len(NUMBERS))),
    case("NextAfter", np.array([1, -1e-310, 0, 5], np.float64), np.array([2, 1, -1, 5], np.float64)).named("float64"),
    case("Bitcast", NUMBERS[np.isfinite(NUMBERS)], type="int32"),
    case("Bitcast", NUMBERS[~np.isnan(NUMBERS)], type="uint8").named("bytes"),
    case("Bitcast", NUMBERS.view(np.int32), type="float32").named("back"),
    case("Bitcast", NUMBERS.view(np.uint8).reshape(-1, 4), type="float32").named("of bytes"),
    case("Bitcast", f32(3, 4).astype(np.float16), type="int16").named("float16"),
    case("Bitcast", i32(3, 4, low=-9, high=9), type="uint32").named("unsigned"),
    case("Bitcast", i64(3, low=-9, high=9) * 3**37, type="int32").named("halves"),
    case("Bitcast", i32(3, 2, low=-9, high=9), type="int64").named("pairs"),
    case("Bitcast", np.array([1.5, 2]), type="int64").named("float64").xfail("the bits of float64"),
]
TURNED = np.array([[0.9, -0.4, 1.2, 0.3, 1.1, -0.7, 0.02, -0.01], [1.4, 0, -3, 0, 0.7, 2.5, 0, 0]], np.float32)
PICTURE = f32(2, 5, 6, 3)
WARPED = [
    *(
        case(
            "ImageProjectiveTransformV3", PICTURE, TURNED, [7, 8], np.float32(0.5), interpolation=how, fill_mode=fill
        ).named(f"{how} {fill}")
        for how in ("NEAREST", "BILINEAR")
        for fill in ("CONSTANT", "NEAREST", "REFLECT", "WRAP")
    ),
    case(
        "ImageProjectiveTransformV3",
        PICTURE,
        TURNED[1:],
        np.array([4, 3], np.int32),
        np.float32(0.5),
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    ).named("one for all"),
    case("ImageProjectiveTransformV2", PICTURE, TURNED, [5, 6], interpolation="BILINEAR"),
    case("ImageProjectiveTransformV2", i32(2, 5, 6, 1).astype(np.uint8), TURNED, [5, 6], interpolation="NEAREST").named(
        "bytes"
    ),
]
ROWS = [*RAGGED, *SETS, *STRINGS, *BITS, *WARPED]
