"""Compare indices of equal elements by these elements, because PyTorch may return the index of any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import SampleInput

# Operators that may return the index of any of several equal elements, with the position of `dim` among the arguments
# after the input. A stable sort may not.
OPEN = {"topk": 1, "kthvalue": 1, "sort": 0, "argsort": 0, "median": 0, "nanmedian": 0, "mode": 0}


def settled(entry: str, sample: SampleInput, got: list[np.ndarray], want: list[np.ndarray]) -> list[np.ndarray]:
    """Return `got`, with indices replaced by PyTorch's where they point at equal, distinct elements."""
    place = 0 if entry == "argsort" else 1
    x = sample.input
    if entry not in OPEN or sample.kwargs.get("stable") or not len(got) == len(want) > place or x.dim() == 0:
        return got
    dim = sample.args[OPEN[entry]] if len(sample.args) > OPEN[entry] else sample.kwargs.get("dim", -1)
    found, known = got[place], want[place]
    if found.shape != known.shape or found.dtype != known.dtype:
        return got
    return [*got[:place], known, *got[place + 1 :]] if _same_elements(x, dim, found, known) else got


def _same_elements(x: torch.Tensor, dim: int, found: np.ndarray, known: np.ndarray) -> bool:
    elements = x.detach().to(torch.float64).numpy() if x.is_floating_point() else x.detach().numpy()
    if found.ndim < x.dim():
        found, known = np.expand_dims(found, dim), np.expand_dims(known, dim)
    if found.size == 0 or found.min() < 0 or found.max() >= x.shape[dim]:
        return False
    if (np.diff(np.sort(found, axis=dim), axis=dim) == 0).any():
        return False
    pointed = (np.take_along_axis(elements, index, dim) for index in (found, known))
    return np.array_equal(*pointed, equal_nan=x.is_floating_point())
