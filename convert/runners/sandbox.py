"""What a process that runs a model may not do: write outside of its folder, connect, start programs, outgrow limits.

The checks of files and operators are the first wall; this is the second, which holds where one of them is wrong. Linux
offers it to any process without privileges: Landlock for the file system, seccomp for system calls, resource limits.
Where a kernel or a library lacks one of them the others hold, and `measures` says which are in force.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

FILES, CALLS, LIMITS = "files read-only", "no network, no programs", "limits of memory and time"
"""What may be in force."""

_T = TypeVar("_T")

_OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

_REFUSED = (
    # connections, those within the machine too
    "socket", "connect", "bind", "listen", "accept", "accept4",
    # other programs and processes
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
    # what goes around the file system's rules, or around this list
    "io_uring_setup", "mount", "umount2", "move_mount", "open_tree", "fsopen", "pivot_root", "chroot", "setns",
    "unshare", "open_by_handle_at", "name_to_handle_at", "memfd_secret",
    # the machine
    "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "syslog", "acct", "quotactl",
    "settimeofday", "clock_settime", "sethostname", "setdomainname", "vhangup", "fanotify_init", "ioperm", "iopl",
    # another user's rights, with which a child would outlive its parent
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
    # attributes and modes of files, which Landlock leaves alone
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat",
    "futimesat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "setxattrat",
    "removexattrat", "file_setattr",
    # what all processes of the user share, and outlives this one
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "setpriority", "ioprio_set", "process_madvise", "process_mrelease", "migrate_pages",
    "move_pages",
)  # fmt: skip
"""System calls that fail with EPERM; those that a kernel or an architecture has not are passed over."""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_CLONE_THREAD = 0x00010000
_REQUESTS = (0x5412, 0x541C, 0x40086602, 0x401C5820, 0x40087602, 0x8901, 0x8902)
"""Of ioctl(2), for files that are open to be read: TIOCSTI and TIOCLINUX type into the user's terminal, where a shell
reads it; FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR and FS_IOC_SETVERSION set attributes of files; FIOSETOWN and SIOCSPGRP send
signals to another process, as what follows does."""
_FILE_COMMANDS = (8, 10, 15, 1024, 1026)
"""Of fcntl(2): F_SETOWN, F_SETSIG and F_SETOWN_EX let a pipe send any signal to any process of the user, SIGKILL too;
F_SETLEASE and F_NOTIFY hold up who opens a file, and watch it."""
_REQUEST_BITS = 0xFFFFFFFF
_FILE_KIND = 0o170000


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process as soon as its parent ends (Linux); ends at once if it has ended already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
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
    found = []
    for name, step in steps.items():
        with contextlib.suppress(ImportError, OSError, RuntimeError, ValueError, AttributeError):
            step()
            found.append(name)
    _may_start_programs[:] = [True] if programs and CALLS in found else []
    return tuple(found)


_may_start_programs: list[bool] = []
"""Whether this process is confined and may start programs still: nothing or True."""


def close_programs() -> None:
    """From here on a process that `confine` has left programs starts none; any other is left as it is."""
    if _may_start_programs:
        _close_calls(programs=False)
        _may_start_programs.clear()


def in_confined_thread(work: Callable[[], _T], folder: Path | None = None) -> _T:
    """What `work` gives, run in a thread that can write to no file, connect to nothing and start no program.

    folder: where it may write all the same. It is for what a file makes a library run while it is loaded. Landlock and
    seccomp bind one thread and those that it starts: the others, and what they do with the result, stay as they are.
    Raises what `work` raises.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        for close in (lambda: _close_files(folder), lambda: _close_calls(programs=False, every_thread=False)):
            with contextlib.suppress(ImportError, OSError, RuntimeError, ValueError, AttributeError):
                close()
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    tempfile.gettempdir()  # it is found by writing a file, once
    thread = threading.Thread(target=run, name="confined")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


_has_own_process: list[bool] = []
"""Whether this process works for one command, whose user said nothing of memory: nothing or True."""


