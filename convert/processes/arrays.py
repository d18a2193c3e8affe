"""Passes arrays between a process and its child as files; what the child leaves is treated as untrusted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_MOST_TEXT = 1 << 30
"""Largest JSON that a child may leave: names, dtypes, shapes, and the contents of string arrays."""

_ARRAYS = "arrays.npy"


def save_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays with any names into one file, and an index; bfloat16 and float8 are stored as raw bits.

    One file per array would be a hundred thousand files for a network with many outputs, which take minutes to remove.
    """
    folder.mkdir()
    with (folder / _ARRAYS).open("wb") as file:
        index = [_save_array(file, name, np.asarray(array)) for name, array in arrays.items()]
    (folder / "index.json").write_text(json.dumps(index))


def _save_array(file: BinaryIO, name: str, array: np.ndarray) -> dict[str, Any]:
    """Append an array to `file`; return its entry in the index."""
    if array.dtype.kind in "OUS":
        return {"name": name, "dtype": "string", "shape": list(array.shape), "texts": _texts(array)}
    np.save(file, array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array, allow_pickle=False)
    return {"name": name, "dtype": array.dtype.name}


def _texts(array: np.ndarray) -> list[str]:
    """Return the elements of an array of strings, which TensorFlow returns as bytes."""
    return [s.decode() if isinstance(s, bytes) else str(s) for s in array.ravel().tolist()]


def decoded(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with strings as text, as they come from a child."""
    found = {name: np.asarray(array) for name, array in arrays.items()}
    return {n: np.array(_texts(a), object).reshape(a.shape) if a.dtype.kind in "OUS" else a for n, a in found.items()}


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays that `save_arrays` wrote.

    Raises `OSError`, `ValueError`, `KeyError` and others for other content.
    """
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
    """Return the JSON that a child wrote.

    Raises `OSError` if it is no regular file, and `ValueError` for invalid JSON.
    """
    with _open(path) as file:
        content = file.read(_MOST_TEXT + 1)
    if len(content) > _MOST_TEXT:
        raise ValueError(f"{path.name} is larger than {_MOST_TEXT} bytes")
    return json.loads(content)


def last_bytes(path: Path, count: int) -> str:
    """Return the last bytes of a text file; "" if the file does not exist. Raises nothing."""
    try:
        with _open(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count).decode(errors="replace")
    except OSError:
        return ""


def _open(path: Path) -> BinaryIO:
    """Open a regular file. Raises `OSError` for a link, pipe or device that a compromised child may have created."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{path.name} is no file")
    return open(number, "rb")
