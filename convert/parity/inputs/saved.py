"""Save the input sets of a verification, so that `--inputs` repeats it, and load them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from convert.errors import BadInput
from convert.files.side_files import ARRAYS, is_arrays, side_file
from convert.parity.inputs.feeds import Feed

# Dtypes that NumPy's files do not support are stored as unsigned integers under NAME:DTYPE.
_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8, "float8_e4m3fnuz": np.uint8,
         "float8_e5m2fnuz": np.uint8}  # fmt: skip

_NUMBER = re.compile(r"[0-9]{1,9}")
"""Number of an input set, after NAME@."""


def save_feeds(path: Path, feeds: Sequence[Feed], option: str = "--save-inputs") -> None:
    """Write all sets into one `.npz` file: NAME for the first set, NAME@1, NAME@2 … for the others.

    option: the command line option, for messages. Raises `UsageError` if `path` cannot be written, `ResourceLimit` if
    the disk is full.
    """
    stored = {}
    for i, feed in enumerate(feeds):
        for name, array in feed.arrays.items():
            key = f"{name}@{i}" if i else name
            if array.dtype.name in _BITS:
                key, array = f"{key}:{array.dtype.name}", array.view(_BITS[array.dtype.name])
            stored[key] = array.astype(str) if array.dtype.kind == "O" else array
    with side_file(path, is_arrays, option) as temporary, temporary.open("wb") as file:
        _write(file, stored)


def _write(file: BinaryIO, stored: Mapping[str, np.ndarray]) -> None:
    # Like numpy.savez, whose own parameters `file` and `args` prevent inputs with these names.
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = ARRAYS
        for key, array in stored.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def input_sets(arrays: Mapping[Any, np.ndarray]) -> list[dict[Any, np.ndarray]]:
    """Return the input sets of a file by `save_feeds` or by the user. Raises `BadInput` if a number is missing."""
    found: dict[int, dict[Any, np.ndarray]] = {}
    for key, array in arrays.items():
        name, number = key, 0
        if isinstance(key, str):
            name, array = _typed_array(key, array)
            start, at, end = name.rpartition("@")
            if at and start and _NUMBER.fullmatch(end):
                name, number = start, int(end)
        array = np.asarray(array)
        found.setdefault(number, {})[name] = array.astype(object) if array.dtype.kind == "U" else array
    if sorted(found) != list(range(len(found))):
        raise BadInput(f"the sets of inputs are numbered {sorted(found)}", hint="NAME, NAME@1, NAME@2 and so on")
    return [found[i] for i in range(len(found))]


def _typed_array(key: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    name, colon, dtype = key.rpartition(":")
    if colon and dtype in _BITS and array.dtype == _BITS[dtype]:
        return name, array.view(getattr(ml_dtypes, dtype))
    return key, array
