"""Cases of the TensorFlow frontend: operators of early versions, fused cells, sparse rows, boxes of many classes."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, i64

BOXES = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 2, 1, 3], [0, 2.4, 1, 3.4], [5, 5, 6, 6]], np.float32)
SCORES = np.array([0.9, 0.8, 0.3, 0.7, 0.1], np.float32)
WORDS = np.array(["a b  c", "", "  ", "x,y,,z", "dé f"], object)
PICTURE = f32(2, 4, 6, 3)
UNITS = 3
CELL = [f32(2, UNITS), f32(2, UNITS, low=-1), f32(4 + UNITS, 4 * UNITS)]
PEEPHOLES = [f32(UNITS, low=-1.5), f32(UNITS, low=-1), f32(UNITS, low=-0.5)]
BIAS = f32(4 * UNITS)
STEPS = f32(5, 2, 4)
NO_ROW = np.array([[0, 1], [3, 0], [3, 2]], np.int64)

EARLY = [
    case("InTopK", f32(3, 5), np.array([1, 4, 9], np.int32), k=2),
    case("SpaceToBatch", PICTURE, [[0, 0], [1, 1]], block_size=2),
    case("BatchToSpace", f32(8, 2, 3, 2), [[0, 1], [1, 0]], block_size=2),
    case("Reverse", PICTURE, [False, True, False, True]),
    case("NonMaxSuppression", BOXES, SCORES, 4, iou_threshold=0.3),
    case("TensorScatterSub", f32(4, 2), np.array([[1], [3]], np.int32), f32(2, 2)),
    case("Print", f32(2, 3), [f32(2)], message="x"),
    case("RegexFullMatch", WORDS, "[a-z] b.*"),
]
CELLS = [
    case("LSTMBlockCell", f32(2, 4), *CELL, *PEEPHOLES, BIAS),
    case("LSTMBlockCell", f32(2, 4), *CELL, *PEEPHOLES, BIAS, use_peephole=True, forget_bias=0.5, cell_clip=0.4),
    case("GRUBlockCell", f32(2, 4), CELL[0], f32(7, 6), f32(7, 3), f32(6), f32(3)),
    case("BlockLSTM", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS),
    case("BlockLSTM", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS, use_peephole=True, cell_clip=-1.0),
    case("BlockLSTMV2", np.int64(5), STEPS, *CELL, *PEEPHOLES, BIAS, use_peephole=True),
]
SPARSE_ROWS = [
    case("CTCGreedyDecoder", f32(6, 3, 4), np.array([6, 0, 4], np.int32), merge_repeated=True),
    case("CTCGreedyDecoder", f32(6, 3, 4), np.array([1, 2, 6], np.int32), blank_index=1),
    case("StringSplitV2", WORDS, ""),
    case("StringSplitV2", WORDS, ",", maxsplit=1),
    case("StringSplitV2", WORDS[:2], " ").named("one at a time"),
    case("StringSplitV2", WORDS[1:2], ",").named("nothing"),
    case("StringSplitV2", WORDS, "", maxsplit=1).named("limited").xfail("adds empty parts"),
    case("StringSplit", WORDS, " "),
    case("StringSplit", WORDS, ",", skip_empty=False),
    case("StringSplit", WORDS, " ,").named("either").xfail("several characters"),
    case("SparseFillEmptyRows", NO_ROW, f32(3), np.array([5, 3], np.int64), np.float32(7)),
    case("SparseFillEmptyRows", NO_ROW[[2, 0, 1]], i64(3), np.array([4, 3], np.int64), np.int64(7)).named("any order"),
    case("SparseSegmentSqrtNWithNumSegments", f32(6, 3), np.int32([4, 0, 5, 1]), np.int32([0, 0, 2, 2]), np.int32(4)),
]
CANDIDATES, VOTES = f32(2, 6, 1, 4, low=0, high=1.3), f32(2, 6, 3, low=0, high=1)
CANDIDATES[..., 2:] += CANDIDATES[..., :2]
COMBINED = [
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 2, 9, np.float32(0.2), np.float32(0.3)),
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 2, 4, np.float32(0.5), np.float32(0.4), clip_boxes=False),
    case("CombinedNonMaxSuppression", CANDIDATES, VOTES, 3, 40, np.float32(0.5), np.float32(0.1), pad_per_class=True),
    case(
        "CombinedNonMaxSuppression", np.concatenate([CANDIDATES, CANDIDATES[::-1], 0.9 * CANDIDATES], 2), VOTES, 2, 5,
        np.float32(0.2), np.float32(0.3),
    ).named("boxes of each class"),
]  # fmt: skip
OLD = [*EARLY, *CELLS, *SPARSE_ROWS, *COMBINED]
