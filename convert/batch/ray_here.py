"""Starts a Ray cluster on this machine for one batch, and removes its processes and files afterwards.

Its files lie in the batch's folder and its ports are on loopback. By default, Ray would write a token into the home
folder and a session into the temporary folder, listen for other machines, and leave processes behind if its driver
dies.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from convert.batch.processes import kill_marked
from convert.files.scratch import place_of_temporary_files, remove_tree, scratch_folder, temporary_files_in
from convert.processes.interpreter import module_command
from convert.processes.marks import MARK, new_mark

_LONGEST_PLACE = 40
"""Length of a folder's path that keeps the paths of Ray's sockets below the system's limit of 107 characters."""


@contextmanager
def own_cluster() -> Iterator[dict[str, Any]]:
    """Context manager: yield arguments of `ray.init` for a cluster that exists only during this block.

    It ends, with its processes and files, even if this process is killed.

    Leave the block after `ray.shutdown`.
    """
    with _short_scratch_folder() as folder:
        mark = new_mark()
        token = {} if _is_authentication_chosen() else {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
        keeper = subprocess.Popen(
            module_command("convert.batch.ray_here", mark, str(folder)), stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            # Ray's processes inherit these; this process needs the token until the end.
            with _environment({MARK: mark, "TMPDIR": str(folder), **token}):
                yield {"_temp_dir": str(folder / "ray"), "_node_ip_address": "127.0.0.1", "include_dashboard": False}
        finally:
            kill_marked(lambda found: found == mark)
            keeper.communicate()


def keep(mark: str, folder: str) -> None:
    """Wait until the process that started this one ends, in whatever way; then end the cluster and remove its files."""
    sys.stdin.buffer.read()
    kill_marked(lambda found: found == mark)
    remove_tree(Path(folder))


def _is_authentication_chosen() -> bool:
    return any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))


@contextmanager
def _short_scratch_folder() -> Iterator[Path]:
    import tempfile

    place = place_of_temporary_files() or Path(tempfile.gettempdir())
    short = len(os.fsencode(place)) <= _LONGEST_PLACE
    with nullcontext() if short else temporary_files_in(Path("/tmp")), scratch_folder() as folder:
        yield folder


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


if __name__ == "__main__":
    keep(*sys.argv[1:])
