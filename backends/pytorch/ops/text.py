"""Text operators of ONNX, as far as words are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from convert.errors import Unsupported

from ..dtypes import tensor_from
from ..rules import onnx_op

_WORDS = onnx_op.limit("TfIdfVectorizer", "words that are text, of which PyTorch has no tensors")


@onnx_op("TfIdfVectorizer")
def tf_idf_vectorizer(
    t, x, *, max_gram_length, max_skip_count, min_gram_length, mode, ngram_counts, ngram_indexes, pool_int64s,
    pool_strings, weights,
):  # fmt: skip
    if pool_strings:
        raise Unsupported(_WORDS)
    rows = (x[None] if x.dim() == 1 else x).to(torch.int64)
    pool, width = np.asarray(pool_int64s, np.int64), max(ngram_indexes) + 1
    total = torch.zeros([rows.shape[0], width])
    first = 0
    for n, (begin, end) in enumerate(zip(ngram_counts, [*ngram_counts[1:], len(pool)], strict=True), 1):
        grams = pool[begin:end].reshape(-1, n)
        columns = np.asarray(ngram_indexes[first : first + len(grams)], np.int64)
        first += len(grams)
        if not len(grams) or not min_gram_length <= n <= max_gram_length:
            continue
        for skip in range(max_skip_count + 1 if n > 1 else 1):
            total = total.index_add(1, tensor_from(columns), _occurrences(rows, grams, skip + 1))
    if mode != "TF":
        total = total if mode == "TFIDF" else (total > 0).to(torch.float32)
        total = total * tensor_from(np.asarray(weights, np.float32)) if weights else total
    return total[0] if x.dim() == 1 else total


def _occurrences(rows: Any, grams: np.ndarray, stride: int) -> Any:
    """Count each n-gram in each row, with its words `stride` apart: [rows, n-grams]."""
    reach, length = (grams.shape[1] - 1) * stride, rows.shape[1]
    if isinstance(length, int) and length <= reach:
        return torch.zeros([rows.shape[0], len(grams)])
    words = set(grams.ravel().tolist())
    stranger = next(word for word in range(len(words) + 1) if word not in words)
    after = torch.full([rows.shape[0], reach], stranger, dtype=torch.int64)
    padded = torch.cat([rows, after], 1)
    found: Any = None
    for k in range(grams.shape[1]):
        part = padded.narrow(1, k * stride, length)
        same = part[..., None] == tensor_from(np.ascontiguousarray(grams[:, k]))
        found = same if found is None else found & same
    return found.to(torch.float32).sum(1)
