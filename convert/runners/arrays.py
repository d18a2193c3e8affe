"""Arrays as files between a process and its child; what the child leaves is read as a stranger's."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_MOST_TEXT = 1 << 30
"""Bytes of JSON that a child leaves: names, dtypes, shapes and the texts of arrays of strings."""

_ARRAYS = "arrays.npy"


def save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under any names: one behind the other, and a list of names; bfloat16 and float8 travel as raw bits.

    A file for each would be a hundred thousand for a network of many outputs, which take minutes to remove.
    """
    folder.mkdir()
    with (folder / _ARRAYS).open("wb") as file:
        index = [_save_array(file, name, np.asarray(array)) for name, array in arrays.items()]
    (folder / "index.json").write_text(json.dumps(index))


def _save_array(file: BinaryIO, name: str, array: np.ndarray) -> dict[str, Any]:
    """Put it at the end of `file`; what the list says of it."""
    if array.dtype.kind in "OUS":
        return {"name": name, "dtype": "string", "shape": list(array.shape), "texts": _texts(array)}
    np.save(file, array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array, allow_pickle=False)
    return {"name": name, "dtype": array.dtype.name}


def _texts(array: np.ndarray) -> list[str]:
    """The elements of an array of strings, which TensorFlow gives as bytes."""
    return [s.decode() if isinstance(s, bytes) else str(s) for s in array.ravel().tolist()]


def decoded(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With strings as text, as they come from a child."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    return {n: np.array(_texts(a), object).reshape(a.shape) if a.dtype.kind in "OUS" else a for n, a in found.items()}


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """What `save_arrays` wrote. Raises `OSError`, `ValueError`, `KeyError` and others for what it did not."""
    arrays = {}
    with _open(folder / _ARRAYS) as file:
        for entry in load_json(folder / "index.json"):
            if entry["dtype"] == "string":
                arrays[entry["name"]] = np.array(entry["texts"], dtype=object).reshape(entry["shape"])
                continue
            array = np.load(file, allow_pickle=False)
            if array.dtype.name != entry["dtype"]:
                import ml_dtypes

                array = array.view(getattr(ml_dtypes, entry["dtype"]))
            arrays[entry["name"]] = array
    return arrays


def load_json(path: Path) -> Any:
    """What a child has written. Raises `OSError` for what is no file of its own, `ValueError` for what is no JSON."""
    with _open(path) as file:
        content = file.read(_MOST_TEXT + 1)
    if len(content) > _MOST_TEXT:
        raise ValueError(f"{path.name} is larger than {_MOST_TEXT} bytes")
    return json.loads(content)


def last_bytes(path: Path, count: int) -> str:
    """The end of a text, empty where there is none. Raises nothing."""
    try:
        with _open(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count).decode(errors="replace")
    except OSError:
        return ""


def _open(path: Path) -> BinaryIO:
    """A file that is one: no link, pipe or device that a child which was taken over has put there."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{path.name} is no file")
    return open(number, "rb")
