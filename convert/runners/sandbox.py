"""What a process that runs a model may not do: write outside of its folder, connect, start programs, outgrow limits.

The checks of files and operators are the first wall; this is the second, which holds where one of them is wrong. Linux
offers it to any process without privileges: Landlock for the file system, seccomp for system calls, resource limits.
Where a kernel or a library lacks one of them the others hold, and `measures` says which are in force.
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

from convert.runners.disk_space import largest_file
from convert.runners.system_calls import (
    SET_PARENT_DEATH_SIGNAL,
    close_calls,
    close_forks_and_signals,
    close_networks,
    drop_rights,
)

FILES, CALLS, LIMITS = "files read-only", "no network, no programs", "limits of memory and time"
"""What may be in force."""

_T = TypeVar("_T")

_OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_RANDOM_DEVICES = ("/dev/random", "/dev/urandom", "/dev/shm")
_UNREAD = ("/dev", "/sys/kernel/debug", "/sys/kernel/tracing")
"""Where reading takes something away from who is meant to read it: keystrokes, messages, events."""
_REFER, _SIGNALS = 1 << 13, 2
"""Of Landlock: files may move between folders, which every list of rules forbids that does not say so; signals."""
_CREATE_RULESET, _RESTRICT_SELF, _SET_NO_NEW_PRIVILEGES = 444, 446, 38
_SCOPES = 6
"""The version of Landlock from which on it knows of signals."""
_THREADS, _FILES = 4096, 65536
"""The most threads that a process may have beside all that run now, and files that it may have open."""
_STACK = 16 << 20
"""Bytes of stack of a thread in which a model is read, twice what a main thread usually has."""
_ENDS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What the system says where files or memory end."""
_TURN = 0.2
"""Seconds after which who waits for such a thread looks whether it is wanted elsewhere."""


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent ends (Linux); ends at once if it has ended already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def confine(
    folder: Path, seconds: float, memory: int | None, *, programs: bool = False, trust: bool = False
) -> tuple[str, ...]:
    """Take from this process, for good, what a model has no use for; the measures that are in force.

    folder: where it may write. seconds: of wall time that it is given; CPU time ends at as much for each processor.
    memory: bytes of address space beyond what is mapped already, or None for as many of private memory as the machine
    has. programs: whether it may start programs, which are confined as it is, until it calls `close_programs`. trust:
    leave it everything but the limits.

    It has to come before libraries start threads: Landlock binds the thread that asks and those that it starts.
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
    """Take from the process of one command, and all that it starts, what reading a stranger's file has no use for.

    It may write into `folder` and beside `places` (files and folders that need not be there), and reach this machine
    only. What the kernel does not offer stays open. It has to come before libraries start threads.
    """
    with contextlib.suppress(OSError):  # where memory runs out: no process of its own can say so any more
        Path("/proc/self/oom_score_adj").write_text("500")
    _close_each((partial(_close_files, folder, *_folders_around(places)), close_networks))
    _is_confined[:] = [True]


def _folders_around(places: Sequence[Path]) -> Iterator[Path]:
    """The folder that each is in, by its name and by where a link leads, or the nearest around it that there is."""
    for place in places:
        for path in (os.path.abspath(place), os.path.realpath(place)):
            yield next((folder for folder in Path(path).parents if folder.is_dir()), Path(path))


_is_confined: list[bool] = []
"""Whether all of this process is confined, as far as the kernel lets it: nothing or True."""


def is_confined() -> bool:
    """Whether this process as a whole is confined, to a command or to the run of a model."""
    return bool(_is_confined)


_may_start_programs: list[bool] = []
"""Whether this process is confined and may start programs still: nothing or True."""


def close_programs() -> None:
    """From here on a process that `confine` has left programs starts none; any other is left as it is."""
    if _may_start_programs:
        close_calls(programs=False)
        _may_start_programs.clear()


def in_confined_thread(work: Callable[[], _T], folder: Path | None = None) -> _T:
    """What `work` gives, run in a thread that can write to no file, connect to nothing and start no program.

    folder: where it may write all the same. It is for what a file makes a library run while it is loaded. Landlock and
    seccomp bind one thread and those that it starts: the others, and what they do with the result, stay as they are.
    Raises what `work` raises.
    """
    return _in_thread(work, partial(confine_thread, folder))


def in_reading_thread(work: Callable[[], _T], *folders: Path) -> _T:
    """What `work` gives, run in a thread that is confined as a command's process is: it may write into `folders` only.

    It may start programs, which are confined as it is. Raises what `work` raises.
    """
    return _in_thread(work, partial(_close_each, (partial(_close_files, *folders), close_networks)))


def confine_thread(folder: Path | None = None) -> None:
    """Take from this thread, and those that it starts, all writing but into `folder`, connections and programs."""
    last = partial(close_calls, programs=False, every_thread=False)
    _close_each((partial(_close_files, folder), drop_rights, last))


def _close_each(steps: Sequence[Callable[[], None]]) -> None:
    """What the kernel does not offer stays open."""
    for step in steps:
        with _if_offered():
            step()


@contextlib.contextmanager
def _if_offered() -> Iterator[None]:
    """Inside, what the kernel or a library does not offer is passed over. Raises `OSError` where files or memory end:
    whoever uses them up before would open all doors."""
    try:
        yield
    except (ImportError, RuntimeError, ValueError, AttributeError):
        pass
    except OSError as error:
        if error.errno in _ENDS:
            raise


def _in_thread(work: Callable[[], _T], close: Callable[[], None]) -> _T:
    """What `work` gives in a thread that has called `close`, in the context of this one; raises what it raises.

    An interruption of this thread, by Ctrl-C for instance, ends the other one before it goes on: nothing is done behind
    the back of who gave it up.
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

    tempfile.gettempdir()  # it is found by writing a file, once
    thread = threading.Thread(target=run, name=_CONFINED)
    usual = threading.stack_size(_STACK)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_TURN)  # of a thread that waits, an exception that another one sends is seen in between only
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
    """Let a thread see a KeyboardInterrupt, and wait until it has ended; each further interruption is passed on too."""
    while begun and thread.is_alive():
        try:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(begun[0]), ctypes.py_object(KeyboardInterrupt))
            while thread.is_alive():
                thread.join(_TURN)
        except BaseException:
            continue


