"""Compare the outputs of a converted operator with PyTorch's, by PyTorch's tolerances or the parity bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

# torch.testing.assert_close's tolerances, relative and absolute.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}
# The bound of the verdict: a few times the source's own rounding error, measured in a wider dtype.
FACTOR = 4


def difference(got: list[np.ndarray], want: list[np.ndarray], drawn: bool, wider: Callable[[], Any]) -> str:
    """Return the difference, or "". `wider` returns the source's results in a wider dtype, or None if there is none."""
    if len(got) != len(want):
        return f"{len(got)} outputs instead of {len(want)}"
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i} is {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
        if drawn or not a.size:
            continue
        kind = _torch_dtype(b.dtype)
        if not kind.is_floating_point:
            if not np.array_equal(a, b):
                return f"output {i}: {np.count_nonzero(a != b)} of {a.size} elements differ"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        rtol, atol = TOLERANCES[kind]
        if np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
            continue
        precise = wider()
        if precise is None or not _as_good(x, y, precise[i].astype(np.float64), kind):
            gap = np.abs(x - y)
            return f"output {i} differs by up to {np.nanmax(gap) if np.isfinite(gap).any() else np.nan:.3g}"
    return ""


def _as_good(x: np.ndarray, y: np.ndarray, precise: np.ndarray, dtype: torch.dtype) -> bool:
    """Return whether x is about as near to the precise numbers as y, which is the verdict's bound.

    If y overflowed before it reached a finite number, x must be as near as rounding allows.
    """
    if x.shape != precise.shape:
        return False
    rounded = torch.from_numpy(precise).to(dtype).double().numpy()
    finite = np.isfinite(rounded)
    beyond = [np.array_equal(x[~finite], v[~finite], equal_nan=True) for v in (y, rounded)]
    if not np.array_equal(np.isfinite(x), finite) or not any(beyond):
        return False
    rounding = torch.finfo(dtype).eps / 2
    scale = np.sqrt(np.mean(precise[finite] ** 2))
    error, own = (np.sqrt(np.mean((v[finite] - precise[finite]) ** 2)) for v in (x, y))
    own = own if np.isfinite(own) else 0.0
    return bool(error <= FACTOR * max(own, 2 * rounding * scale))


def _torch_dtype(dtype: np.dtype) -> torch.dtype:
    return torch.bfloat16 if dtype.name == "bfloat16" else torch.from_numpy(np.zeros(0, dtype)).dtype
