"""Equations are rewritten for dims of 1 that runtimes do not broadcast, and compared with numpy, which
broadcasts them.
"""

from __future__ import annotations

import numpy as np
import pytest

from convert.semantics.einsum import squeeze_labels


@pytest.mark.parametrize(
    ("equation", "shapes", "wanted"),
    [
        ("bchw,bdhw->bcd", [(2, 3, 4, 4), (2, 1, 4, 1)], "bchw,bdh->bcd"),
        ("ij,ij->ji", [(1, 3), (2, 1)], "j,i->ji"),
        ("ij,jk->ik", [(2, 1), (1, 3)], "ij,jk->ik"),
        ("...ij,ij->...i", [(5, 2, 1), (2, 3)], "...i,ij->...i"),
        ("i...j,j->i...", [(2, 5, 3), (1,)], "i...j,->i..."),
        ("...kj,ji", [(2, 3, 4), (1, 5)], "...kj,i->...ik"),
        ("ii,i->i", [(1, 1), (3,)], "ii,i->i"),
        ("ij, jk , ik", [(2, 3), (1, 4), (2, 4)], "ij,k,ik->"),
    ],
)
def test_dims_of_1_are_dropped(equation: str, shapes: list[tuple[int, ...]], wanted: str) -> None:
    arrays = [np.random.default_rng(i).standard_normal(s) for i, s in enumerate(shapes)]
    found, axes = squeeze_labels(equation, shapes)
    assert found == wanted
    if equation != "ii,i->i":  # numpy repeats no diagonal
        squeezed = [np.squeeze(a, tuple(s)) for a, s in zip(arrays, axes, strict=True)]
        np.testing.assert_allclose(np.einsum(found, *squeezed), np.einsum(equation, *arrays))


def test_unknown_dims_stay() -> None:
    assert squeeze_labels("ij,ij->i", [(None, 3), (1, None)]) == ("ij,j->i", [[], [0]])
