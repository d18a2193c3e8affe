"""The rules of `backends/tensorflow/ops/text.py` against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.tensorflow.ops.worker import Workers, check, on_both_kernel_sets
from tests.support.cases import Case, case, i64, params


def texts(*shape: int, of: tuple[str, ...]) -> np.ndarray:
    """A tensor of strings."""
    return np.array(of, dtype=object).reshape(shape)


WORDS = texts(2, 2, of=("hello wide  world", " a b", "", "Grüße"))
DAYS = texts(5, of=("Monday", "tuesday", "Wednesday", "monday", "ÄRGER"))
GRAMS = {
    "max_gram_length": 2,
    "min_gram_length": 1,
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}

ROWS = [
    case("StringConcat", WORDS, texts(2, 1, of=("x", "ä"))),
    case("RegexFullMatch", DAYS, pattern="[A-Za-z]*day"),
    case("StringSplit", WORDS, _outputs=2),
    case("StringSplit", WORDS[:1], delimiter=" ", _outputs=2),
    case("StringSplit", WORDS[:1], delimiter="l", maxsplit=1, _outputs=2),
    case("StringNormalizer", DAYS[:4], case_change_action="LOWER", is_case_sensitive=1, stopwords=["Monday"]),
    case("StringNormalizer", DAYS[:4], case_change_action="UPPER", is_case_sensitive=0, stopwords=["MONDAY"]),
    case("StringNormalizer", DAYS[:1], case_change_action="NONE", is_case_sensitive=1, stopwords=["Monday"]),
    *(
        case("TfIdfVectorizer", i64(2, 9, low=2, high=9), mode=mode, max_skip_count=skip, **GRAMS)
        for mode, skip in (("TF", 0), ("TF", 4), ("IDF", 1))
    ),
    case("TfIdfVectorizer", i64(9, low=2, high=9), mode="TFIDF", max_skip_count=1, weights=[0.5] * 7, **GRAMS),
]


@on_both_kernel_sets
@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case, onednn: str, variants: tuple[int, ...], workers: Workers) -> None:
    check(row, workers[onednn], variants)
