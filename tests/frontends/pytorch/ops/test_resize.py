"""The rules of `frontends/pytorch/ops/resize.py` against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.pytorch.ops.support import check, check_other_sizes, check_unknown_sizes, layers, resized
from tests.support.cases import Case, case, f32, params

X = f32(2, 4, 6, 7)
BYTES = np.random.default_rng(0).integers(0, 256, (2, 6, 7, 9)).astype(np.uint8)
AVERAGED = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")


def _ramp(length: int) -> np.ndarray:
    """Return two channels in which an interpolated value equals its coordinate, so that rounding errors stay small."""
    return np.stack([np.arange(1, length + 1), np.arange(2 * length, length, -1)])[None].astype(np.float32)


ODD = ((90, 0.7), (780, 1.3), (49, 1.7), (61, 0.3), (10, 3.0), (7, 0.6))
"""Lengths and factors whose float32 product is above, below, or equal to their float64 product."""

TO_SIZES = (((14, 14), (8, 4)), ((9, 14), (111, 2)), ((4, 4), (41, 82)), ((28, 3), (14, 6)))
"""Lengths and sizes. Multiplying by 14 / 4 rounds to the element itself, dividing by 4 / 14 to the one before."""

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
            case(f"{name}2d", f32(1, 2, *lengths), [*wanted]).named(f"{wanted} of {lengths}")
            for name in ("upsample_nearest", "_upsample_nearest_exact")
            for lengths, wanted in TO_SIZES
        ),
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
        *(
            case("upsample_linear1d.vec", _ramp(length), None, False, [factor]).named(f"{factor} of {length}")
            for length, factor in ODD
        ),
        *(
            case(f"{name}1d.vec", f32(1, 2, length), None, [factor]).named(f"{factor} of {length}")
            for name in ("upsample_nearest", "_upsample_nearest_exact")
            for length, factor in ODD
        ),
        case("upsample_bicubic2d.vec", f32(1, 2, 10, 20), None, False, [0.7, 1.3]).named("odd"),
        case("upsample_bilinear2d", _ramp(90)[..., None] + _ramp(8)[:, :, None], [62, 12], False, 0.7, 1.5).named(
            "sizes and factors"
        ),
        *(
            case(f"{name}.vec", BYTES[:, :channels], [3, 11], aligned, None).named(f"bytes {channels} {aligned}")
            for name in ("upsample_bilinear2d", "upsample_bicubic2d", *AVERAGED)
            for channels in (3, 6)
            for aligned in (False, True)
        ),
        *(
            case(f"{name}.vec", BYTES[:, :3], None, False, [0.7, 1.4]).named("bytes by factors")
            for name in ("upsample_bilinear2d", "upsample_bicubic2d", *AVERAGED)
        ),
        *(
            case(f"{name}.vec", x, None, *aligned, [1.3, 1.1]).named(f"lengths that stay, {aligned} {x.dtype}")
            for name in ("upsample_bilinear2d", "upsample_bicubic2d", *AVERAGED)
            for aligned in ([False], [True])
            for x in (f32(1, 3, 3, 9), BYTES[:1, :3, :3])
        ),
        *(
            case(f"{name}{d}d.vec", f32(1, 2, *[3] * (d - 1), 4), None, factors[:d]).named(f"{factors}")
            for name in ("upsample_nearest", "_upsample_nearest_exact")
            for d in (1, 2, 3)
            for factors in ([1.3, 2.2, 1.3], [2.2, 1.2, 2.2], [40.0, 2.2, 1.0], [1.3, 1.2, 1.3])
        ),
        *(
            case(f"upsample_{n}.vec", f32(1, 2, *[3] * d), None, False, [1.3] * d).named("lengths that stay")
            for n, d in (("linear1d", 1), ("trilinear3d", 3))
        ),
        *(
            case(f"{name}.vec", BYTES[:, :3], None, *aligned, [1.3, 2.2]).named(f"bytes {aligned}")
            for name, aligned in (("upsample_nearest2d", []), ("_upsample_nearest_exact2d", []))
        ),
        *(case(f"_upsample_{n}_aa", X, [3, 4], False) for n in ("bilinear2d", "bicubic2d")),
        *(case(f"_upsample_{n}_aa.vec", X, [3, 4], False, None) for n in ("bilinear2d", "bicubic2d")),
        *(
            case(f"{name}.vec", X, None, aligned, [0.6, 1.3]).named(f"by factors, {aligned}")
            for name in AVERAGED
            for aligned in (False, True)
        ),
        *(case(f"{name}.vec", X, [11, 3], True, None).named("aligned") for name in AVERAGED),
        *(case(f"{name}.vec", X, [1, 5], True, None).named("aligned, one row") for name in AVERAGED),
        *(
            case(f"upsample_{n}.vec", f32(1, 2, *range(3, 3 + d)), None, True, [1.5] * d).named("aligned by factors")
            for n, d in (("linear1d", 1), ("bilinear2d", 2), ("trilinear3d", 3), ("bicubic2d", 2))
        ),
    ),
]


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_with_pytorch(row: Case) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", params(row for row in ROWS if not row.reason))
def test_rule_agrees_where_sizes_are_unknown(row: Case) -> None:
    check_unknown_sizes(row)


@pytest.mark.parametrize("row", params(ROWS))
def test_rule_agrees_at_other_sizes_than_the_example(row: Case) -> None:
    x = row.inputs[0]
    others = [resized(x, more, 2) for more in (0, 1, 4)]
    check_other_sizes(row, *([other if x.dtype == np.uint8 else _smooth(other)] for other in others))


def _smooth(x: np.ndarray) -> np.ndarray:
    """Return an array of this shape that rises along every dim, so that rounded coordinates change it little."""
    return sum(np.indices(x.shape)[1:], 1).astype(x.dtype)
