"""The sandbox of a process that runs a model: no writes outside its folder, no connections, no programs, fixed limits.

The checks of files and operators are the first line of defence. The sandbox is the second one, in case a check is
wrong. Linux offers it to processes without privileges: Landlock for files, seccomp for system calls, resource limits.
If a kernel or a library lacks one of them, the others still apply; `available_measures` says which are in force.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import errno
import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from convert.processes.disk_space import largest_file
from convert.processes.system_calls import (
    SET_PARENT_DEATH_SIGNAL,
    close_calls,
    close_forks_and_signals,
    close_networks,
    drop_rights,
)

FILES, CALLS, LIMITS = "files read-only", "no network, no programs", "limits of memory and time"
"""Names of measures that may be in force."""

_T = TypeVar("_T")

_OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_RANDOM_DEVICES = ("/dev/random", "/dev/urandom", "/dev/shm")
_UNREAD = ("/dev", "/sys/kernel/debug", "/sys/kernel/tracing")
"""Places where reading consumes data meant for other readers: keystrokes, messages, events."""
_REFER, _SIGNALS = 1 << 13, 2
"""Landlock: the right to move files between folders, which every ruleset removes unless it grants it; and signals."""
_CREATE_RULESET, _RESTRICT_SELF, _SET_NO_NEW_PRIVILEGES = 444, 446, 38
_SCOPES = 6
"""The first version of Landlock with rules for signals."""
_THREADS, _FILES = 4096, 65536
"""The most additional threads, and the most open files, of a process."""
_STACK = 16 << 20
"""Bytes of stack of a thread that reads a model, twice the usual size of a main thread's."""
_ENDS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors for exhausted files or memory."""
_TURN = 0.2
"""Seconds between checks for interruptions while a thread waits for one that reads a model."""


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends (Linux); exit at once if it has ended already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def confine(
    folder: Path, seconds: float, memory: int | None, *, programs: bool = False, trust: bool = False
) -> tuple[str, ...]:
    """Permanently remove the rights that no model needs from this process; return the measures in force.

    - `folder`: where it may write
    - `seconds`: its wall time; CPU time ends at this much per processor
    - `memory`: bytes of address space beyond what is mapped already; None allows as much private memory as the machine
      has
    - `programs`: whether it may start programs, which are confined as well, until it calls `close_programs`
    - `trust`: apply limits only

    Call it before libraries start threads: Landlock binds the calling thread and those that it starts later.
    """
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    steps: dict[str, Callable[[], None]] = {LIMITS: lambda: _limit(seconds, memory)}
    if not trust:
        steps |= {FILES: lambda: _close_files(folder), CALLS: lambda: _close_calls(programs)}
        with contextlib.suppress(OSError, ValueError):
            _lower(resource.RLIMIT_FSIZE, largest_file(folder))
        with _if_offered():
            _close_signals()
    found = []
    for name, step in steps.items():
        with _if_offered():
            step()
            found.append(name)
    _may_start_programs[:] = [True] if programs and CALLS in found else []
    if not trust:
        _is_confined[:] = [True]
    return tuple(found)


def confine_command(folder: Path, places: Sequence[Path]) -> None:
    """Restrict the process of one command, and its children, to the rights that reading an untrusted file needs.

    It may write into `folder` and beside `places` (files and folders that need not exist), and reach this machine only.
    Measures that the kernel lacks are skipped. Call it before libraries start threads.
    """
    # If memory runs out, the kernel should kill this process early. Its children cannot set this once they are
    # confined.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    _close_each((partial(_close_files, folder, *_folders_around(places)), close_networks))
    _is_confined[:] = [True]


def _folders_around(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the folder of each place twice: by its name, and after resolving links.

    For a folder that does not exist, the nearest existing parent is yielded.
    """
    for place in places:
        for path in (os.path.abspath(place), os.path.realpath(place)):
            yield next((folder for folder in Path(path).parents if folder.is_dir()), Path(path))


_is_confined: list[bool] = []
"""[True] if this whole process is confined, as far as the kernel allows it; else []."""


def is_confined() -> bool:
    """Return whether this whole process is confined, for a command or for the run of a model."""
    return bool(_is_confined)


_may_start_programs: list[bool] = []
"""[True] if this process is confined and may still start programs; else []."""


def close_programs() -> None:
    """Forbid starting programs from now on, in a process that `confine` allowed to; others are unchanged."""
    if _may_start_programs:
        close_calls(programs=False)
        _may_start_programs.clear()


