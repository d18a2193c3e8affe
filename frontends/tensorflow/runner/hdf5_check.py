"""Walks through an HDF5 file. `check` runs it as a program, because the library may loop or crash on a damaged file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput
from convert.processes.parser_check import GET_AGAIN_HINT, begin_check, check_file

_MODULE = "convert.frontends.tensorflow.runner.hdf5_check"


def check(path: Path) -> None:
    """Raise `BadInput` if HDF5 cannot read a file to its end."""
    seconds = limits.HDF5_SECONDS + path.stat().st_size / limits.HDF5_BYTES_PER_SECOND
    check_file(path, _MODULE, "HDF5", seconds)


def check_sizes(root: Any, label: str) -> None:
    """Raise `BadInput` for groups that contain one another, and for datasets whose declared size far exceeds what is
    stored.

    root: an open h5py.File. HDF5 returns zeros for data that was never written and takes no space in the file.
    """
    import h5py

    groups, announced, stored = {h5py.h5o.get_info(root.id).addr}, 0, 0
    pending = [root]
    while pending:
        for item in pending.pop().values():
            if isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in groups:
                    raise BadInput(f"{label} is no model: its group {item.name} has two places", hint=GET_AGAIN_HINT)
                groups.add(address)
                pending.append(item)
            elif isinstance(item, h5py.Dataset):
                announced += item.nbytes
                stored += item.id.get_storage_size()
    if announced > limits.ARCHIVE_FREE_BYTES and announced > limits.ARCHIVE_EXPANSION * stored:
        text = f"{label} says that it holds {announced / 1e9:,.1f} GB, where {stored:,} bytes are stored"
        raise BadInput(text, hint=GET_AGAIN_HINT)


def _walk(path: str) -> None:
    """Read every attribute, and every chunked dataset that is found through a tree."""
    import h5py

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        for key in item.attrs:
            item.attrs[key]
        if isinstance(item, h5py.Dataset) and item.chunks:
            for part in item.iter_chunks():
                item[part]

    with h5py.File(path, "r") as file:
        try:
            check_sizes(file, path)
        except BadInput as error:
            sys.exit(error.message)
        visit("/", file)
        file.visititems(visit)


if __name__ == "__main__":
    _walk(*begin_check())
