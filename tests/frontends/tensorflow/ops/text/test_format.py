"""The rules of `frontends/tensorflow/ops/text/format.py` against TensorFlow, which has C write the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, params

WHOLE = np.int32([[0, -7, 2147483647], [12345, -2147483648, 10]])
LONG = np.int64([0, -(2**63), 2**63 - 1, 10**18, 10**18 - 1, -(10**18)])
REAL = np.float32(
    [[0.0, -0.0, 2.5, 3.5, -0.5, 0.125, 0.375, 1e-7], [9.9999999, 0.99999994, 1e9, -1234567.0, 2e18, 1 / 3, 0.7, 5e-1]]
)
ODD = np.float32([np.inf, -np.inf, np.nan, -1e-30, 16777217.0, 0.045])
DRAWN = np.random.default_rng(0)
ANY = (DRAWN.normal(size=300) * 10.0 ** DRAWN.integers(-6, 12, 300)).astype(np.float32)

ROWS = [
    *(case("AsString", x).named(f"{x.dtype}") for x in (WHOLE, LONG, np.uint8([0, 255]), np.array([True, False]))),
    *(
        case("AsString", x, width=width, fill=fill).named(f"{x.dtype} {width} {fill!r}")
        for x in (WHOLE, LONG)
        for width, fill in ((6, ""), (6, "0"), (6, "-"), (6, "+"), (6, " "), (0, ""), (25, "0"))
    ),
    case("AsString", WHOLE, fill="+").named("a sign and no width"),
    *(case("AsString", REAL, precision=p).named(f"{p} decimals") for p in (-1, 0, 1, 2, 3, 7, 12)),
    *(case("AsString", x).named(f"{len(x)} numbers") for x in (ODD, ANY)),
    case("AsString", ANY, precision=2).named("any to two decimals"),
    case("AsString", np.float16([[0.1, -2.5, 65504, 6e-8], [1, -0.0, 0.33, 1e3]]), precision=4).named("halves"),
    case("AsString", REAL, precision=13).named("more decimals").xfail("more than 12 decimals"),
    case("AsString", REAL, width=9).named("real numbers filled up").xfail("filled up to a width"),
    case("AsString", WHOLE, width=1001).named("a width of 1,001").xfail("widths over 1,000"),
    case("AsString", REAL.astype(np.float64)).named("float64").xfail("float64"),
    case("AsString", REAL, scientific=True).named("scientific").xfail("notation"),
    case("AsString", REAL, shortest=True).named("shortest").xfail("notation"),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
