"""The process that warm workers are forked from: it has imported the frameworks, and runs no model itself.

A fork of it is a process of its own as any worker is, with its own session, limits and marks, and starts in
milliseconds. It has one thread whenever it forks, because locks that another thread holds would stay locked for good.
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
from convert.runners.fork_client import OPEN, second_address
from convert.runners.marks import MARK, write_mark
from convert.runners.sandbox import confine_command, die_with_parent
from convert.source import Source

ENTRIES: dict[str, str] = {"task": "convert.batch.child:convert", "run": "convert.runners.child:run"}
"""What a fork may become: module and function, which takes the arguments of its command line. A backend names its own.
"""

_CORE = (
    "convert.api", "convert.cli", "convert.parity.verify", "convert.passes.layout.assign",
    "convert.passes.opset.convert", "convert.passes.to_float64", "convert.reference.executor",
    "convert.reference.quantized", "convert.runners.child",
)  # fmt: skip


def main(place: str, parent: str, stages: str, idle: str = "") -> Callable[[], None]:
    """Serve until the parent ends; returns in forks only: what the fork is to do.

    stages: JSON of lists of kinds and formats. After each but the last a child goes on to import the next, while this
    process serves those that need no more, at the socket that is called `place` and the number of the stage. idle:
    seconds after which a process ends that serves nobody; with it, what runs under two settings is imported for both
    before somebody asks, because the one program that this is for will.
    """
    die_with_parent(int(parent))
    gc.disable()  # a third of the time that TensorFlow takes to import
    wanted = json.loads(stages)
    # PyTorch 2.13 makes a folder for its compiler's cache in the temporary folder when torch._dynamo is imported.
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
        gc.freeze()  # else a collection in a fork writes to every object, and copies the pages that forks share
        listener = listening_socket(f"{place}.{number}")
        print("ready", flush=True)
        here = os.getpid()
        if number + 1 == len(wanted) or os.fork():
            break
        die_with_parent(here)
        listener.close()
    return serve(listener, idle=float(idle or "inf"), after=other)


def listening_socket(place: str) -> socket.socket:
    """Where clients ask for forks: a socket of the file system. Raises OSError where there can be none."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(place)
    listener.listen(64)
    return listener


class Variables:
    """What the runtimes of this process have been told when they were imported, beside what its environment says.

    The second process is told what its first client asks for, and imports nothing before; then what the kinds need
    that it is asked to run.
    """

    def __init__(self, second: bool, values: Mapping[str, str]) -> None:
        self.open, self.values, self.kinds = second, dict(values), set[str]()

    def suit(self, wanted: dict[str, str], kind: str, *, known: bool) -> bool:
        """Whether the runtimes here have been told what is wanted; `known`, only what their runner may be told."""
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
    """Import what runs these kinds under the settings that come second; the variables that it was told."""
    variables = Variables(True, {})
    for kind in kinds:
        for wanted in _settings(kind)[1:2]:
            variables.suit(wanted, kind, known=False)
    return variables.values


