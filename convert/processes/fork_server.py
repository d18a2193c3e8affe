"""The process that warm workers are forked from: it has imported the frameworks, and runs no model itself.

A fork of it is a full worker process with its own session, limits and marks, and starts in milliseconds. The process
must have only one thread when it forks, because locks that another thread holds would never be released.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import math
import os
import resource
import selectors
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from convert import plugin
from convert.processes.fork_client import OPEN, second_address
from convert.processes.marks import MARK, write_mark
from convert.processes.sandbox import confine_command, die_with_parent
from convert.request.source import Source

ENTRIES: dict[str, str] = {"task": "convert.batch.child:convert", "run": "convert.processes.child:run"}
"""Functions that a fork may run, as module and function. A function gets the arguments of its command line. Backends
can name others.
"""

_CORE = (
    "convert.api", "convert.cli", "convert.parity.verify", "convert.passes.layout.assign",
    "convert.passes.opset.convert", "convert.passes.to_float64", "convert.reference.executor",
    "convert.reference.quantized", "convert.processes.child",
)  # fmt: skip


def main(place: str, parent: str, stages: str, idle: str = "") -> Callable[[], None]:
    """Serve until the parent ends; returns only in forks, with the function to run.

    - `stages`: JSON list of pairs of kinds and formats. After each stage but the last, a child continues with the next
      one. Meanwhile this process serves the requests that need no more than its stages, at the socket named `place`
      plus the stage number.
    - `idle`: seconds without clients after which the process exits. With `idle`, this process serves a single program,
      which will need both settings of a runtime that has two: such a runtime is imported with both in advance.
    """
    die_with_parent(int(parent))
    gc.disable()  # garbage collections take a third of TensorFlow's import time
    wanted = json.loads(stages)
    # PyTorch 2.13 creates its compiler's cache folder in the temporary folder when torch._dynamo is imported.
    os.environ["TMPDIR"], tempfile.tempdir = os.path.dirname(place), None
    preload([], [])
    here = os.getpid()
    if not (other := os.fork()):
        die_with_parent(here)
        listener = listening_socket(second_address(f"{place}.0"))
        variables = _import_under_other_settings(wanted[0][0]) if idle else {}
        return serve(listener, second=True, imported=variables, idle=float(idle or "inf"))
    for number, (kinds, formats) in enumerate(wanted):
        preload(kinds, formats)
        gc.freeze()  # otherwise a collection in a fork writes to every object, and copies the pages that forks share
        listener = listening_socket(f"{place}.{number}")
        print("ready", flush=True)
        here = os.getpid()
        if number + 1 == len(wanted) or os.fork():
            break
        die_with_parent(here)
        listener.close()
    return serve(listener, idle=float(idle or "inf"), after=other)


def listening_socket(place: str) -> socket.socket:
    """Return the socket in the file system at which clients ask for forks. Raises OSError if it cannot be created."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(place)
    listener.listen(64)
    return listener


class Variables:
    """The variables that the runtimes in this process read during import, in addition to its environment.

    The second process imports nothing in advance. It uses the variables of its first client, then imports what the
    requested kinds need.
    """

    def __init__(self, second: bool, values: Mapping[str, str]) -> None:
        self.open, self.values, self.kinds = second, dict(values), set[str]()

    def match(self, wanted: dict[str, str], kind: str, *, known: bool) -> bool:
        """Return whether the runtimes here were imported with the wanted variables.

        With `known`, only variables that the kind's runner allows are accepted.
        """
        if known and wanted and wanted not in _settings(kind):
            return False
        if self.open and wanted and not self.values:
            self.values = wanted
            os.environ.update(wanted)
        if self.open and wanted == self.values and kind not in self.kinds:
            self.kinds.add(kind)
            preload([kind], [])
            gc.freeze()
        return wanted == self.values


def _import_under_other_settings(kinds: Sequence[str]) -> dict[str, str]:
    """Import the runtimes of these kinds with their second setting; return its variables."""
    variables = Variables(True, {})
    for kind in kinds:
        for wanted in _settings(kind)[1:2]:
            variables.match(wanted, kind, known=False)
    return variables.values


