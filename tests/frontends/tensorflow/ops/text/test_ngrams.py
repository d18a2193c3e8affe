"""The rules of `frontends/tensorflow/ops/text/ngrams.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, params

INNER = np.array([0, 2, 2, 5, 6], np.int64)
"""Rows of 2, 0, 3 and 1 values, and of 1 and 3 of those rows."""
WORDS = np.array(["a", "b", "c", "d", "e", "ü"], object)
TEXTS = np.array([["a", "", "c"], ["d e", "f", "ü"]], object)
RUNS = {"separator": " ", "left_pad": "", "right_pad": "", "pad_width": 0, "preserve_short_sequences": False}

ROWS = [
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
    *(
        case("ReduceJoin", TEXTS, axes, keep_dims=keep, separator=text).named(f"{axes} {keep} {text!r}")
        for axes, keep, text in ((1, False, ", "), ([0, 1], True, ""), ([1, 0], True, "-"), ([], False, "-"))
    ),
    case("ReduceJoin", TEXTS[:, :0], 1, separator="-").named("nothing"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
