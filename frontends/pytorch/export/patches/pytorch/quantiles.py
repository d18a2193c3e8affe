"""Quantiles by sorting, in place of those of PyTorch up to 2.11, which check data for NaN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ....releases import RELEASE


def quantile(
    input: Tensor,
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    skips_nan: bool = False,
) -> Tensor:
    """Return quantiles as `torch.quantile` does; with `skips_nan` as `torch.nanquantile`.

    NaN sorts after all numbers, so the last element shows whether there is one.
    """
    x = input.flatten() if dim is None else input.movedim(dim, -1)
    x = x.sort(-1).values
    parts = q if isinstance(q, Tensor) else torch.full((), q, dtype=x.dtype)
    numbers = (~x.isnan()).sum(-1, keepdim=True) if skips_nan else torch.full_like(x[..., :1], x.shape[-1])
    rank = parts.reshape(-1) * (numbers.to(x.dtype) - 1).clamp(min=0)
    below, above = (x.gather(-1, place.to(torch.int64)) for place in (rank.floor(), rank.ceil()))
    match interpolation:
        case "lower":
            found = below
        case "higher":
            found = above
        case "nearest":
            found = x.gather(-1, rank.round().to(torch.int64))
        case "midpoint":
            found = torch.lerp(below, above, 0.5)
        case _:
            found = torch.lerp(below, above, rank - rank.floor())
    unknown = numbers == 0 if skips_nan else x[..., -1:].isnan()
    found = found.masked_fill(unknown, torch.nan)
    if keepdim:
        ones = (1,) * input.dim()
        found = found.reshape(*ones, -1) if dim is None else found.unsqueeze(dim if dim >= 0 else dim - 1)
    return found.movedim(-1, 0) if parts.dim() else found.squeeze(-1)


nanquantile = partial(quantile, skips_nan=True)

REPLACED: dict[Any, Callable[..., Any]] = {}
if RELEASE < (2, 12):
    REPLACED |= {torch.quantile: quantile, Tensor.quantile: quantile}
    REPLACED |= {torch.nanquantile: nanquantile, Tensor.nanquantile: nanquantile}
