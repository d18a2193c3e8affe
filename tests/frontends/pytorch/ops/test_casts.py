"""The rules of `frontends/pytorch/ops/casts.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, f32, f64, i64, params

ODD = np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf, np.nan], dtype=np.float32)
TWO = np.array(2)
SEVEN = np.array(7)

ROWS = [
    case("sym_truediv", SEVEN, TWO),
    case("sym_float", SEVEN),
    case("sym_int", np.array(2.7)),
    *(case(f"sym_{name}", np.array(x)).named(f"{x}") for name in ("ceil", "floor", "round") for x in (2.5, 3.5, 3.2)),
    case("sym_sqrt", SEVEN),
    case("sym_ite", np.array(True), SEVEN, TWO),
    case("to", i64(2, 3), dtype=torch.float32),
    case("to.dtype", f32(2, 3), torch.int64),
    case("to.dtype", ODD[1:5], torch.bool).named("bool"),
    case("to.dtype_layout", f32(2, 3), dtype=torch.float64),
    case("to.device", f32(2, 3), torch.device("cpu"), torch.float64),
    case("to.other", i64(2, 3), f32(1)).named("other"),
    case("_to_copy", f32(2, 3), dtype=torch.int32),
    case("type_as", i64(2, 3), f32(1)),
    case("_cast_Float", i64(2, 3)),
    case("_cast_Double", f32(2, 3)),
    case("_cast_Int", f32(2, 3)),
    case("_cast_Long", f32(2, 3)),
    case("scalar_tensor", 2.5),
    case("scalar_tensor", 3, dtype=torch.int64).named("int"),
    case("_autocast_to_reduced_precision", f32(2, 3), False, True, torch.bfloat16, torch.float16),
    case("_autocast_to_reduced_precision", f32(2), True, False, torch.bfloat16, torch.float16).named("cuda"),
    case("_autocast_to_reduced_precision", f64(2), False, True, torch.bfloat16, torch.float16).named("double"),
    case("_autocast_to_full_precision", f32(2, 3).astype(np.float16), False, True),
    case("_autocast_to_full_precision", f64(2, 3), False, True).named("double"),
    case("item", f64(1)),
    case("item", i64(1)).named("int"),
    case("_local_scalar_dense", f64(1)),
    case("prims::convert_element_type", f32(3, low=-9.0, high=9.0), torch.int64),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
