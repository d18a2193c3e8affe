"""Numbers and tables that forward writes: the float64 run computes with them, not with their float32 roundings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from convert.frontends import pytorch as frontend
from convert.frontends.pytorch.runner import runner
from torch import Tensor, nn

from convert.outcome.report import Report
from convert.parity.compare.outputs import FLOAT64_BOUND, float64_error
from convert.parity.inputs.feeds import generate_feeds
from convert.passes.to_float64 import widen_model
from convert.reference import executor
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.pytorch_tools import Calling, read, run

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "a root as scale": lambda x: x * 128**-0.5,
    "a tensor of decimals": lambda x: x + torch.tensor([0.1, 0.7, 1 / 3, 5.0, 2.0, 1.0]),
    "linspace": lambda x: x * torch.linspace(0, 1, 6),
    "arange divided": lambda x: x * (torch.arange(6) / 3),
    "arange of decimals": lambda x: x + torch.arange(0, 0.6, 0.1),
    "logspace": lambda x: x * torch.logspace(0, 1, 6),
    "full": lambda x: x * torch.full((6,), 0.123456789),
    "full of many": lambda x: x * torch.full((3000,), 0.123456789)[:6],
    "a power": lambda x: x.abs() ** 0.3333,
    "a fill": lambda x: x.masked_fill(x > 0, -0.7123),
    "bounds": lambda x: x.clamp(-0.123, 0.777),
    "pooling to uneven windows": lambda x: F.adaptive_avg_pool2d(x[:, None], (5, 4)),
    "an antialiasing filter": lambda x: F.interpolate(x[:, None], (2, 4), mode="bicubic", antialias=True),
    "a spectrum": lambda x: torch.stft(x.flatten(1), 8, 4, window=torch.ones(8), return_complex=True).abs(),
    "selu": F.selu,
    "a slope": lambda x: F.leaky_relu(x, 0.0123),
    "a quantile": lambda x: torch.quantile(x, 0.3, dim=1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_twin_computes_with_the_number_that_was_written(name: str) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return CASES[name](x)

    options = Options(inputs=(parse_input("x:float32[2,5,6]"),))
    source = Source("torch-module-object", model=Net())
    model = frontend.read(source, options, Report("convert"))
    feed = generate_feeds(model, 1)[0].arrays
    (want,) = runner.run(source, [feed], precision="float64", options=options)
    got = executor.run(widen_model(model), feed)
    assert float64_error(want["output"], got["output"]) < FLOAT64_BOUND / 1000


def test_equal_roundings_of_two_numbers_stay_two_constants() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 0.1, x * 0.10000000149011612

    options = Options(inputs=(parse_input("x:float32[2,3]"),))
    source = Source("torch-module-object", model=Net())
    model = frontend.read(source, options, Report("convert"))
    feed = generate_feeds(model, 1)[0].arrays
    (want,) = runner.run(source, [feed], precision="float64", options=options)
    got = executor.run(widen_model(model), feed)
    assert all(float64_error(want[name], got[name]) < FLOAT64_BOUND / 1000 for name in want)


def made_of_numbers(n: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.sin(n / 7),
        n * 0.1,
        torch.full((2,), 0.1) + torch.zeros(2) + torch.ones(2),
        torch.arange(0, 1, 0.1),
        torch.linspace(0, 1, 7),
        torch.where(n > 2, 0.1, 0.7),
        torch.eye(2) / 3,
        (n + 0.1j).abs(),
    )


def test_what_numbers_make_has_the_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        module = Calling(made_of_numbers)
        model, n = read(module, "int64[5]"), torch.arange(1, 6)
        want = module(n)
    finally:
        torch.set_default_dtype(torch.float32)
    for got, wanted in zip(run(model, n), want, strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, wanted, rtol=1e-15, atol=1e-16)
