"""A child process that a warm process forks for its client, in place of a new interpreter: `convert batch` runs one."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

ADDRESS = "CONVERT_NURSERY"
"""The variable that holds the path of the warm process's socket, where there is one (`convert.runners.fork_server`)."""

_PATIENCE = 30.0  # seconds for a fork; it takes milliseconds
_IMPORTS = 120.0  # seconds where runtimes may have to be imported before


OPEN = b"open"
"""What is sent over a held connection with the other end of a new one; requests are JSON."""

_connections: dict[str, socket.socket] = {}
"""Connections over which others are opened, where this process has no sockets of its own any more."""


def hold_connection(address: str, connection: socket.socket) -> None:
    """From here on connections to `address` are opened over this one."""
    _connections[address] = connection


def hold_confined(address: str, folder: Path, places: Sequence[Path]) -> None:
    """Connect to the warm process at `address`, as long as this one can, and for as long as it is there.

    All that is forked over such a connection is confined as this process is about to be (`confine_command`): a process
    that is not confined itself would do anything for whatever a file's code asks it. Raises `OSError` without one.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_PATIENCE)
    connection.connect(address)
    connection.send(json.dumps({"confine": [str(folder), *map(str, places)]}).encode())
    hold_connection(address, connection)


def _connect(address: str) -> socket.socket:
    holder = _connections.get(address)
    if holder is None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(address)
        return connection
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(holder, [OPEN], [theirs.fileno()])
    return ours


def second_address(address: str) -> str:
    """The socket of the warm process for runtimes that are told something else when they are imported."""
    return address.rpartition(".")[0] + ".second"


class Child(Protocol):
    """What is used of a child process: of `subprocess.Popen`, or of `ForkedProcess`."""

    pid: int
    returncode: Any

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ForkedProcess:
    """A process that is the child of another one; the leader of its session."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection, self.pid = connection, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal, or None while it runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                answer = self.connection.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0) from None
            except OSError:
                answer = b""
            # The warm process has died, and what it had forked dies with it.
            self.returncode = json.loads(answer)["code"] if answer else -signal.SIGKILL
            self.connection.close()
        return self.returncode


def fork(
    entry: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    out: int,
    err: int,
    address: str,
    variables: Mapping[str, str] | None = None,
    kind: str = "",
) -> ForkedProcess | None:
    """A fork of the warm process at `address` that does `entry`, or None if there is none.

    entry: a name of `fork_server.ENTRIES`, or `module:function`.
    out and err: file descriptors for its output. It has this process's folder and limit of address space. variables:
    what runtimes have to read when they are imported, other than its environment says; the second process of a batch
    (`second_address`) imports them for the first that asks, and serves those that want the same. kind: of what is run.
    """
    if not address:
        return None
    request = {
        "entry": entry,
        "arguments": list(arguments),
        "environment": dict(environment),
        "folder": os.getcwd(),
        "limit": resource.getrlimit(resource.RLIMIT_AS),
        "variables": dict(variables or {}),
        "kind": kind,
    }
    try:
        connection = _connect(address)
    except OSError:
        return None
    try:
        connection.settimeout(_IMPORTS if variables else _PATIENCE)
        socket.send_fds(connection, [json.dumps(request).encode()], [out, err])
        reply = connection.recv(1 << 16)
    except OSError:
        reply = b""
    answer = json.loads(reply) if reply else {}
    if "pid" not in answer:
        connection.close()
        return None
    return ForkedProcess(connection, answer["pid"])
