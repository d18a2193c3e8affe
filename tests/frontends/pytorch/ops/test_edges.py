"""Rules of the PyTorch frontend at the edge: infinities, NaN, limits of integers, no elements.

Rows of what went wrong there; tests/suites/special_values.py feeds such values to every row of the other tables.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, params

ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 3e38], np.float32)
LEFT, RIGHT = np.repeat(ODD, len(ODD)), np.tile(ODD, len(ODD))
EDGES = np.array([-np.inf, -1.0, 0.0, 1.5, np.inf], np.float32)
EMPTY = np.zeros((0, 3), np.float32)


def divisions(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """The limits of a dtype by small numbers; not the least by −1, which the processor refuses."""
    bounds = np.iinfo(dtype)
    pairs = [
        (a, b) for a in (bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, 0, 7) for b in (3, 2, 7, 1, -3, -2)
    ]
    a, b = zip(*(p for p in pairs if bounds.min <= p[1]), strict=True)
    return np.array(a, dtype), np.array(b, dtype)


ROWS = [
    *(case("clamp", ODD, *ends).named(str(ends)) for ends in ((0.0,), (None, 1.0), (-1.0, None), (2.0, 1.0))),
    case("clamp", ODD, np.array(-1.0, np.float32)).named("tensor"),
    case("clamp", ODD, np.array(np.nan, np.float32)).named("tensor of NaN"),
    case("clamp", ODD, None, math.nan).named("NaN"),
    case("clamp_min", ODD, -1.0),
    *(
        case(name, np.array(x, np.float32), 0).named(f"of {x}")
        for name in ("softmax", "log_softmax", "_safe_softmax")
        for x in (math.nan, math.inf, -math.inf, 2.0)
    ),
    case("neg", np.array([0, 1, 200, 255], np.uint8)).named("uint8"),
    *(
        case("pow", np.array([1, 3, 100, 7], dtype), n).named(f"{dtype.__name__} {n}")
        for dtype in (np.uint8, np.int8, np.int16)
        for n in (0, 2, 5)
    ),
    *(
        case(name, np.array([[200, 100, 7], [1, 2, 3]], np.uint8), *dim, dtype=torch.uint8).named("uint8")
        for name, dim in (("sum", ()), ("sum.dim_IntList", ([1],)), ("prod", ()), ("cumsum", (1,)), ("cumprod", (1,)))
    ),
    case("pow", np.array([1, 3, 5, 2], np.int8), np.array([7, 4, 3, 6], np.int8)).named("int8 of each"),
    case("clamp_max", ODD, 1.0),
    *(case(name, LEFT, RIGHT) for name in ("atan2", "hypot", "fmod", "remainder", "logaddexp", "xlogy", "copysign")),
    case("threshold", ODD, 0.5, 7.0),
    case("softshrink", ODD),
    case("sign", ODD),
    case("sgn", ODD),
    *(case("bucketize", ODD, EDGES, right=right).named(str(right)) for right in (False, True)),
    *(case("searchsorted", EDGES, ODD, right=right).named(str(right)) for right in (False, True)),
    *(
        case(name, *divisions(dtype)).named(dtype.__name__)
        for name in ("floor_divide", "fmod", "remainder")
        for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64)
    ),
    case("mean", EMPTY, [0]),
    case("mean", EMPTY),
    case("var", f32(1, 3), [0]),
]


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


def test_the_mean_of_a_dim_that_turns_out_empty_is_nan() -> None:
    import torch

    from tests.support.pytorch_tools import read, run

    class Mean(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(0)

    model = read(Mean(), "x:float32[batch,3]")
    np.testing.assert_array_equal(run(model, EMPTY)[0], np.full(3, np.nan, np.float32))
    x = f32(5, 3)
    np.testing.assert_allclose(run(model, x)[0], x.mean(0), rtol=1e-6)