def _settings(kind: str) -> list[dict[str, str]]:
    """Return the settings that the runtimes of a kind may be imported with."""
    asked = getattr(plugin.runner_for(kind), "settings", None)
    return [] if asked is None else list(asked(Source(kind)))


def serve(
    listener: socket.socket,
    *,
    second: bool = False,
    imported: Mapping[str, str] = MappingProxyType({}),
    idle: float = math.inf,
    after: int = 0,
) -> Callable[[], None]:
    """Fork for every client that asks for it; returns only in forks, with the function to run.

    - `listener`: where clients connect, or the first client, which opens connections for others (`fork_client.OPEN`)
    - `second`: import the runtimes when the first client comes
    - `imported`: the variables with which runtimes were imported here
    - `idle`: seconds without a client after which this process exits, but not before its child `after` has ended
    """
    variables = Variables(second, imported)
    with listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        listens = bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        while True:
            serving = len(selector.get_map()) > 1
            events = selector.select(None if serving or idle == math.inf else idle)
            if not events and not (after and os.waitpid(after, os.WNOHANG) == (0, 0)):
                os._exit(0)
            for key, _ in events:
                if listens and key.fileobj is listener:
                    try:
                        _register(listener.accept()[0], selector)
                    except OSError:  # no more file descriptors
                        time.sleep(_PAUSE)
                elif isinstance(key.fileobj, int):
                    _notify_client(key, selector)
                elif (child := _answer_client(key, selector, variables)) is not None:
                    return child


def preload(kinds: list[str], formats: list[str]) -> None:
    """Import the modules that these kinds and formats will need, except those that start threads."""
    for name in _CORE:
        importlib.import_module(name)
    with contextlib.suppress(ImportError):  # a private module: the operators of the evaluator, two hundred modules
        importlib.import_module("onnx.reference.ops._op_list")
    preload_packages(kinds, formats)


def preload_packages(kinds: list[str], formats: list[str]) -> None:
    """Import the modules of `preload` except those of the core."""
    importlib.import_module("convert.processes.child")
    plugin.runners()
    for kind in filter(None, kinds):
        for frontend in plugin.frontends().values():
            if kind in frontend.KINDS:
                getattr(frontend, "preload", lambda: None)()
    for name in filter(None, formats):
        getattr(plugin.backend_for(name), "preload", lambda: None)()


def _answer_client(
    key: selectors.SelectorKey, selector: selectors.BaseSelector, variables: Variables
) -> Callable[[], None] | None:
    """Answer one client with a fork and its pid. In the fork, return the function to run."""
    client = key.fileobj
    assert isinstance(client, socket.socket)
    try:
        data, fds, _, _ = socket.recv_fds(client, 1 << 20, 2)
    except BlockingIOError:
        return None
    except OSError:  # the client was killed before it read the answer, or opened something that is no connection
        data, fds = b"", []
    request = _read_request(data)
    if data != OPEN and request is None:  # the client and its fork are gone, or the message is invalid
        _let_go(client, selector)
        _close(fds)
        return None
    bounds = key.data  # the limits of this client's forks
    if request is None:
        for fd in fds:
            _open_connection(fd, selector, bounds)
        return None
    if "confine" in request:
        selector.modify(client, selectors.EVENT_READ, bounds or request["confine"])
        return None
    reason = _refusal(request, selector, variables, bounds)
    if reason:
        _answer(client, {"error": reason})
        _close(fds)
        return None
    server_pid = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no more processes
        _let_go(client, selector)
        _close(fds)
        return None
    if not pid:
        return _fork_entry(request, fds, selector, server_pid, bounds)
    _close(fds)
    try:
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client, bounds))
    except OSError:  # no more file descriptors
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        _let_go(client, selector)
        return None
    _answer(client, {"pid": pid})
    return None


_MOST = 64
"""Largest number of connections and forks of a client that is confined to one task; it needs three or four."""
_PAUSE = 0.1
"""Seconds to wait when no file descriptor is left for a new client."""


def _refusal(request: dict[str, Any], selector: selectors.BaseSelector, variables: Variables, bounds: Any) -> str:
    """Return why a request is refused, or ""."""
    if bounds is not None and _count(selector, bounds) > _MOST:
        return "too many forks"
    if not variables.match(request["variables"], request["kind"], known=bounds is not None):
        return "other variables"
    return f"{thread_count()} threads" if thread_count() > 1 else ""


