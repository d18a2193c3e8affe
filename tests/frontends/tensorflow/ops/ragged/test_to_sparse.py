"""The rules of `frontends/tensorflow/ops/ragged/to_sparse.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, i64, params

WORDS = np.array(["a b  c", "", "  ", "x,y,,z", "dé f"], object)
NO_ROW = np.array([[0, 1], [3, 0], [3, 2]], np.int64)

ROWS = [
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
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
