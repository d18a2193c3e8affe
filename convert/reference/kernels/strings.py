"""Reference kernels on strings, where ONNX's own leaves out empty ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from convert.reference.table import kernel

Array = Any


@kernel("StringNormalizer")
def string_normalizer(
    count: int, x: Array, *, case_change_action: str, is_case_sensitive: int, locale: str, stopwords: Any
) -> Array:
    """A row of strings without the stop words, in another case; one empty string where none is left (ONNX-10).

    The locale decides on letters beyond ASCII alone, which a runtime may not have.
    """
    words = [w.decode() if isinstance(w, bytes) else str(w) for w in x.ravel()]
    given = [w.decode() if isinstance(w, bytes) else str(w) for w in stopwords or ()]
    left_out = set(given if is_case_sensitive else map(str.lower, given))
    kept = [w for w in words if (w if is_case_sensitive else w.lower()) not in left_out]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    made = np.array([change(w) for w in kept] or [""], dtype=object)
    return made.reshape(1, -1) if x.ndim == 2 else made
