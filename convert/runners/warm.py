"""Processes that the runs of one command are forked from: forks of its own, made while what a run imports is there.

The worker of the command line (`convert.cli.supervisor`) allows them. A program that calls the functions has none: it
may have threads, whose locks a fork would find locked. What it has instead is in `convert.runners.program_server`.
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
from convert.interpreter import paused_garbage_collection
from convert.runners import fork_server, program_server
from convert.runners.fork_client import ADDRESS, hold_confined, hold_connection, second_address
from convert.runners.sandbox import die_with_parent
from convert.source import Source

_allowed: list[bool] = []
"""Whether warm processes are allowed: nothing or True."""

_addresses: dict[tuple[str, str], str] = {}
"""What the warm process for a runner is called, and for what its runtimes are told when they are imported."""


def allow_warm_processes() -> None:
    """From here on `warm_up` forks: this process works for one command."""
    _allowed[:] = [True]


def keep_warm_processes(folder: Path, places: Sequence[Path]) -> None:
    """Stay connected to the warm processes of a batch, as this process is about to be confined (`confine_command`)."""
    if address := os.environ.get(ADDRESS):
        for one in (address, second_address(address)):
            with contextlib.suppress(OSError):  # who asks next finds nobody, and starts an interpreter
                hold_confined(one, folder, places)


def are_allowed() -> bool:
    """Whether this process works for one command."""
    return bool(_allowed)


def warm_up(kind: str, formats: Sequence[str] = ()) -> None:
    """Import what runs a `kind` and writes `formats`, and fork a process that its runs are forked from.

    Call it before this process computes with what runs a `kind`: of PyTorch's threads (libgomp) a fork has none, and
    waits for them for good. Nothing happens where nobody has allowed it.
    """
    if not are_allowed():
        return
    with contextlib.suppress(Exception), paused_garbage_collection():  # what is wrong, the work itself will say
        fork_server.preload_rooms([kind], list(formats))
        _fork_server(kind, {})


def start_program_servers(formats_by_kind: Mapping[str, Sequence[str]]) -> None:
    """A program begins a verification that runs artefacts of these kinds, of which it writes the formats.

    Call it before anything is imported for it: what libraries set in the environment would be taken for the user's.
    """
    if os.environ.get(ADDRESS):
        return
    for kind, formats in formats_by_kind.items():
        with contextlib.suppress(OSError):  # no more processes, or no place for temporary files
            program_server.start_server(_runner_name(kind), kind, formats)


def warm_up_other_settings(kind: str) -> None:
    """Fork a process for each setting but the first under which an artefact of a `kind` is run.

    Its runtime reads them when it is imported, so each imports it by itself, while this process does something else.
    Call it before this process imports that runtime, for a source of the same kind too.
    """
    if not are_allowed():
        return
    with contextlib.suppress(Exception):
        for variables in () if _is_imported(kind) else _other_settings(kind):
            _fork_server(kind, variables)


def address_of(kind: str, variables: Mapping[str, str]) -> str:
    """The warm process to fork a run of `kind` from, whose runtimes were told `variables`; empty if there is none."""
    if mine := _addresses.get(_key(kind, variables)):
        return mine
    found = os.environ.get(ADDRESS, "") or program_server.server_address(_runner_name(kind))
    return second_address(found) if found and variables else found


def _other_settings(kind: str) -> list[dict[str, str]]:
    asked = getattr(plugin.runner_for(kind), "settings", None)
    return [] if asked is None else list(asked(Source(kind)))[1:]


def _is_imported(kind: str) -> bool:
    """Whether the runtime of a kind is in this process, as its runner says that has settings."""
    asked = getattr(plugin.runner_for(kind), "is_imported", None)
    return asked is not None and bool(asked())


def _key(kind: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Kinds that one runner runs have one process."""
    return _runner_name(kind), " ".join(f"{name}={value}" for name, value in sorted(variables.items()))


def _runner_name(kind: str) -> str:
    return str(getattr(plugin.runner_for(kind), "__name__", kind))


def _fork_server(kind: str, variables: Mapping[str, str]) -> None:
    """A process that serves forks for `kind`; with variables it imports what runs it by itself, before it serves."""
    key = _key(kind, variables)
    if key in _addresses:
        return
    address = f"warm.{os.getpid()}.{len(_addresses)}"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # else a collection in a fork writes to every object, and copies the pages that forks share
    worker = os.getpid()
    if os.fork():
        theirs.close()
        hold_connection(address, ours)
        _addresses[key] = address
        return
    fork_server.run_and_exit(lambda: _serve(theirs, worker, kind, variables))


def _stream(descriptor: int) -> TextIO:
    try:
        return io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), write_through=True)
    except OSError:  # it was closed before
        return io.StringIO()


def _let_go(kept: int) -> None:
    """Let go of what the worker has open, but for its streams and `kept`: a run in a sandbox could write to it.

    The worker tells of folders to remove over a pipe, and holds locks. Each number stays taken, by a device without
    content, because the objects that have it may close it yet.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the list itself is open no more
            os.fstat(number)
            if number > 2 and number not in (kept, null):
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _serve(client: socket.socket, worker: int, kind: str, variables: Mapping[str, str]) -> None:
    """Serve forks until the worker ends; in a fork, do what it is to do."""
    die_with_parent(worker)
    activity.forget_listeners()  # what forks are doing is no news for whoever watches the worker
    atexit._clear()  # nor is what the worker leaves behind theirs to tidy up
    try:
        work = _fork_to_do(client, kind, variables)
    except OSError:  # no more files or processes: who asks next finds nobody, and starts an interpreter
        os._exit(1)
    work()


def _fork_to_do(client: socket.socket, kind: str, variables: Mapping[str, str]) -> Callable[[], None]:
    """What a fork is to do, in the fork; raises `OSError` where the system gives no more of something."""
    _let_go(client.fileno())
    sys.stdout, sys.stderr = _stream(1), _stream(2)  # a thread that shows progress may have held their locks
    if variables:
        # numpy's and scipy's OpenBLAS start threads when they are loaded, and a process with threads serves no fork.
        os.environ.update(variables, OPENBLAS_NUM_THREADS="1")
        fork_server.preload_rooms([kind], [])
        gc.freeze()
    return fork_server.serve(client, imported=variables)
