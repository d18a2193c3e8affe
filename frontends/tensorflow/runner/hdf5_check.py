"""Walks through an HDF5 file, in a process of its own that dies with the one that asks for it.

`python -m convert.frontends.tensorflow.runner.hdf5_check FILE PARENT`

The library loops for ever, or crashes, over some damaged files; what ends here can be read.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput
from convert.interpreter import module_command
from convert.runners.sandbox import confine_thread, die_with_parent, keep_from_forking

_BUSY = 10
"""Times as long that the walk may last on a machine that does much else."""


def check(path: Path) -> None:
    """Raise `BadInput` where HDF5 does not come to the end of a file. It is asked once for a file."""
    found = path.stat()
    _check_once(path, found.st_mtime_ns, found.st_size)


@cache
def _check_once(path: Path, modified: int, size: int) -> None:
    patience = limits.HDF5_SECONDS + size / limits.HDF5_BYTES_PER_SECOND
    command = module_command("convert.frontends.tensorflow.runner.hdf5_check", str(path), str(os.getpid()))
    message = f"HDF5 has not come to its end after {patience:.0f} s of processor time"
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_BUSY * patience,
            check=False,
            preexec_fn=partial(_confine, int(patience) + 1),
        )
        if done.returncode == 0:
            return
        if done.returncode not in (-signal.SIGXCPU, -signal.SIGKILL):
            message = (done.stderr.strip().splitlines() or [f"HDF5 ended with code {done.returncode}"])[-1]
    raise BadInput(f"{path} is damaged: {message}", hint=_AGAIN)


def _confine(seconds: int) -> None:
    """Of the process that walks: so much time of a processor, however busy the machine is, and no others beside it."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    keep_from_forking()


def check_sizes(root: Any, label: str) -> None:
    """Raise `BadInput` for groups that hold one another, and datasets that say they hold far more than is stored.

    root: an open h5py.File. HDF5 gives zeros for what was never written, at no cost in the file.
    """
    import h5py

    groups, announced, stored = {h5py.h5o.get_info(root.id).addr}, 0, 0
    pending = [root]
    while pending:
        for item in pending.pop().values():
            if isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in groups:
                    raise BadInput(f"{label} is no model: its group {item.name} has two places", hint=_AGAIN)
                groups.add(address)
                pending.append(item)
            elif isinstance(item, h5py.Dataset):
                announced += item.nbytes
                stored += item.id.get_storage_size()
    if announced > limits.ARCHIVE_FREE_BYTES and announced > limits.ARCHIVE_EXPANSION * stored:
        text = f"{label} says that it holds {announced / 1e9:,.1f} GB, where {stored:,} bytes are stored"
        raise BadInput(text, hint=_AGAIN)


_AGAIN = "get the file again and compare its checksum with the source's"


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
        try:
            check_sizes(file, path)
        except BadInput as error:
            sys.exit(error.message)
        visit("/", file)
        file.visititems(visit)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[2]))
    confine_thread()  # the library is in C, and the file a stranger's
    _walk(sys.argv[1])
