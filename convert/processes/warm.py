"""Processes from which the runs of one command are forked: forks of the command itself, made once imports are done.

The worker of the command line (`convert.cli.supervisor`) allows them. A program that calls the API has none: it may
have threads, whose locks would stay locked in a fork. It uses `convert.processes.program_server` instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from convert import activity, plugin
from convert.processes import fork_server, program_server
from convert.processes.fork_client import ADDRESS, keep_confined_connection, keep_connection, second_address
from convert.processes.interpreter import paused_garbage_collection
from convert.processes.sandbox import die_with_parent
from convert.request.source import Source

_allowed: list[bool] = []
"""[True] if warm processes are allowed; else []."""

_addresses: dict[tuple[str, str], str] = {}
"""The address of the warm process by its runner and the variables of its runtimes."""


def allow_warm_processes() -> None:
    """Let `warm_up` fork from now on: this process works for one command."""
    _allowed[:] = [True]


def keep_warm_processes(folder: Path, places: Sequence[Path]) -> None:
    """Stay connected to the warm processes of a batch, before this process is confined (`confine_command`)."""
    if address := os.environ.get(ADDRESS):
        for one in (address, second_address(address)):
            with contextlib.suppress(OSError):  # without a connection, a new interpreter is started later
                keep_confined_connection(one, folder, places)


def are_allowed() -> bool:
    """Return whether this process works for one command."""
    return bool(_allowed)


def warm_up(kind: str, formats: Sequence[str] = ()) -> None:
    """Import what runs a `kind` and writes `formats`, and fork a process from which runs will be forked.

    Call it before this process computes with a framework: a fork has none of PyTorch's threads (libgomp), and would
    wait for them forever. Does nothing unless `allow_warm_processes` was called.
    """
    if not are_allowed():
        return
    with contextlib.suppress(Exception), paused_garbage_collection():  # the work itself will report any error
        fork_server.preload_packages([kind], list(formats))
        _fork_server(kind, {})


def start_program_servers(formats_by_kind: Mapping[str, Sequence[str]]) -> None:
    """Start the processes from which a program's verification forks runs, one for each kind of artefact.

    `formats_by_kind` maps each kind to the formats that the program writes.

    Call it before anything is imported for it: variables that libraries set would be mistaken for the user's.
    """
    if os.environ.get(ADDRESS):
        return
    for kind, formats in formats_by_kind.items():
        with contextlib.suppress(OSError):  # no more processes, or no place for temporary files
            program_server.start_server(_runner_name(kind), kind, formats)


def warm_up_other_settings(kind: str) -> None:
    """Fork a process for each setting but the first with which an artefact of a `kind` is run.

    A runtime reads its settings during import, so each process imports it on its own, while this process does other
    work. Call it before this process imports that runtime, also for a source of the same kind.
    """
    if not are_allowed():
        return
    with contextlib.suppress(Exception):
        for variables in () if _is_imported(kind) else _other_settings(kind):
            _fork_server(kind, variables)


def address_of(kind: str, variables: Mapping[str, str]) -> str:
    """Return the address of the warm process for a run of `kind` whose runtimes have `variables`.

    Returns "" if there is none.
    """
    if mine := _addresses.get(_key(kind, variables)):
        return mine
    found = os.environ.get(ADDRESS, "") or program_server.server_address(_runner_name(kind))
    return second_address(found) if found and variables else found


def _other_settings(kind: str) -> list[dict[str, str]]:
    asked = getattr(plugin.runner_for(kind), "settings", None)
    return [] if asked is None else list(asked(Source(kind)))[1:]


def _is_imported(kind: str) -> bool:
    """Return whether the runtime of a kind is imported here, according to its runner."""
    asked = getattr(plugin.runner_for(kind), "is_imported", None)
    return asked is not None and bool(asked())


def _key(kind: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the key of a warm process; kinds with the same runner share one."""
    return _runner_name(kind), " ".join(f"{name}={value}" for name, value in sorted(variables.items()))


def _runner_name(kind: str) -> str:
    return str(getattr(plugin.runner_for(kind), "__name__", kind))


def _fork_server(kind: str, variables: Mapping[str, str]) -> None:
    """Fork a process that serves forks for `kind`; with variables, it imports the runtimes itself before it serves."""
    key = _key(kind, variables)
    if key in _addresses:
        return
    address = f"warm.{os.getpid()}.{len(_addresses)}"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # otherwise a collection in a fork writes to every object, and copies the pages that forks share
    worker = os.getpid()
    if os.fork():
        theirs.close()
        keep_connection(address, ours)
        _addresses[key] = address
        return
    fork_server.run_and_exit(lambda: _serve(theirs, worker, kind, variables))


def _stream(descriptor: int) -> TextIO:
    try:
        return io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), write_through=True)
    except OSError:  # it was closed before
        return io.StringIO()


def _let_go(kept: int) -> None:
    """Close what the worker has open, except its streams and `kept`: a run in a sandbox could write to it.

    The worker reports folders to remove over a pipe, and holds locks. Each descriptor is replaced by the null device,
    because objects that own it may still close it.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed already
            os.fstat(number)
            if number > 2 and number not in (kept, null):
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _serve(client: socket.socket, worker: int, kind: str, variables: Mapping[str, str]) -> None:
    """Serve forks until the worker ends; in a fork, run its function."""
    die_with_parent(worker)
    activity.forget_listeners()  # what forks do must not be reported to the worker's listeners
    atexit._clear()  # forks must not clean up what belongs to the worker, either
    try:
        work = _fork_to_do(client, kind, variables)
    except OSError:  # no more files or processes: the next client finds no server, and starts an interpreter
        os._exit(1)
    work()


def _fork_to_do(client: socket.socket, kind: str, variables: Mapping[str, str]) -> Callable[[], None]:
    """Return the function of a fork, in the fork. Raises `OSError` if system resources are exhausted."""
    _let_go(client.fileno())
    sys.stdout, sys.stderr = _stream(1), _stream(2)  # a thread that shows progress may have held their locks
    if variables:
        # numpy's and scipy's OpenBLAS start threads when loaded, and a process with threads serves no forks.
        os.environ.update(variables, OPENBLAS_NUM_THREADS="1")
        fork_server.preload_packages([kind], [])
        gc.freeze()
    return fork_server.serve(client, imported=variables)
