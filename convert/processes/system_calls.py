"""The system calls that a process which runs a model does not need, and the related rights (seccomp)."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of prctl(2)."""

_REFUSED = (
    # connections, including local ones
    "socket", "connect", "bind", "listen", "accept", "accept4",
    # other programs and processes; a session or group of its own would escape from whoever kills a group
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "setsid", "setpgid",
    # ways around the rules of the file system, or around this list
    "io_uring_setup", "mount", "umount2", "move_mount", "mount_setattr", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at", "name_to_handle_at",
    # memory that belongs to no process and that no limit includes
    "memfd_create", "memfd_secret",
    # settings of the machine
    "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "syslog", "acct", "quotactl",
    "quotactl_fd", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    "vhangup", "fanotify_init", "ioperm", "iopl", "modify_ldt", "sync", "syncfs",
    # the rights of another user, with which a child would outlive its parent
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
    # attributes and modes of files, which Landlock does not restrict
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat",
    "futimesat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "setxattrat",
    "removexattrat", "file_setattr",
    # resources that all processes of the user share: they run out, or outlive this process
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "setpriority", "ioprio_set", "process_madvise", "process_mrelease", "migrate_pages",
    "move_pages", "inotify_init", "inotify_init1", "inotify_add_watch", "io_setup",
)  # fmt: skip
"""System calls that fail with EPERM; those that a kernel or an architecture lacks are skipped."""
_RECENT = range(424, 640)
_KNOWN = (424, 434, 435, 436, 437, 439, 441, 444, 445, 446, 449, 453, 454, 455, 456, 462, 464, 465, 468)
"""`_RECENT`: numbers from 424 on, where system calls are the same on all architectures.

`_KNOWN`: those that are allowed, namely pidfd_send_signal and clone3 (which have rules of their own), pidfd_open,
close_range, openat2, faccessat2, epoll_pwait2, landlock_*, futex_*, map_shadow_stack, mseal, getxattrat, listxattrat,
file_getattr. All others fail with ENOSYS, because a library may know fewer names than the kernel has calls.
"""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_CLONE_THREAD = 0x00010000
_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""Flags of clone(2) for new namespaces; in a new user namespace a process has all rights."""
_REQUESTS = (
    0x2, 0x5401, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451, 0x5460, 0x80086601, 0x802C542A,
    0xC020660B,
)  # fmt: skip
"""Requests of ioctl(2) that are allowed: sizes, kinds, and what waits to be read.

Other requests, on files open for reading, can type into the user's terminal or stop it, set attributes of files and
file systems, make a file permanently read-only (verity) or a folder encrypted, freeze a file system, and send signals.
"""
_FILE_COMMANDS = (0, 1, 2, 3, 4, 5, 9, 11, 16, 36, 1025, 1030, 1032, 1033, 1034)
"""Commands of fcntl(2) that are allowed: copies and flags of descriptors, and queries.

Among the others, F_SETOWN, F_SETSIG and F_SETOWN_EX let a pipe send any signal, even SIGKILL, to any process of the
user; F_SETLEASE and F_NOTIFY delay or watch whoever opens a file; F_SET_RW_HINT writes to readable files.
"""
_LOCKS = (6, 7, 37, 38)
"""Commands of fcntl(2) for locks, which could block the user's programs wherever a file is readable."""
_WORD = 32
_WORD_BITS = (1 << _WORD) - 1
_FILE_KIND = 0o170000
_SOCKET_KINDS = 0xF
"""The bits of the second argument of socket(2) that hold the kind; the others are flags."""
_KEPT_RIGHTS = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root may read the files of other users, and nothing more."""
_CAPABILITY_VERSION = 0x20080522


def drop_rights() -> None:
    """Permanently drop all rights of root but reading and writing files, in this thread.

    Raises `OSError` if the kernel does not allow it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if library.capget(header, rights) or library.capset(header, _only_kept(rights)):
        raise OSError(ctypes.get_errno(), "the rights of this process stay as they are")


def _only_kept(rights: Any) -> Any:
    """Return the effective, permitted and inherited rights to keep, all lower halves before the upper ones."""
    kept = [rights[n] & _KEPT_RIGHTS for n in (0, 1)]
    return (ctypes.c_uint32 * 6)(*kept, 0, 0, 0, 0)


