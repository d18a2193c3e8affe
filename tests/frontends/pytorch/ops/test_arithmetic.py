"""The rules of `frontends/pytorch/ops/arithmetic.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, boolean, case, f32, i32, i64, params

P = np.abs(f32(2, 3)) + 0.1
ODD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], dtype=np.float32)
TWO = np.array(2)
SEVEN = np.array(7)
FLOATS = np.array([0.0, 1.0, -1.0, 0.75, -3.5, 1e-30, 3e38, np.inf, np.nan], np.float32)

ROWS = [
    *(
        case(name, f32(2, 3), f32(3, low=-3.0))
        for name in (
            "add",
            "sub",
            "subtract",
            "mul",
            "multiply",
            "div",
            "divide",
            "true_divide",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "max.other",
            "min.other",
            "atan2",
            "arctan2",
            "hypot",
            "logaddexp",
            "logaddexp2",
            "copysign",
            "remainder",
            "fmod",
            "floor_divide",
            "rsub",
        )
    ),
    *(
        case(name, i64(2, 3), i64(3, low=1)).named("int")
        for name in (
            "add",
            "sub",
            "subtract",
            "mul",
            "multiply",
            "div",
            "divide",
            "true_divide",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "max.other",
            "min.other",
            "atan2",
            "arctan2",
            "copysign",
            "remainder",
            "fmod",
            "floor_divide",
            "rsub",
        )
    ),
    *(
        case(name, i64(2, 3), f32(3)).named("mixed")
        for name in ("add", "sub", "mul", "div", "maximum", "atan2", "copysign", "remainder", "floor_divide")
    ),
    *(case(name, boolean(2, 3), boolean(3)).named("bool") for name in ("add", "mul", "maximum", "minimum", "div")),
    *(
        case(name, f32(2, 3), 2).named("number")
        for name in ("add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "rsub")
    ),
    *(case(name, i64(2, 3), 2.5).named("widening number") for name in ("add", "sub", "mul", "div", "remainder")),
    *(case(name, i32(2, 3), np.array(3)).named("0-d") for name in ("add", "mul", "floor_divide")),
    *(case(name, f32(2, 3), np.array(2.5)).named("0-d double") for name in ("add", "mul", "div")),
    case("add", f32(2, 3), f32(2, 3), alpha=2).named("alpha"),
    case("sub", f32(2, 3), f32(2, 3), alpha=0.5).named("alpha"),
    case("rsub", f32(2, 3), f32(3), alpha=2).named("alpha"),
    case("div", f32(2, 3), f32(3, low=0.5), rounding_mode="floor").named("floor"),
    case("div", f32(2, 3), f32(3, low=0.5), rounding_mode="trunc").named("trunc"),
    case("div", i64(2, 3), i64(3, low=1), rounding_mode="trunc").named("int trunc"),
    case("div", i64(2, 3), i64(3, low=-4, high=0), rounding_mode="floor").named("int floor"),
    case("floor_divide", f32(2, 3), np.array([0.0, -0.5, 0.3], dtype=np.float32)).named("by zero"),
    case("remainder", i64(2, 3), i64(3, low=-4, high=0)).named("negative"),
    case("fmod", i64(2, 3), i64(3, low=-4, high=0)).named("negative"),
    case(
        "atan2",
        np.array([0.0, -0.0, 1.0, -1.0, 0.0, -0.0, 2.0], dtype=np.float32),
        np.array([0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -3.0], dtype=np.float32),
    ).named("axes"),
    case("fmax", ODD, np.zeros(7, np.float32)).named("odd"),
    case("fmin", ODD, np.zeros(7, np.float32)).named("odd"),
    case("pow", P, f32(3)),
    case("pow", f32(2, 3), 2).named("square"),
    case("pow", i64(2, 3), 2).named("int"),
    case("pow", 2, f32(3)).named("base"),
    case("float_power", P, 2),
    case("xlogy", f32(2, 3), P),
    case("special_xlogy", f32(2, 3), P),
    case("xlogy", np.array([0.0, 0.0, 1.0], np.float32), np.array([0.0, np.nan, 0.5], np.float32)).named("zero"),
    case("heaviside", np.array([-1.0, 0.0, 2.0], np.float32), np.full(3, 0.5, np.float32)),
    case("floordiv", SEVEN, TWO),
    case("sym_max", SEVEN, 9),
    case("sym_min", SEVEN, 9),
    case("clamp", f32(2, 3), -1, 0.5),
    case("clamp", f32(2, 3), None, 0.5).named("above"),
    case("clamp", f32(2, 3), f32(3, high=0.0), f32(2, 1, low=0.0)).named("tensors"),
    case("clamp", i64(2, 3), 0.5, 2.5).named("widening"),
    case("clip", f32(2, 3), -1, 0.5),
    case("clamp", i64(2, 3), -1, 2).named("int"),
    case("clamp_min", f32(2, 3), 0.5),
    case("clamp_max", f32(2, 3), 0.5),
    case("addcmul", f32(2, 3), f32(3), f32(2, 1)),
    case("addcmul", f32(2, 3), f32(3), f32(2, 1), value=0.5).named("value"),
    case("addcmul", f32(2, 3), i64(3), i64(2, 1), value=0.5).named("products of integers"),
    case("addcdiv", f32(2, 3), f32(3), P, value=2),
    case("addcdiv", f32(2, 3), i64(3), P, value=0.5).named("quotients of integers"),
    case("lerp", f32(2, 3), f32(2, 3, low=0.0), 0.3),
    case("lerp", f32(2, 3), f32(2, 3, low=0.0), f32(2, 3, low=0.0, high=1.0)).named("tensor"),
    case("nextafter", FLOATS[:, None], FLOATS),
    *(case(name, boolean(3, 4), boolean(4)).named("bool") for name in ("fmax", "fmin", "heaviside")),
    case("clamp_min.Tensor", boolean(3, 4), boolean(4)).named("bool"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
