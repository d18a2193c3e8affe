"""The rules of `frontends/pytorch/ops/random.py` against PyTorch: numbers of the same distribution."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

import convert
from tests.frontends.pytorch.ops.support import expected, lowered, run
from tests.support.cases import Case, case, params

WEIGHTS = np.tile(np.array([0.0, 1.0, 3.0], np.float32), (2000, 1))
BASE = np.zeros(4000, np.float32)

ROWS = [
    case("rand", [4000]),
    case("randn", [4000]),
    case("rand_like", BASE),
    case("randn_like", BASE),
    case("randint", 9, [4000]),
    case("randint.low", 3, 6, [4000]),
    case("randint_like", BASE, 9),
    case("randint_like.low_dtype", BASE, 3, 6),
    case("randperm", 99),
    case("bernoulli", BASE + 0.25),
    case("bernoulli.p", BASE, 0.25),
    case("bernoulli.Tensor", BASE, BASE + 0.25),
    case("uniform", BASE, 2.0, 4.0),
    case("normal_functional", BASE, 2.0, 3.0),
    case("normal.Tensor_float", BASE + 2, 3.0),
    case("normal.Tensor_Tensor", BASE + 2, BASE + 3),
    case("normal.float_Tensor", 2.0, BASE + 3),
    case("normal.float_float", 2.0, 3.0, [4000]),
    case("log_normal", BASE, 0.0, 0.25),
    case("exponential", BASE, 2.0),
    case("geometric", BASE, 0.5),
    case("multinomial", WEIGHTS, 1),
    case("multinomial", WEIGHTS, 2, True).named("again"),
    case("cauchy", BASE),
]


def distance(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return the Kolmogorov-Smirnov distance of two samples, and a bound that equal distributions exceed with p = 1e-9.

    The bound is sqrt(ln(2 / p) / 2 * (n + m) / (n * m)). It is valid for every distribution, even without a mean, and
    is conservative for discrete ones.
    """
    a, b = np.sort(a, axis=None), np.sort(b, axis=None)
    everything = np.concatenate([a, b])
    below = (np.searchsorted(x, everything, side="right") / x.size for x in (a, b))
    largest = float(np.abs(next(below) - next(below)).max())
    return largest, float(np.sqrt(np.log(2e9) / 2 * (a.size + b.size) / (a.size * b.size)))


@pytest.mark.parametrize("row", params(ROWS))
def test_numbers_are_drawn_from_the_distribution(row: Case) -> None:
    (want,) = expected(row)
    (got,) = run(lowered(row)[0], row)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert np.unique(got).size > 1
    largest, bound = distance(got, want)
    assert largest < bound


def test_another_distribution_is_told_apart() -> None:
    """The distance detects a scale, a shift and a tail that the tests above must not accept."""
    drawn = np.random.default_rng(0)
    for a, b in (
        (drawn.normal(size=4000), drawn.normal(size=4000) * 1.3),
        (drawn.random(4000), drawn.random(4000) + 0.1),
        (drawn.normal(size=4000), drawn.standard_cauchy(4000)),
    ):
        largest, bound = distance(a, b)
        assert largest > bound


class Below(torch.nn.Module):
    """Return random integers between two sizes of the input, which makes the sizes part of the graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.randint(1, x.shape[0] + 2, (2000,)) + 0 * x.sum().long()


def test_whole_numbers_are_drawn_between_bounds_that_are_computed() -> None:
    model = convert.to_onnx(Below(), "x:float32[n]", verify=False)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for n in (2, 3, 7):
        (got,) = session.run(None, {"x": np.zeros(n, np.float32)})
        assert got.dtype == np.int64
        np.testing.assert_array_equal(np.unique(got), np.arange(1, n + 2))