_CONFINED = "confined"
_has_own_process: list[bool] = []
"""Whether this process works for one command, whose user said nothing of memory: nothing or True."""


def allow_bounded_memory() -> None:
    """From here on `bounded_memory` has an effect: nobody else's work is in this process."""
    _has_own_process[:] = [True]


@contextlib.contextmanager
def bounded_memory(allowance: int) -> Iterator[None]:
    """Inside, this process gets `allowance` bytes of private memory and no more; what asks for more is refused it.

    The kernel bounds whole processes: where a program has other threads than the one that waits for a file to be read,
    or memory has a limit that the user chose, nothing changes.
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
    """Whether this is a thread for reading, and the program has none beside it but the one that waits for it."""
    return threading.current_thread().name == _CONFINED and threading.active_count() == 2


def _address_space() -> int:
    """Bytes that are mapped; 0 where the kernel does not tell."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _private_bytes() -> int | None:
    """What counts for RLIMIT_DATA; None where the kernel does not tell."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmData:")).split()[1]) << 10
    return None


def keep_from_forking() -> None:
    """Of a program that a confined process starts (`preexec_fn`): it may neither fork nor start programs beside itself.

    Its threads, its signals to itself and the program that takes its place are not concerned; nor is a program of a
    process that is not confined.
    """
    if _may_start_programs:
        with contextlib.suppress(ImportError, OSError, RuntimeError, ValueError, AttributeError):
            close_forks_and_signals()


def _limit(seconds: float, memory: int | None) -> None:
    with contextlib.suppress(OSError):  # where memory runs out this process goes first
        Path("/proc/self/oom_score_adj").write_text("1000")
    _lower(resource.RLIMIT_CORE, 0)
    if memory is not None:
        # A fork of a process that has imported its frameworks has them mapped already, some gigabytes.
        _lower(resource.RLIMIT_AS, memory + _address_space())
    else:
        _lower(resource.RLIMIT_DATA, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    turns = int(seconds * (os.cpu_count() or 1)) + 60
    _lower(resource.RLIMIT_CPU, turns, turns + 5)
    _lower(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[0], _FILES)
    with contextlib.suppress(OSError, ValueError, IndexError):  # as many as the machine has now, of all users
        _lower(resource.RLIMIT_NPROC, int(Path("/proc/loadavg").read_text().split()[3].split("/")[1]) + _THREADS)
    for name in ("RLIMIT_RTPRIO", "RLIMIT_NICE", "RLIMIT_MSGQUEUE"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            _lower(getattr(resource, name), 0)


def _lower(limit: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, and the most to which it can be raised again, unless they are lower."""
    endless = resource.RLIM_INFINITY
    now = resource.getrlimit(limit)
    wanted = (soft, max(soft, hard or soft))
    lowest, highest = (w if n == endless else min(w, n) for w, n in zip(wanted, now, strict=True))
    resource.setrlimit(limit, (lowest, highest))


def _close_files(*folders: Path | None) -> None:
    """Landlock (kernel 5.13 and later): files can be read but for devices, only `folders` and a few devices written."""
    from landlock import FSAccess, Ruleset

    ctypes.set_errno(0)  # the library takes what an earlier call has left there for an error of its own
    rules = Ruleset(restrict_rules=FSAccess.all() & ~FSAccess.EXECUTE & ~FSAccess.READ_DIR)
    try:
        for folder in filter(None, folders):
            rules.allow(folder)
        for place in (*_RANDOM_DEVICES, *_read_places("/")):
            try:
                rules.allow(place, rules=FSAccess.READ_FILE)
            except OSError as error:  # it has gone, or is no file system's
                if error.errno in _ENDS:
                    raise
                ctypes.set_errno(0)
        for device in filter(os.path.exists, _OWN_DEVICES):
            rules.allow(device, rules=FSAccess.all_file() & rules.restrict_rules)
        rules.apply()
    finally:
        os.close(rules._fd)  # which the library keeps open for good


def _read_places(top: str) -> Iterator[str]:
    """The files and folders below `top` that hold everything that may be read."""
    for entry in os.scandir(top):
        if any(place.startswith(f"{entry.path}/") for place in _UNREAD):
            yield from _read_places(entry.path)
        elif entry.path not in _UNREAD and not entry.is_symlink():
            yield entry.path


def _close_signals() -> None:
    """Landlock (kernel 6.12 and later): no signals but to its own programs. Raises `OSError` before."""
    from landlock import landlock_abi_version
    from landlock.plumbing import PathBeneathAttr, get_add_rule

    if landlock_abi_version() < _SCOPES:
        return
    library = ctypes.CDLL(None, use_errno=True)
    wanted = (ctypes.c_uint64 * 3)(_REFER, 0, _SIGNALS)  # rights of files, of ports, and what stays within
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
    """What `confine` has in force here, tried in a process of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException), tempfile.TemporaryDirectory() as folder:
            os.write(writing, "\n".join(confine(Path(folder), 60, None)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as found:
        content = found.read()
    os.waitpid(pid, 0)
    return tuple(filter(None, content.split("\n")))
