"""Walks through an HDF5 file, in a process of its own: `python -m convert.frontends.tensorflow.runner.hdf5_check FILE`.

The library loops for ever, or crashes, over some damaged files; what ends here can be read.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from convert import limits
from convert.errors import BadInput


def check(path: Path) -> None:
    """Raise `BadInput` where HDF5 does not come to the end of a file."""
    patience = limits.HDF5_SECONDS + path.stat().st_size / limits.HDF5_BYTES_PER_SECOND
    command = [sys.executable, "-m", "convert.frontends.tensorflow.runner.hdf5_check", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        told = f"HDF5 has not come to its end after {patience:.0f} s"
    else:
        if done.returncode == 0:
            return
        told = (done.stderr.strip().splitlines() or [f"HDF5 ended with code {done.returncode}"])[-1]
    raise BadInput(f"{path} is damaged: {told}", hint="get the file again and compare its checksum with the source's")


def _walk(path: str) -> None:
    """Read every attribute, and what is stored in chunks, that is found by a tree."""
    import h5py

    def visit(name: str, item: h5py.Group | h5py.Dataset) -> None:
        for key in item.attrs:
            item.attrs[key]
        if isinstance(item, h5py.Dataset) and item.chunks:
            for part in item.iter_chunks():
                item[part]

    with h5py.File(path, "r") as file:
        visit("/", file)
        file.visititems(visit)


if __name__ == "__main__":
    _walk(sys.argv[1])
