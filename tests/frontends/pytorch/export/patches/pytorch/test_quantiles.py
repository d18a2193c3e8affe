"""The quantiles that replace PyTorch's are the same numbers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from convert.frontends.pytorch.export.patches.pytorch.quantiles import nanquantile, quantile

torch.manual_seed(0)
X = torch.randn(3, 4, 5)
WITH_NAN = X.masked_fill(torch.rand(3, 4, 5) < 0.2, torch.nan)
WITH_NAN[0, :, 0] = torch.nan
# No rank is an integer up to rounding: since 2.14, PyTorch computes 0.3 of 40 in float64, so "higher" takes the 13th.
PARTS: list[Any] = [0.0, 0.31, 1.0, torch.tensor(0.25), torch.tensor([0.11, 0.5, 0.77])]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
def test_quantiles_are_those_of_pytorch(interpolation: str, dim: int | None, keepdim: bool) -> None:
    for x, part in itertools.product((X, WITH_NAN, X.double()), PARTS):
        q = part.to(x.dtype) if isinstance(part, torch.Tensor) else part
        given = (x, q, dim, keepdim)
        for ours, theirs in ((quantile, torch.quantile), (nanquantile, torch.nanquantile)):
            want = theirs(*given, interpolation=interpolation)
            got = ours(*given, interpolation=interpolation)
            assert got.shape == want.shape
            torch.testing.assert_close(got, want, equal_nan=True)
