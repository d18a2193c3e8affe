"""The rules of `frontends/pytorch/ops/reduce.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, boolean, case, f32, i64, params

SCALAR = np.array(1.5, dtype=np.float32)

BYTES = np.array([[3, 0], [255, 1]], np.uint8)

ROWS = [
    *(
        case(name, f32(2, 3, 4))
        for name in (
            "sum",
            "nansum",
            "prod",
            "mean",
            "amax",
            "amin",
            "max",
            "min",
            "all",
            "any",
            "count_nonzero",
            "argmax",
            "argmin",
            "linalg_vector_norm",
            "aminmax",
        )
    ),
    *(case(name, i64(2, 3)).named("int") for name in ("sum", "prod", "max", "min", "all", "any", "argmax", "amax")),
    *(case(name, boolean(2, 3)).named("bool") for name in ("sum", "amax", "max", "all", "any", "count_nonzero")),
    *(
        case(name, f32(2, 3, 4), [0, -1]).named("dims")
        for name in ("mean", "sum", "amax", "amin", "var", "std", "logsumexp")
    ),
    *(case(name, f32(2, 3, 4), [1], True).named("keep") for name in ("mean", "sum", "amax", "logsumexp")),
    *(case(name, f32(2, 3, 4), 1) for name in ("max.dim", "min.dim")),
    *(
        case(name, f32(2, 3, 4), 1, True).named("keep")
        for name in ("max.dim", "min.dim", "argmax", "argmin", "prod.dim_int")
    ),
    case("prod.dim_int", f32(2, 3), 1),
    case("sum", f32(2, 3), dtype=torch.float64).named("dtype"),
    case("sum", SCALAR).named("scalar"),
    case("mean", i64(2, 3), dtype=torch.float32).named("dtype"),
    case("argmax", f32(2, 3), None, True).named("all kept"),
    case("all.dim", boolean(2, 3), 1).named("dim"),
    *(case(name, boolean(2, 3)) for name in ("_is_all_true", "_is_any_true")),
    case("any.dims", boolean(2, 3), [0, 1]).named("dims"),
    *(case(f"{name}.dims", boolean(2, 3), []).named("no dims") for name in ("any", "all")),
    *(case(name, BYTES).named("bytes") for name in ("any", "all")),
    *(case(f"{name}.dim", BYTES, 1, True).named("bytes") for name in ("any", "all")),
    case("count_nonzero", i64(2, 3), 0).named("dim"),
    case("logsumexp", f32(2, 3), [1]),
    case("special_logsumexp", f32(2, 3), [1]),
    case("aminmax", f32(2, 3), dim=1).named("dim"),
    case("var.default", f32(2, 3)),
    case("var.default", f32(2, 3), False).named("biased"),
    case("std.default", f32(2, 3), False),
    case("var_mean.default", f32(2, 3)),
    case("std_mean.default", f32(2, 3), False),
    case("var", f32(2, 3), [1], correction=0).named("correction"),
    case("std", f32(2, 3), [1], correction=2, keepdim=True).named("kept"),
    case("var_mean", f32(2, 3), [1], correction=0).named("dims"),
    case("std_mean", f32(2, 3), [1], correction=1, keepdim=True).named("kept"),
    *(case("linalg_vector_norm", f32(2, 3), order, [1]).named(f"{order}") for order in (1, 2, 3, 0, np.inf, -np.inf)),
    case("norm", f32(2, 3)),
    case("norm", f32(2, 3), 1, [1]).named("dim"),
    case("frobenius_norm", f32(2, 3), [0, 1]),
    case("std", np.array([[300, -300] * 3], np.float16), [1], correction=0).named("of large halves"),
    case("std.default", np.array([300, -300] * 3, np.float16), False).named("of large halves"),
    case("var", np.tile(np.array([4, -4], np.float16), 4100), [0], correction=0).named("of many halves"),
    case("var_mean", np.tile(np.array([4, -4], np.float16), 4100), [0], correction=0).named("of many halves"),
    case("mean", f32(0, 5)).named("nothing"),
    case("var_mean.correction", f32(0, 5), [0], correction=0).named("nothing"),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
