"""Control flow in float64 against PyTorch's own, on weights and inputs that are float64 from the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.runner.run import all_in_double
from torch import nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves

from convert.errors import Unsupported

RNG = np.random.default_rng(0)


class Halved(nn.Module):
    """A loop whose body has a constant with the explicit dtype float32."""

    def forward(self, x: torch.Tensor) -> Any:
        half = torch.tensor(0.5, dtype=torch.float32)
        return while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * half + x.mean()), (torch.tensor(0), x))


BODIES: dict[str, Callable[[torch.Tensor], Any]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x.exp(), lambda x: -x, (x,)),
    "the other branch": lambda x: torch.cond(x.sum() > 1e9, lambda x: x.exp(), lambda x: -x, (x,)),
    "while_loop": Halved(),
    "scan": lambda x: scan(lambda c, x: (c + x, (c * x).sin()), x[0], x),
    "map": lambda x: map_rows(lambda row, y: row.cos() + y, x, x[1].clone()),
}


QUICK = ("cond", "while_loop")  # PyTorch compiles the reference, which takes seconds


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in BODIES])
def test_it_is_computed_in_float64(name: str) -> None:
    x = torch.from_numpy(RNG.normal(size=(3, 4)))
    wanted = BODIES[name](x)
    with torch.no_grad(), all_in_double():
        found = BODIES[name](x)
    for got, want in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-14)


def test_what_is_not_known_is_named() -> None:
    from convert.frontends.pytorch.runner.higher_order import run_higher_order

    with pytest.raises(Unsupported, match="flex_attention does not run in float64"):
        run_higher_order("flex_attention", (), {})
