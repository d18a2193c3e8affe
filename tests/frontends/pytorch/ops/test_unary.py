"""The rules of `frontends/pytorch/ops/unary.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, boolean, case, f32, f64, i64, params

P = np.abs(f32(2, 3)) + 0.1
UNIT = f32(2, 3, low=-0.9, high=0.9)
ODD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], dtype=np.float32)
SCALAR = np.array(1.5, dtype=np.float32)
FLOATS = np.array([0.0, 1.0, -1.0, 0.75, -3.5, 1e-30, 3e38, np.inf, np.nan], np.float32)

ROWS = [
    *(
        case(name, f32(2, 3))
        for name in (
            "exp",
            "sin",
            "cos",
            "tan",
            "atan",
            "arctan",
            "sinh",
            "cosh",
            "asinh",
            "arcsinh",
            "tanh",
            "erf",
            "special_erf",
            "sigmoid",
            "special_expit",
            "ceil",
            "floor",
            "abs",
            "absolute",
            "neg",
            "negative",
            "sign",
            "sgn",
            "positive",
            "clone",
            "alias",
            "detach",
            "contiguous",
            "lift_fresh",
            "lift_fresh_copy",
            "alias_copy",
            "detach_copy",
            "resolve_conj",
            "resolve_neg",
            "lift",
            "round",
            "trunc",
            "fix",
            "frac",
            "square",
            "exp2",
            "special_exp2",
            "expm1",
            "special_expm1",
            "erfc",
            "special_erfc",
            "sinc",
            "special_sinc",
            "deg2rad",
            "rad2deg",
            "isnan",
            "isinf",
            "isfinite",
            "isposinf",
            "isneginf",
            "signbit",
            "nan_to_num",
        )
    ),
    *(case(name, P) for name in ("log", "sqrt", "rsqrt", "reciprocal", "log2", "log10", "log1p", "special_log1p")),
    *(case(name, UNIT) for name in ("asin", "arcsin", "acos", "arccos", "atanh", "arctanh")),
    *(case(name, P + 1) for name in ("acosh", "arccosh")),
    *(
        case(name, i64(2, 3)).named("int")
        for name in (
            "exp",
            "sin",
            "tanh",
            "sigmoid",
            "ceil",
            "floor",
            "round",
            "trunc",
            "abs",
            "neg",
            "sign",
            "isnan",
            "isfinite",
            "isinf",
            "square",
            "nan_to_num",
            "signbit",
            "exp2",
            "expm1",
            "erfc",
            "isposinf",
            "deg2rad",
        )
    ),
    *(case("erfc", np.array([4, 4.5, 5], kind)).named(f"far out, {kind}") for kind in ("float32", "float64")),
    *(case(name, boolean(2, 3)).named("bool") for name in ("sign", "signbit", "exp", "square")),
    *(
        case(name, ODD).named("odd")
        for name in (
            "isnan",
            "isinf",
            "isfinite",
            "isposinf",
            "isneginf",
            "nan_to_num",
            "ceil",
            "abs",
            "signbit",
            "expm1",
            "exp",
            "square",
        )
    ),
    case("expm1", f32(2, 3) * 1e-4).named("small"),
    case("log1p", f32(2, 3) * 1e-4).named("small"),
    case("round.decimals", f32(2, 3) * 100, decimals=1),
    case("round.decimals", f32(2, 3) * 100, decimals=-1).named("tens"),
    case("nan_to_num", ODD, 1.0, 2.0, 3.0).named("given"),
    case("logit", UNIT / 2 + 0.5),
    case("logit", UNIT / 2 + 0.5, 0.2).named("eps"),
    case("special_logit", UNIT / 2 + 0.5),
    case("exp", f64(2, 3)).named("double"),
    case("sin", SCALAR).named("scalar"),
    *(case(name, f32(2, 3)) for name in ("real", "_conj_physical", "conj", "conj_physical", "angle")),
    case("frexp", FLOATS),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
