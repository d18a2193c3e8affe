"""A child process forked from a warm process instead of started as a new interpreter; `convert batch` runs one."""

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
"""Environment variable with the path of a warm process's socket, if there is one (`convert.processes.fork_server`)."""

_PATIENCE = 30.0  # seconds for a fork, which takes milliseconds
_IMPORTS = 120.0  # seconds if runtimes may have to be imported first


OPEN = b"open"
"""Message that carries the other side of a new connection over an existing one; requests are JSON."""

_connections: dict[str, socket.socket] = {}
"""Connections through which others are opened, after this process lost the right to create sockets."""


def keep_connection(address: str, connection: socket.socket) -> None:
    """Open connections to `address` through this one from now on."""
    _connections[address] = connection


def keep_confined_connection(address: str, folder: Path, places: Sequence[Path]) -> None:
    """Connect to the warm process at `address` while that is still possible, for the rest of this process's life.

    Everything forked over this connection is confined like this process is about to be (`confine_command`). An
    unconfined fork would do whatever code in a file asks of it. Raises `OSError` without a warm process.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(_PATIENCE)
    connection.connect(address)
    connection.send(json.dumps({"confine": [str(folder), *map(str, places)]}).encode())
    keep_connection(address, connection)


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
    """Return the socket of the second warm process, for runtimes imported with other variables."""
    return address.rpartition(".")[0] + ".second"


class Child(Protocol):
    """The interface shared by `subprocess.Popen` and `ForkedProcess`."""

    pid: int
    returncode: Any

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ForkedProcess:
    """A process that is the child of another process, and the leader of its session."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection, self.pid = connection, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code (negative for a signal), or None while the process runs."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code after the process ended. Raises `subprocess.TimeoutExpired` after `timeout` seconds."""
        if self.returncode is None:
            self.connection.settimeout(timeout)
            try:
                answer = self.connection.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0) from None
            except OSError:
                answer = b""
            # The warm process died, and its forks die with it.
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
    """Fork the warm process at `address` to run `entry`; return the fork, or None if there is no warm process.

    - `entry`: a name in `fork_server.ENTRIES`, or `module:function`
    - `out`, `err`: file descriptors for its output
    - `variables`: environment variables that the runtimes must read during import, where they differ from the
      environment of the warm process. The second process of a batch (`second_address`) imports them for the first
      client, and serves clients with the same variables.
    - `kind`: of the artefact to run

    The fork has this process's folder and limit of address space.
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
