"""Reads arrays that the user gives, an `.npz` or a folder of `.npy`, without executing pickled content."""

from __future__ import annotations

import lzma
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import BadInput
from convert.files.holes import check_holes
from convert.graph.tensors import numpy_dtype, plain_array

_UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, TypeError, RecursionError, struct.error, zlib.error,
               zipfile.BadZipFile, lzma.LZMAError, SyntaxError, TokenError)  # fmt: skip
"""Exceptions of numpy for a file that is no array; the last two, for a header that is no Python dict."""


def _reason(error: Exception) -> str:
    """Return why numpy does not read a file. It takes any file without numpy's first bytes for a pickle."""
    return "it is not a file of numpy's" if "pickled (object) data" in str(error) else str(error)


def load_inputs(path: Path) -> dict[str, np.ndarray]:
    """Return arrays by name from an `.npz` file, or from a folder of `.npy` files. Pickled content is refused.

    Raises `BadInput` for anything else: pipes and devices, sparse files, an archive or a folder without arrays.
    """
    try:
        if path.is_dir():
            found = {p.stem: _load(p) for p in sorted(path.glob("*.npy"))}
        else:
            archive = _load(path)
            if isinstance(archive, np.ndarray):
                raise ValueError("it is a single array, which has no name")
            with archive:
                found = dict(archive.items())
        if not found:
            raise ValueError("there is no array in it")
        if other := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{other[0][:200]!r} is not an array")
    except _UNREADABLE as error:
        raise BadInput(
            f"{path} contains no readable inputs: {_reason(error)}",
            hint="save them with numpy.savez(path, name=array, …)",
        ) from error
    return {name: plain_array(array) for name, array in found.items()}


def load_array(path: Path) -> np.ndarray:
    """Return the array in an `.npy` file. Raises `BadInput` as `load_inputs` does."""
    try:
        found = _load(path)
        if not isinstance(found, np.ndarray):
            raise ValueError("it is an archive")
    except _UNREADABLE as error:
        raise BadInput(
            f"{path} contains no readable array: {_reason(error)}", hint="save it with numpy.save(path, array)"
        ) from error
    return plain_array(found)


def with_pairs(array: np.ndarray, value: ir.Value) -> np.ndarray:
    """Return complex numbers as pairs of real and imaginary part in a last dim of 2, if the graph's input is real."""
    if array.dtype.kind != "c" or value.dtype is None or numpy_dtype(value.dtype).kind != "f":
        return array
    return np.stack([array.real, array.imag], -1)


def _load(path: Path) -> Any:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no file")  # numpy would wait for these, or read them without an end
    check_holes(path)
    return np.load(path, allow_pickle=False)
