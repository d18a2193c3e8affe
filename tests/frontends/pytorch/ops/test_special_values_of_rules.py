"""Rules of the PyTorch frontend on special values: infinities, NaN, limits of integers, no elements.

These rows were wrong once; tests/suites/special_values.py runs every row of the other tables on such values.
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
SIGNED = np.array([-3, -1, -1, -128, -2, -127, -128, 127, -4], np.int8)
WHOLE = np.array([2**60 + 1, -(2**55) - 7, 2**53 + 1, 5, 2**54 + 3, 11, -(2**62), 1, 9, 3, 2**61 + 9, 7]).reshape(
    1, 1, 3, 4
)
SQUARE = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, 1.0], [1.0, 0.0, 1.5]], np.float32)


def divisions(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Return divisions of the limits of a dtype by small numbers; not of the least by −1, which the processor
    refuses.
    """
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
    case("pow", np.array([1, 3, -5, 2, -1, -1, 1, 7, 0], np.int8), SIGNED).named("int8 of negative ones"),
    case("pow", np.array([3, 255, 7], np.uint8), np.array([255, 254, 9], np.uint8)).named("uint8 of large ones"),
    case("pow", np.array([3, -7], np.int16), np.array([32767, 1001], np.int16)).named("int16 of large ones"),
    case("avg_pool2d", WHOLE, [2, 3], [1, 1]).named("int64 beyond 2⁵³"),
    case("linalg_matrix_exp", np.stack([4 * SQUARE, np.full_like(SQUARE, np.inf)])).named("beside an infinite one"),
    *(
        case(name, np.stack([SQUARE, singular, np.zeros_like(SQUARE)])).named("singular")
        for name in ("linalg_inv_ex", "linalg_lu_factor_ex")
        for singular in [np.outer(SQUARE[0], [1, 0, 2]).astype(np.float32)]
    ),
    case("linalg_solve_ex", np.stack([SQUARE, np.zeros_like(SQUARE)]), f32(2, 3, 1)).named("singular"),
    case("linalg_slogdet", np.stack([SQUARE, np.full_like(SQUARE, np.nan)])).named("NaN"),
    case("linalg_multi_dot", [f32(5), f32(5, 2), f32(2, 7), f32(7, 3)]).named("vector and matrices"),
    case("linalg_multi_dot", [f32(2, 3) * np.float32(np.inf), f32(3, 4), f32(4, 2)]).named("order of infinities"),
    case("clamp_max", ODD, 1.0),
    *(case(name, LEFT, RIGHT) for name in ("atan2", "hypot", "fmod", "remainder", "logaddexp", "xlogy", "copysign")),
    case("floor_divide", LEFT, RIGHT),
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
    *(
        case(f"special_{name}_polynomial_{kind}", f32(3, 0), 4)
        for name, kinds in (("chebyshev", "tuvw"), ("hermite", "h"), ("laguerre", "l"), ("legendre", "p"))
        for kind in kinds
    ),
]

WITHOUT_ELEMENTS = [
    case("batch_norm", f32(2, 3, 0), None, None, f32(3), abs(f32(3)), False, 0.1, 1e-5, False),
    case("_native_batch_norm_legit_no_training", f32(0, 3, 2), f32(3), f32(3), f32(3), abs(f32(3)), 0.1, 1e-5),
    case("cholesky", f32(2, 0, 0)),
    case("diagonal", f32(2, 0, 3), 0, -2, -1),
    case("flatten", f32(2, 0, 3), 1),
    case("flatten", f32(0, 2, 3), 1).named("no rows"),
    case("inner", f32(2, 0), f32(3, 0)),
    case("group_norm", f32(0, 4, 3), 2),
    case("index_fill", f32(0, 3), 0, np.zeros(0, np.int64), 1.0),
    case("kron", f32(2, 0), f32(2, 3)),
    case("linalg_pinv", f32(2, 5, 0)),
    case("median", f32(0, 3)),
    case("nanmedian", f32(3, 0)),
    case("adaptive_avg_pool2d", f32(2, 3, 0, 4), [1, 1]),
    case("pixel_shuffle", f32(1, 8, 0, 3), 2),
    case("repeat_interleave.self_int", f32(0, 3), 2, 0),
    case("repeat_interleave.self_int", f32(0, 3), 2, 1).named("behind"),
    case("scaled_dot_product_attention", f32(2, 4, 3, 0), f32(2, 4, 5, 0), f32(2, 4, 5, 0)),
    case("scaled_dot_product_attention", f32(0, 4, 3, 2), f32(0, 4, 5, 2), f32(0, 4, 5, 2)).named("no batch"),
    case("cat", [f32(0, 3), f32(2, 3)]).named("of which one is empty"),
    case("sum.dim_IntList", f32(3, 0), [1]).named("a result with elements"),
]


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.filterwarnings("ignore:torch.cholesky")
@pytest.mark.parametrize("row", params(WITHOUT_ELEMENTS))
def test_what_has_no_elements_agrees_with_pytorch(row: Case) -> None:
    check(row)


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
