"""The rules of `frontends/pytorch/ops/integers.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes
from tests.support.cases import Case, case, i32, params

NUMBERS = np.array([0, 1, -4, 6, 9, -12, 30])

DTYPES = (np.uint8, np.int8, np.int16, np.int32, np.int64)


def extremes(dtype: type) -> np.ndarray:
    """Return the limits of a dtype and numbers between them."""
    bounds = np.iinfo(dtype)
    return np.array([bounds.min, bounds.max, 0, 1, 7, 100, bounds.max // 3, bounds.min + 1], dtype)


def places(dtype: type) -> np.ndarray:
    """Return shifts by nothing, by one, by all but one position, by the width and more, and negative shifts."""
    width = np.iinfo(dtype).bits
    found = [0, 1, 4, width - 2, width - 1, width, width + 1, width * 3 // 2]
    return np.array(found if dtype is np.uint8 else [*found, -1, -width], dtype)


def every_pair(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    x, y = extremes(dtype), places(dtype)
    return np.repeat(x, len(y)), np.tile(y, len(x))


ROWS = [
    *(case(name, NUMBERS[:, None], NUMBERS) for name in ("gcd", "lcm")),
    case("gcd", i32(9, low=-90, high=90), i32(9, low=0, high=90)).named("int32"),
    *(
        case(name, *every_pair(dtype)).named(dtype.__name__)
        for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__")
        for dtype in DTYPES
    ),
    *(
        case(name, extremes(dtype), by).named(f"{dtype.__name__} by {by}")
        for name in ("bitwise_left_shift", "bitwise_right_shift")
        for dtype in DTYPES
        for by in (0, 4, np.iinfo(dtype).bits - 1, np.iinfo(dtype).bits)
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
