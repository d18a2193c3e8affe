"""Shapes that are inferred without PyTorch's cache are those that it returns."""

from __future__ import annotations

from typing import Any

import torch
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.patch import in_place
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

ROWS = [row for row in TABLE if row.targets and row.targets[0].endswith("_cached_dispatch_impl")]


def results() -> list[Any]:
    """Return the form of several results, some of repeated calls, with a symbolic size and with numbers."""
    dims = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    found: list[Any] = []
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(torch.ones(5, 4), symbolic_context=dims)  # within the mode, all sizes would be static
    assert isinstance(x.shape[0], torch.SymInt)
    with mode:
        weight = mode.from_tensor(torch.ones(4, 6), static_shapes=True)
        for _ in range(2):
            y = x @ weight
            values = (y, y.t(), y[:, 1:3], y.sum(), y.unsqueeze(0).expand(3, -1, -1), y.long(), x.add_(1), x[0], x * 2)
            same = [value is x for value in values]
            found.append([(str(v.shape), str(v.stride()), v.storage_offset(), v.dtype, v._is_view()) for v in values])
            found.append((same, y.t().untyped_storage()._cdata == y.untyped_storage()._cdata))
    return found


def test_results_are_those_of_the_cache() -> None:
    FakeTensorMode.cache_clear()
    expected = results()
    assert FakeTensorMode.cache_info().hits
    FakeTensorMode.cache_clear()
    with in_place(ROWS):
        assert results() == expected
    assert FakeTensorMode.cache_info().size == 0
