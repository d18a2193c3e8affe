"""Tensors of the shared graph: their content is in the order in which files store it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from convert.graph import tensors

CASES = {
    "matrix": np.arange(300 * 130, dtype=np.int32).reshape(300, 130),
    "transposed": np.arange(300 * 130, dtype=np.int32).reshape(130, 300).T,
    "transposed bfloat16": np.arange(300 * 130).reshape(130, 300).astype(ml_dtypes.bfloat16).T,
    "one row, transposed": np.arange(5000, dtype=np.float64).reshape(5000, 1).T,
    "every other column": np.arange(300 * 130, dtype=np.int16).reshape(300, 130)[:, ::2],
    "rank 3": np.arange(24 * 50, dtype=np.float32).reshape(2, 12, 50).transpose(2, 0, 1),
    "scalar": np.array(3.0),
    "nothing": np.zeros((0, 4)),
}


PERMS = [(1, 0), (2, 3, 1, 0), (3, 2, 0, 1), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2, 3), (3, 0, 2, 1), (1, 0, 3, 2)]


@pytest.mark.parametrize("perm", PERMS)
@pytest.mark.parametrize("sizes", [(70, 9, 3, 130), (64, 2, 65, 3), (1, 5, 1, 7), (3, 0, 2, 5)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_an_array_of_permuted_axes_is_copied_in_order(
    perm: tuple[int, ...], sizes: tuple[int, ...], dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_SMALL", 0)
    monkeypatch.setattr(tensors, "_ROWS", 50)
    array = np.random.default_rng(0).integers(0, 999, sizes[: len(perm)]).astype(dtype)
    for view in (array.transpose(perm), array.transpose(perm)[::-1], array[:, ::2].transpose(perm)):
        found = tensors.contiguous_array(view)
        assert found.flags.c_contiguous
        assert found.dtype == view.dtype
        np.testing.assert_array_equal(found, view)


@pytest.mark.parametrize("name", CASES)
def test_parts_are_the_content_in_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_PART", 4000)
    parts = list(tensors.contiguous_parts(CASES[name]))
    assert all(part.flags.c_contiguous for part in parts)
    assert b"".join(part.tobytes() for part in parts) == CASES[name].tobytes()
    assert (len(parts) > 1) == (name in ("transposed", "transposed bfloat16", "every other column"))
