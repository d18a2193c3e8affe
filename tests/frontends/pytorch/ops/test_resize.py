"""The rules of `frontends/pytorch/ops/resize.py` against PyTorch."""

from __future__ import annotations

import pytest

from tests.frontends.pytorch.ops.support import check, check_unknown_sizes, layers
from tests.support.cases import Case, case, f32, params

X = f32(2, 4, 6, 7)

ROWS = [
    *layers(
        *(
            case(f"upsample_nearest{d}d", f32(1, 2, *range(3, 3 + d)), [2 * n for n in range(3, 3 + d)])
            for d in (1, 2, 3)
        ),
        *(case(f"upsample_nearest{d}d.vec", f32(1, 2, *range(3, 3 + d)), None, [2.0] * d) for d in (1, 2, 3)),
        *(
            case(f"_upsample_nearest_exact{d}d", f32(1, 2, *range(3, 3 + d)), [2 * n + 1 for n in range(3, 3 + d)])
            for d in (1, 2, 3)
        ),
        *(case(f"_upsample_nearest_exact{d}d.vec", f32(1, 2, *range(3, 3 + d)), None, [1.5] * d) for d in (1, 2, 3)),
        case("upsample_nearest2d.vec", X, None, [1.7, 0.6]).named("odd"),
        case("upsample_nearest2d", X, [5, 11]).named("sizes"),
        *(
            case(f"upsample_{n}", f32(1, 2, *range(3, 3 + d)), [2 * k + 1 for k in range(3, 3 + d)], aligned).named(
                f"{aligned}"
            )
            for n, d in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2))
            for aligned in (False, True)
        ),
        *(
            case(f"upsample_{n}.vec", f32(1, 2, *range(3, 3 + d)), None, False, [1.5] * d)
            for n, d in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2))
        ),
        *(case(f"_upsample_{n}_aa", X, [3, 4], False) for n in ("bilinear2d", "bicubic2d")),
        *(case(f"_upsample_{n}_aa.vec", X, [3, 4], False, None) for n in ("bilinear2d", "bicubic2d")),
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)