def close_calls(*, programs: bool, every_thread: bool = True) -> None:
    """Forbid the system calls that a model does not need, in every thread of this process or in this one only.

    `programs`: whether it may start programs and signal them. Raises `OSError` or `RuntimeError` without seccomp, and
    `ImportError` without the library.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, int(every_thread))
    _refuse_names(rules, [n for n in _REFUSED if not (programs and n in ("execve", "execveat"))])
    for command in _LOCKS:  # the same error as on a file system without locks, which libraries tolerate
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, _WORD_BITS, command))
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "flock")
    _refuse_all_but(rules, "fcntl", 1, (*_FILE_COMMANDS, *_LOCKS))
    _refuse_all_but(rules, "ioctl", 1, _REQUESTS)
    for name, place in (("mknod", 1), ("mknodat", 2)):
        # Devices, which root may create in any folder, and pipes, which would block their readers.
        with suppress(ValueError, OSError, RuntimeError):
            for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
                rule = seccomp.Arg(place, seccomp.MASKED_EQ, _FILE_KIND, kind)
                rules.add_rule(seccomp.ERRNO(errno.EPERM), name, rule)
    for name in ("sched_setscheduler", "sched_setparam", "sched_setattr"):  # 0 is this thread; others are forbidden
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, 0))
    # Libraries set the CPU affinity of their own threads by number, like that of other processes: accepted but not
    # executed.
    rules.add_rule(seccomp.ERRNO(0), "sched_setaffinity", seccomp.Arg(0, seccomp.NE, 0))
    # The parent-death signal must stay SIGKILL. The kernel reads only the lower half of the first argument.
    asked = seccomp.Arg(0, seccomp.MASKED_EQ, _WORD_BITS, SET_PARENT_DEATH_SIGNAL)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "prctl", asked, seccomp.Arg(1, seccomp.NE, signal.SIGKILL))
    with suppress(ValueError, OSError, RuntimeError):  # 0 is this process; other processes are forbidden
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    _refuse_datagrams(rules)
    _refuse_clones(rules, forks=programs)
    if not programs:
        _refuse_signals(rules)
    rules.load()


def close_networks() -> None:
    """Forbid sockets except socket pairs, which the project's own processes use. Raises as `close_calls`.

    Local services (logs, buses, containers, key rings, name caches) listen on AF_UNIX sockets.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "socket")
    _refuse_datagrams(rules)
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "io_uring_setup")  # this call can create sockets, too
    rules.load()


def _refuse_datagrams(rules: Any) -> None:
    """Forbid pairs of datagram sockets, which are not connected: a message may be sent to any address."""
    import pyseccomp as seccomp

    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # the same for AF_UNIX
        rule = seccomp.Arg(1, seccomp.MASKED_EQ, _SOCKET_KINDS, kind)
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "socketpair", rule)


def close_forks_and_signals() -> None:
    """Forbid a program that has not started yet to fork and to signal others. Raises as `close_calls` does."""
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    _refuse_clones(rules, forks=False)
    _refuse_signals(rules)
    rules.load()


def _refuse_names(rules: Any, names: Sequence[str]) -> None:
    import pyseccomp as seccomp

    numbers = set()
    for name in names:
        with suppress(ValueError, OSError, RuntimeError):
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
            numbers.add(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name))
    for number in sorted(set(_RECENT).difference(_KNOWN, numbers)):
        with suppress(ValueError, OSError, RuntimeError):
            rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number)


def _refuse_all_but(rules: Any, name: str, place: int, values: Sequence[int]) -> None:
    """Make calls of `name` fail with EPERM unless the lower half of the argument at `place` is one of the values."""
    import pyseccomp as seccomp

    for mask, value in all_but(values):
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(place, seccomp.MASKED_EQ, mask, value))


def all_but(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield masks and values so that every 32-bit number outside `values` matches exactly one of them, because seccomp
    has no "not in".

    Numbers with the same prefix are merged, as long as none of the values has that prefix.
    """
    pending: list[tuple[int, int, Sequence[int]]] = [(0, 0, values)]
    while pending:
        length, start, within = pending.pop()
        mask = _WORD_BITS >> (_WORD - length) << (_WORD - length)
        if not within:
            yield mask, start
        elif length < _WORD:
            bit = 1 << (_WORD - length - 1)
            pending += [(length + 1, start | b, [v for v in within if v & bit == b]) for b in (0, bit)]


def _refuse_clones(rules: Any, *, forks: bool) -> None:
    """Allow only clones that are threads, that is, share everything.

    clone3 hides its flags behind a pointer; without it, libraries fall back to clone. `forks` allows other processes,
    too.
    """
    import pyseccomp as seccomp

    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in _NAMESPACES:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    if forks:
        return
    for name in ("fork", "vfork"):
        with suppress(ValueError, OSError, RuntimeError):  # some architectures lack these
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))


def _refuse_signals(rules: Any) -> None:
    """Forbid signals to other processes."""
    import pyseccomp as seccomp

    for name in _SIGNALS[:3]:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, os.getpid()))
    for name in _SIGNALS[3:]:
        with suppress(ValueError, OSError, RuntimeError):
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