def in_confined_thread(work: Callable[[], _T], folder: Path | None = None) -> _T:
    """Return the result of `work`, run in a thread that cannot write files, connect, or start programs.

    `folder` is where it may write nevertheless. This is for code that a file makes a library run while it is loaded.
    Landlock and seccomp bind one thread and those that it starts; other threads, and what they do with the result, are
    unrestricted. Raises what `work` raises.
    """
    return _in_thread(work, partial(confine_thread, folder))


def in_reading_thread(work: Callable[[], _T], *folders: Path) -> _T:
    """Return the result of `work`, run in a thread confined like a command's process: it may write into `folders` only.

    It may start programs, which are confined as well. Raises what `work` raises.
    """
    return _in_thread(work, partial(_close_each, (partial(_close_files, *folders), close_networks)))


def confine_thread(folder: Path | None = None) -> None:
    """Confine this thread, and those that it starts: no connections, no programs, writing only into `folder`."""
    last = partial(close_calls, programs=False, every_thread=False)
    _close_each((partial(_close_files, folder), drop_rights, last))


def _close_each(steps: Sequence[Callable[[], None]]) -> None:
    """Apply the steps, skipping those that the kernel lacks."""
    for step in steps:
        with _if_offered():
            step()


@contextlib.contextmanager
def _if_offered() -> Iterator[None]:
    """Context manager: ignore a measure that the kernel or a library lacks.

    Raises `OSError` if files or memory are exhausted: otherwise, code could disable the sandbox by using them up.
    """
    try:
        yield
    except (ImportError, RuntimeError, ValueError, AttributeError):
        pass
    except OSError as error:
        if error.errno in _ENDS:
            raise


def _in_thread(work: Callable[[], _T], close: Callable[[], None]) -> _T:
    """Run `close` and then `work` in a new thread with this thread's context; return what `work` returns, or raise.

    An interruption of this thread, for example by Ctrl-C, first ends the other thread: no abandoned work continues in
    the background.
    """
    results: list[_T] = []
    errors: list[BaseException] = []
    begun: list[int] = []
    given_up: list[bool] = []
    context = contextvars.copy_context()

    def run() -> None:
        begun.append(threading.get_ident())
        try:
            if not given_up:
                close()
                results.append(context.run(work))
        except BaseException as error:
            errors.append(error)

    tempfile.gettempdir()  # finding it writes a file, once
    thread = threading.Thread(target=run, name=_CONFINED)
    usual = threading.stack_size(_STACK)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_TURN)  # an exception from another thread is noticed only between waits
    except BaseException:
        given_up.append(True)
        _interrupt(thread, begun)
        raise
    finally:
        threading.stack_size(usual)
    if errors:
        raise errors[0]
    return results[0]


def _interrupt(thread: threading.Thread, begun: Sequence[int]) -> None:
    """Raise KeyboardInterrupt in a thread and wait for its end; forward each further interruption, too."""
    while begun and thread.is_alive():
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(begun[0]), ctypes.py_object(KeyboardInterrupt))
            while thread.is_alive():
                thread.join(_TURN)
        except BaseException:
            continue


_CONFINED = "confined"
_has_own_process: list[bool] = []
"""[True] if this process works for one command whose user set no memory limit; else []."""


def allow_bounded_memory() -> None:
    """Make `bounded_memory` effective from now on: this process does no other work."""
    _has_own_process[:] = [True]