def allow_bounded_memory() -> None:
    """From here on `bounded_memory` has an effect: nobody else's work is in this process."""
    _has_own_process[:] = [True]


@contextlib.contextmanager
def bounded_memory(allowance: int) -> Iterator[None]:
    """Inside, this process gets `allowance` bytes of private memory and no more; what asks for more is refused it.

    The kernel bounds whole processes: where a program may have other work in this one, or memory has a limit that the
    user chose, nothing changes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = _private_bytes()
    chosen = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    if not _has_own_process or chosen or used is None:
        yield
        return
    bound = used + allowance
    resource.setrlimit(resource.RLIMIT_DATA, (bound if soft == resource.RLIM_INFINITY else min(soft, bound), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


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
            import pyseccomp as seccomp

            rules = seccomp.SyscallFilter(seccomp.ALLOW)
            _refuse_forks(rules)
            rules.load()


def _limit(seconds: float, memory: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory is not None:
        # A fork of a process that has imported its frameworks has them mapped already, some gigabytes.
        bound = memory + _address_space()
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        bound = bound if most == resource.RLIM_INFINITY else min(bound, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    else:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (whole, whole))
    turns = int(seconds * (os.cpu_count() or 1)) + 60
    resource.setrlimit(resource.RLIMIT_CPU, (turns, turns + 5))


def _close_files(folder: Path | None) -> None:
    """Landlock (kernel 5.13 and later): everything can be read, only `folder` and a few devices be written."""
    from landlock import FSAccess, Ruleset

    reading = FSAccess.EXECUTE | FSAccess.READ_FILE | FSAccess.READ_DIR
    rules = Ruleset(restrict_rules=FSAccess.all() & ~reading)
    if folder is not None:
        rules.allow(folder)
    for device in filter(os.path.exists, _OWN_DEVICES):
        rules.allow(device, rules=FSAccess.all_file() & ~reading & rules.restrict_rules)
    rules.apply()


def _close_calls(programs: bool, *, every_thread: bool = True) -> None:
    """seccomp: system calls that a model has no use for fail with EPERM, in every thread or in this one."""
    import errno

    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, int(every_thread))
    refused = [n for n in _REFUSED if not (programs and n in ("execve", "execveat"))]
    for name in refused:
        with contextlib.suppress(ValueError, OSError, RuntimeError):
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    for request in _REQUESTS:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, _REQUEST_BITS, request))
    for command in _FILE_COMMANDS:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, _REQUEST_BITS, command))
    for name, place in (("mknod", 1), ("mknodat", 2)):  # devices, which a user with all rights may make in any folder
        with contextlib.suppress(ValueError, OSError, RuntimeError):
            for kind in (stat.S_IFCHR, stat.S_IFBLK):
                rule = seccomp.Arg(place, seccomp.MASKED_EQ, _FILE_KIND, kind)
                rules.add_rule(seccomp.ERRNO(errno.EPERM), name, rule)
    for name in ("sched_setscheduler", "sched_setparam", "sched_setattr"):  # of another process: 0 is this thread
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, 0))
    own, deadly = seccomp.Arg(0, seccomp.EQ, _SET_PARENT_DEATH_SIGNAL), seccomp.Arg(1, seccomp.NE, signal.SIGKILL)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "prctl", own, deadly)  # it dies with its parent
    with contextlib.suppress(ValueError, OSError, RuntimeError):  # limits of another process: 0 is this one
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    if not programs:
        _refuse_forks(rules)
        # Programs inherit the rules, and are another process: none of these lets them abort, or us end them.
        own = os.getpid()
        for name in _SIGNALS[:3]:
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, own))
        for name in _SIGNALS[3:]:
            with contextlib.suppress(ValueError, OSError, RuntimeError):
                rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    rules.load()


def _refuse_forks(rules: Any) -> None:
    """Threads are clones that share everything; clone3 hides its flags behind a pointer, and libraries try clone."""
    import errno

    import pyseccomp as seccomp

    for name in ("fork", "vfork"):
        with contextlib.suppress(ValueError, OSError, RuntimeError):  # which some architectures have not
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))


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