def _count(selector: selectors.BaseSelector, bounds: list[str]) -> int:
    """Return how many connections and forks belong to clients with these bounds."""
    found = (key.data[2] if isinstance(key.data, tuple) else key.data for key in selector.get_map().values())
    return sum(other is bounds for other in found)


def _open_connection(fd: int, selector: selectors.BaseSelector, bounds: list[str] | None) -> None:
    """Serve a client at the other side of `fd`; close it if it is no connection, or one too many."""
    if bounds is not None and _count(selector, bounds) > _MOST:
        os.close(fd)
        return
    try:
        _register(socket.socket(fileno=fd), selector, bounds)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)


def _register(client: socket.socket, selector: selectors.BaseSelector, bounds: list[str] | None = None) -> None:
    client.setblocking(False)  # never wait for a client that does not read its answers
    selector.register(client, selectors.EVENT_READ, bounds)


def _answer(client: socket.socket, content: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # a client that does not read is dropped in the next iteration
        client.send(json.dumps(content).encode())


def _let_go(client: socket.socket, selector: selectors.BaseSelector) -> None:
    """Drop a client that is gone or invalid, and kill what was forked for it."""
    for other in list(selector.get_map().values()):
        if isinstance(other.fileobj, int) and other.data[1] is client:
            signal.pidfd_send_signal(other.fileobj, signal.SIGKILL)
    selector.unregister(client)
    client.close()


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


_REQUEST: dict[str, type] = {
    "entry": str, "arguments": list, "environment": dict, "folder": str, "limit": list, "variables": dict, "kind": str,
}  # fmt: skip
"""The required fields of a request for a fork."""


def _read_request(data: bytes) -> dict[str, Any] | None:
    """Return a client's request, or None if it is invalid; other clients are still served."""
    try:
        request = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    places = request.get("confine")
    if isinstance(places, list) and places and all(isinstance(place, str) for place in places):
        return request
    return request if all(isinstance(request.get(name), kind) for name, kind in _REQUEST.items()) else None


def _notify_client(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    """Tell a client how its fork ended."""
    assert isinstance(key.fileobj, int)
    pid, client, _ = key.data
    selector.unregister(key.fileobj)
    os.close(key.fileobj)
    _answer(client, {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})


def thread_count() -> int:
    """Return the number of threads of this process."""
    return len(os.listdir("/proc/self/task"))


# -- in a fork --------------------------------------------------------------------------------------------------------


def _fork_entry(
    request: dict[str, Any], fds: list[int], selector: selectors.BaseSelector, server_pid: int, bounds: list[str] | None
) -> Callable[[], None]:
    """Set up the fork and return the function to run.

    `bounds` are the folder in which it may write, and places beside which it may write; None if the client is
    unconfined.
    """
    die_with_parent(server_pid)
    os.setsid()
    if bounds is not None:
        confine_command(Path(bounds[0]), [Path(place) for place in bounds[1:]])
    gc.enable()
    for key in list(selector.get_map().values()):
        os.close(key.fileobj.detach() if isinstance(key.fileobj, socket.socket) else key.fd)
    null = os.open(os.devnull, os.O_RDONLY)
    for place, fd in enumerate([null, *fds]):
        os.dup2(fd, place)
        os.close(fd)
    if MARK in request["environment"]:
        write_mark(request["environment"][MARK])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # recomputed from the client's environment
    os.chdir(request["folder"])
    _limit_memory(request["limit"])
    module, _, name = ENTRIES.get(request["entry"], request["entry"]).partition(":")
    sys.argv = ["convert", *request["arguments"]]
    entry = getattr(importlib.import_module(module), name)
    return lambda: entry(request["arguments"])


def _limit_memory(wanted: list[int]) -> None:
    """Set the client's limit of address space, unless the batch has set a lower one meanwhile."""
    bounds = [n for n in (*wanted, *resource.getrlimit(resource.RLIMIT_AS)) if n != resource.RLIM_INFINITY]
    if bounds:
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), min(bounds)))


def run_and_exit(work: Callable[[], None]) -> None:
    """Run `work` and exit without tearing down the imported modules, which takes as long as starting."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    run_and_exit(main(*sys.argv[1:]))