@contextlib.contextmanager
def bounded_memory(allowance: int) -> Iterator[None]:
    """Context manager: give this process at most `allowance` more bytes of private memory; further allocations fail.

    The kernel limits whole processes. So no limit is set if the program has threads other than the one that waits for
    the file, or if the user set a memory limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = _private_bytes()
    chosen = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if not (_has_own_process or _is_alone()) or chosen or used is None:
        yield
        return
    bound = used + allowance
    resource.setrlimit(resource.RLIMIT_DATA, (bound if soft == resource.RLIM_INFINITY else min(soft, bound), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _is_alone() -> bool:
    """Return whether this is a reading thread, and the program has no other thread than the one that waits for it."""
    return threading.current_thread().name == _CONFINED and threading.active_count() == 2


def _address_space() -> int:
    """Return the mapped bytes; 0 if the kernel does not report them."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _private_bytes() -> int | None:
    """Return what counts for RLIMIT_DATA; None if the kernel does not report it."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmData:")).split()[1]) << 10
    return None


def keep_from_forking() -> None:
    """Restrict a program that a confined process starts: it can neither fork nor start programs (for `preexec_fn`).

    Its threads, signals to itself, and replacing itself by exec are allowed. A program of an unconfined process is not
    affected.
    """
    if _may_start_programs:
        with contextlib.suppress(ImportError, OSError, RuntimeError, ValueError, AttributeError):
            close_forks_and_signals()


def confine_parser() -> None:
    """Confine this process, which has one thread and parses an untrusted file: it also cannot fork or signal others."""
    with _if_offered():
        close_forks_and_signals()
    confine_thread()


def _limit(seconds: float, memory: int | None) -> None:
    with contextlib.suppress(OSError):  # kill this process first if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
    _lower(resource.RLIMIT_CORE, 0)
    if memory is not None:
        # A fork of a process that imported its frameworks has some gigabytes mapped already.
        _lower(resource.RLIMIT_AS, memory + _address_space())
    else:
        _lower(resource.RLIMIT_DATA, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    turns = int(seconds * (os.cpu_count() or 1)) + 60
    _lower(resource.RLIMIT_CPU, turns, turns + 5)
    _lower(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[0], _FILES)
    # on top of the threads of all users that the machine has now
    with contextlib.suppress(OSError, ValueError, IndexError):
        _lower(resource.RLIMIT_NPROC, int(Path("/proc/loadavg").read_text().split()[3].split("/")[1]) + _THREADS)
    for name in ("RLIMIT_RTPRIO", "RLIMIT_NICE", "RLIMIT_MSGQUEUE"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            _lower(getattr(resource, name), 0)


def _lower(limit: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit and its hard limit, unless they are lower already."""
    endless = resource.RLIM_INFINITY
    now = resource.getrlimit(limit)
    wanted = (soft, max(soft, hard or soft))
    lowest, highest = (w if n == endless else min(w, n) for w, n in zip(wanted, now, strict=True))
    resource.setrlimit(limit, (lowest, highest))


def _close_files(*folders: Path | None) -> None:
    """Restrict files by Landlock (kernel 5.13+).

    Everything but devices can be read; only `folders` and a few devices can be written.
    """
    from landlock import FSAccess, Ruleset

    ctypes.set_errno(0)  # otherwise the library reports the error of an earlier call as its own
    rules = Ruleset(restrict_rules=FSAccess.all() & ~FSAccess.EXECUTE & ~FSAccess.READ_DIR)
    try:
        for folder in filter(None, folders):
            rules.allow(folder)
        for place in (*_RANDOM_DEVICES, *_read_places("/")):
            try:
                rules.allow(place, rules=FSAccess.READ_FILE)
            except OSError as error:  # the path is gone, or in no file system
                if error.errno in _ENDS:
                    raise
                ctypes.set_errno(0)
        for device in filter(os.path.exists, _OWN_DEVICES):
            rules.allow(device, rules=FSAccess.all_file() & rules.restrict_rules)
        rules.apply()
    finally:
        os.close(rules._fd)  # the library never closes it


def _read_places(top: str) -> Iterator[str]:
    """Yield the files and folders below `top` that together contain everything readable."""
    for entry in os.scandir(top):
        if any(place.startswith(f"{entry.path}/") for place in _UNREAD):
            yield from _read_places(entry.path)
        elif entry.path not in _UNREAD and not entry.is_symlink():
            yield entry.path


def _close_signals() -> None:
    """Restrict signals to its own programs by Landlock (kernel 6.12+). Raises `OSError` if this fails."""
    from landlock import landlock_abi_version
    from landlock.plumbing import PathBeneathAttr, get_add_rule

    if landlock_abi_version() < _SCOPES:
        return
    library = ctypes.CDLL(None, use_errno=True)
    wanted = (ctypes.c_uint64 * 3)(_REFER, 0, _SIGNALS)  # rights to files, rights to ports, scopes
    rules = library.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(ctypes.sizeof(wanted)), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no rules of signals")
    top = os.open("/", os.O_PATH)
    ctypes.set_errno(0)
    try:
        get_add_rule()(rules, 1, ctypes.byref(PathBeneathAttr(_REFER, top)), 0)
        library.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if library.syscall(_RESTRICT_SELF, rules, 0):
            raise OSError(ctypes.get_errno(), "no rules of signals")
    finally:
        os.close(top)
        os.close(rules)


def _close_calls(programs: bool) -> None:
    with contextlib.suppress(OSError, AttributeError):
        drop_rights()
    close_calls(programs=programs)


def available_measures() -> tuple[str, ...]:
    """Return the measures that `confine` can put in force here, tried in a separate process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            # Any folder will do, for nothing is written. A folder made for this would be left behind: the confined
            # process cannot remove it, and commands that read no model end at once on a signal.
            os.write(writing, "\n".join(confine(Path("/"), 60, None)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as found:
        content = found.read()
    os.waitpid(pid, 0)
    return tuple(filter(None, content.split("\n")))
