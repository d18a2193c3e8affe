"""A process and its child exchange any number of arrays in two files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from convert.processes.arrays import load_arrays, save_arrays

ARRAYS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "turned": np.arange(6, dtype=np.int64).reshape(2, 3).T,
    "": np.float64(2.5),
    "of nothing": np.zeros((0, 3), np.uint8),
    "texts": np.array([["é", "b\n"]], object),
    "bytes": np.array([b"c"], object),
    "halves": np.array([1.5, -0.0], ml_dtypes.bfloat16),
    "eights": np.array([1.5], ml_dtypes.float8_e4m3fn),
    "complex": np.array([1 + 2j], np.complex64),
    "truth": np.array(True),
}


def test_arrays_come_as_they_went(tmp_path: Path) -> None:
    save_arrays(tmp_path / "x", ARRAYS)
    found = load_arrays(tmp_path / "x")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        expected = np.array(["c"], object) if name == "bytes" else np.asarray(array)
        assert found[name].dtype == expected.dtype
        assert found[name].shape == expected.shape
        assert found[name].tobytes() == expected.tobytes() or (found[name] == expected).all()


@pytest.mark.slow
def test_many_arrays_are_few_files(tmp_path: Path) -> None:
    save_arrays(tmp_path / "x", {str(i): np.zeros(1) for i in range(20_000)})
    assert len(list((tmp_path / "x").iterdir())) == 2
    assert len(load_arrays(tmp_path / "x")) == 20_000


@pytest.mark.parametrize("kept", [0, 10, 130])
def test_what_is_cut_off_is_an_error(tmp_path: Path, kept: int) -> None:
    save_arrays(tmp_path / "x", {"a": np.zeros(9), "b": np.zeros(9)})
    (file,) = (tmp_path / "x").glob("*.npy")
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises((OSError, ValueError, EOFError)):
        load_arrays(tmp_path / "x")