def _settings(kind: str) -> list[dict[str, str]]:
    """What the runtimes of a kind may be told."""
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
    """Fork for every client that asks for it; returns in forks only: what the fork is to do.

    listener: where clients connect, or the first client, which opens connections for others (`fork_client.OPEN`).
    second: the runtimes are imported when the first one comes. imported: what they have been told, where they are here.
    idle: seconds without a client after which this process ends, which is not before its child `after` has ended.
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
                    except OSError:  # no more files
                        time.sleep(_PAUSE)
                elif isinstance(key.fileobj, int):
                    _notify_client(key, selector)
                elif (child := _answer_client(key, selector, variables)) is not None:
                    return child


def preload(kinds: list[str], formats: list[str]) -> None:
    """Import what the rooms for these kinds and formats will need, as far as that starts no thread."""
    for name in _CORE:
        importlib.import_module(name)
    with contextlib.suppress(ImportError):  # private: the operators of the evaluator, two hundred modules
        importlib.import_module("onnx.reference.ops._op_list")
    preload_rooms(kinds, formats)


def preload_rooms(kinds: list[str], formats: list[str]) -> None:
    """The same without the core."""
    importlib.import_module("convert.runners.child")
    plugin.runners()
    for kind in filter(None, kinds):
        for room in plugin.frontends().values():
            if kind in room.KINDS:
                getattr(room, "preload", lambda: None)()
    for name in filter(None, formats):
        getattr(plugin.backend_for(name), "preload", lambda: None)()


def _answer_client(
    key: selectors.SelectorKey, selector: selectors.BaseSelector, variables: Variables
) -> Callable[[], None] | None:
    """Answer one client: a fork, and its number. In the fork, what it is to do."""
    client = key.fileobj
    assert isinstance(client, socket.socket)
    try:
        data, fds, _, _ = socket.recv_fds(client, 1 << 20, 2)
    except BlockingIOError:
        return None
    except OSError:  # it was killed before it had read our answer, or has opened what is no connection
        data, fds = b"", []
    request = _read_request(data)
    if data != OPEN and request is None:  # the client has gone, and its fork with it; or it sends what is no request
        _let_go(client, selector)
        _close(fds)
        return None
    bounds = key.data  # of what is forked for this client
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
    nursery = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no more processes
        _let_go(client, selector)
        _close(fds)
        return None
    if not pid:
        return _fork_entry(request, fds, selector, nursery, bounds)
    _close(fds)
    try:
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client, bounds))
    except OSError:  # no more files
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        _let_go(client, selector)
        return None
    _answer(client, {"pid": pid})
    return None


_MOST = 64
"""Connections that what is confined to one task may have open here, and forks; it uses three or four."""
_PAUSE = 0.1
"""Seconds until a client is asked in again for whom there was no descriptor."""


def _refusal(request: dict[str, Any], selector: selectors.BaseSelector, variables: Variables, bounds: Any) -> str:
    """Why nothing is forked for a request, "" where it is."""
    if bounds is not None and _count(selector, bounds) > _MOST:
        return "too many forks"
    if not variables.suit(request["variables"], request["kind"], known=bounds is not None):
        return "other variables"
    return f"{thread_count()} threads" if thread_count() > 1 else ""


def _count(selector: selectors.BaseSelector, bounds: list[str]) -> int:
    """How many connections and forks belong to those who have these bounds."""
    found = (key.data[2] if isinstance(key.data, tuple) else key.data for key in selector.get_map().values())
    return sum(other is bounds for other in found)


def _open_connection(fd: int, selector: selectors.BaseSelector, bounds: list[str] | None) -> None:
    """Serve a client at the other end of `fd`; it is closed where that is no connection, or one too many."""
    if bounds is not None and _count(selector, bounds) > _MOST:
        os.close(fd)
        return
    try:
        _register(socket.socket(fileno=fd), selector, bounds)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)


def _register(client: socket.socket, selector: selectors.BaseSelector, bounds: list[str] | None = None) -> None:
    client.setblocking(False)  # nobody is waited for who does not read his answers
    selector.register(client, selectors.EVENT_READ, bounds)


def _answer(client: socket.socket, content: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nor does anybody wait for it: it is let go at the next turn
        client.send(json.dumps(content).encode())


def _let_go(client: socket.socket, selector: selectors.BaseSelector) -> None:
    """A client that has gone, or that is no good, and what was forked for it."""
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
"""What a request for a fork has."""


def _read_request(data: bytes) -> dict[str, Any] | None:
    """What a client asks for, None where it is nothing: other clients are served all the same."""
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
    """A fork has ended: its client is told how."""
    assert isinstance(key.fileobj, int)
    pid, client, _ = key.data
    selector.unregister(key.fileobj)
    os.close(key.fileobj)
    _answer(client, {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})


def thread_count() -> int:
    """How many threads this process has."""
    return len(os.listdir("/proc/self/task"))


# -- in a fork --------------------------------------------------------------------------------------------------------


def _fork_entry(
    request: dict[str, Any], fds: list[int], selector: selectors.BaseSelector, nursery: int, bounds: list[str] | None
) -> Callable[[], None]:
    """bounds: the folder in which it may write, and places beside which; None where its client is not confined."""
    die_with_parent(nursery)
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
    tempfile.tempdir = None  # it is asked for again, in the environment of the client
    os.chdir(request["folder"])
    _limit_memory(request["limit"])
    module, _, name = ENTRIES.get(request["entry"], request["entry"]).partition(":")
    sys.argv = ["convert", *request["arguments"]]
    entry = getattr(importlib.import_module(module), name)
    return lambda: entry(request["arguments"])


def _limit_memory(wanted: list[int]) -> None:
    """The client's limit of address space, unless the batch has set a lower one meanwhile."""
    bounds = [n for n in (*wanted, *resource.getrlimit(resource.RLIMIT_AS)) if n != resource.RLIM_INFINITY]
    if bounds:
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), min(bounds)))


def run_and_exit(work: Callable[[], None]) -> None:
    """Do it and end, without taking apart the modules that were imported, which costs as much as starting."""
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
