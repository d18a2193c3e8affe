"""The system calls that a process which runs a model has no use for, and the rights that go with them (seccomp)."""

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
    # connections, those within the machine too
    "socket", "connect", "bind", "listen", "accept", "accept4",
    # other programs and processes; a session or group of its own is not found by who ends a group
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "setsid", "setpgid",
    # what goes around the file system's rules, or around this list
    "io_uring_setup", "mount", "umount2", "move_mount", "mount_setattr", "open_tree", "fsopen", "fsconfig", "fsmount",
    "fspick", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at", "name_to_handle_at",
    # memory that is no process's, and counts for no limit
    "memfd_create", "memfd_secret",
    # the machine
    "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "syslog", "acct", "quotactl",
    "quotactl_fd", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname",
    "vhangup", "fanotify_init", "ioperm", "iopl", "modify_ldt", "sync", "syncfs",
    # another user's rights, with which a child would outlive its parent
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid", "capset",
    # attributes and modes of files, which Landlock leaves alone
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat",
    "futimesat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "setxattrat",
    "removexattrat", "file_setattr",
    # what all processes of the user share: it runs out, or outlives this one
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink", "setpriority", "ioprio_set", "process_madvise", "process_mrelease", "migrate_pages",
    "move_pages", "inotify_init", "inotify_init1", "inotify_add_watch", "io_setup",
)  # fmt: skip
"""System calls that fail with EPERM; those that a kernel or an architecture has not are passed over."""
_RECENT = range(424, 640)
_KNOWN = (424, 434, 435, 436, 437, 439, 441, 444, 445, 446, 449, 453, 454, 455, 456, 462, 464, 465, 468)
"""Numbers from which on system calls are the same everywhere, and those of them that are let through: pidfd_send_signal
and clone3 (which have rules of their own), pidfd_open, close_range, openat2, faccessat2, epoll_pwait2, landlock_*,
futex_*, map_shadow_stack, mseal, getxattrat, listxattrat, file_getattr. Any other does not exist (ENOSYS): a library
may know fewer names than the kernel has calls."""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_CLONE_THREAD = 0x00010000
_NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
"""Of clone(2): new name spaces; in one of users a process has all rights."""
_REQUESTS = (
    0x2, 0x5401, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451, 0x5460, 0x80086601, 0x802C542A,
    0xC020660B,
)  # fmt: skip
"""Of ioctl(2), those that are let through: sizes, kinds and what waits to be read. Among the others, for files that are
open to be read, are some that type into the user's terminal or stop it, set attributes of files and of file systems,
make a file read-only for good (verity) or a folder encrypted, freeze a file system, and send signals."""
_FILE_COMMANDS = (0, 1, 2, 3, 4, 5, 9, 11, 16, 36, 1025, 1030, 1032, 1033, 1034)
"""Of fcntl(2), those that are let through: copies and flags of descriptors, and questions. Among the others F_SETOWN,
F_SETSIG and F_SETOWN_EX let a pipe send any signal to any process of the user, SIGKILL too; F_SETLEASE and F_NOTIFY
hold up who opens a file, and watch it; F_SET_RW_HINT writes to what can be read."""
_LOCKS = (6, 7, 37, 38)
"""Of fcntl(2): locks, which hold up the user's programs wherever a file can be read."""
_WORD = 32
_WORD_BITS = (1 << _WORD) - 1
_FILE_KIND = 0o170000
_SOCKET_KINDS = 0xF
"""The bits of the second argument of socket(2) that tell the kind; the others are flags."""
_KEPT_RIGHTS = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: a user with all rights reads the files of others, and nothing more."""
_CAPABILITY_VERSION = 0x20080522


def drop_rights() -> None:
    """Of a user with all rights: let go, in this thread and for good, of what is beyond reading and writing files.

    Raises `OSError` where the kernel does not let it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    header, rights = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if library.capget(header, rights) or library.capset(header, _only_kept(rights)):
        raise OSError(ctypes.get_errno(), "the rights of this process stay as they are")


def _only_kept(rights: Any) -> Any:
    """Effective, permitted and inherited rights, the lower halves of each and then the upper ones."""
    kept = [rights[n] & _KEPT_RIGHTS for n in (0, 1)]
    return (ctypes.c_uint32 * 6)(*kept, 0, 0, 0, 0)


def close_calls(*, programs: bool, every_thread: bool = True) -> None:
    """System calls that a model has no use for fail from here on, in every thread or in this one.

    programs: whether it may start programs and signal them. Raises `OSError` or `RuntimeError` where there is no
    seccomp, and `ImportError` where the library is not there.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.set_attr(seccomp.Attr.CTL_TSYNC, int(every_thread))
    _refuse_names(rules, [n for n in _REFUSED if not (programs and n in ("execve", "execveat"))])
    for command in _LOCKS:  # as on a file system that has none, which libraries put up with
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "fcntl", seccomp.Arg(1, seccomp.MASKED_EQ, _WORD_BITS, command))
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "flock")
    _refuse_all_but(rules, "fcntl", 1, (*_FILE_COMMANDS, *_LOCKS))
    _refuse_all_but(rules, "ioctl", 1, _REQUESTS)
    for name, place in (("mknod", 1), ("mknodat", 2)):
        # Devices, which a user with all rights may make in any folder, and pipes, which who reads them waits for.
        with suppress(ValueError, OSError, RuntimeError):
            for kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
                rule = seccomp.Arg(place, seccomp.MASKED_EQ, _FILE_KIND, kind)
                rules.add_rule(seccomp.ERRNO(errno.EPERM), name, rule)
    for name in ("sched_setscheduler", "sched_setparam", "sched_setattr"):  # of another process: 0 is this thread
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, 0))
    # Where threads run is said of each by its number, as of other processes: it is taken note of and not done.
    rules.add_rule(seccomp.ERRNO(0), "sched_setaffinity", seccomp.Arg(0, seccomp.NE, 0))
    # It dies with its parent. The kernel looks at half of the first argument.
    asked = seccomp.Arg(0, seccomp.MASKED_EQ, _WORD_BITS, SET_PARENT_DEATH_SIGNAL)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "prctl", asked, seccomp.Arg(1, seccomp.NE, signal.SIGKILL))
    with suppress(ValueError, OSError, RuntimeError):  # limits of another process: 0 is this one
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
    _refuse_datagrams(rules)
    _refuse_clones(rules, forks=programs)
    if not programs:
        _refuse_signals(rules)
    rules.load()


def close_networks() -> None:
    """There are no sockets but pairs of them, by which the project's own processes talk. Raises as `close_calls`.

    Services of this machine (logs, buses, containers, key rings, name caches) listen at those of AF_UNIX.
    """
    import pyseccomp as seccomp

    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "socket")
    _refuse_datagrams(rules)
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "io_uring_setup")  # which makes sockets as well
    rules.load()


def _refuse_datagrams(rules: Any) -> None:
    """Of a pair of datagram sockets, which is no connection: what is sent may have any address."""
    import pyseccomp as seccomp

    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):  # which for AF_UNIX is the same
        rule = seccomp.Arg(1, seccomp.MASKED_EQ, _SOCKET_KINDS, kind)
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "socketpair", rule)


def close_forks_and_signals() -> None:
    """Of a program that has not begun yet: it may neither fork nor signal others. Raises as `close_calls` does."""
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
    """Calls of `name` fail with EPERM where the lower half of the argument at `place` is none of the values."""
    import pyseccomp as seccomp

    for mask, value in all_but(values):
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(place, seccomp.MASKED_EQ, mask, value))


def all_but(values: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Masks and what is behind them, of which every number of 32 bits but `values` matches one: seccomp knows no "nor".

    Numbers that begin alike go together, as long as none of the values begins so.
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
    """Threads are clones that share everything; clone3 hides its flags behind a pointer, and libraries try clone.

    forks: whether there may be other processes all the same.
    """
    import pyseccomp as seccomp

    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for flag in _NAMESPACES:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    if forks:
        return
    for name in ("fork", "vfork"):
        with suppress(ValueError, OSError, RuntimeError):  # which some architectures have not
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
    rules.add_rule(seccomp.ERRNO(errno.EPERM), "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))


def _refuse_signals(rules: Any) -> None:
    """To others than this process."""
    import pyseccomp as seccomp

    for name in _SIGNALS[:3]:
        rules.add_rule(seccomp.ERRNO(errno.EPERM), name, seccomp.Arg(0, seccomp.NE, os.getpid()))
    for name in _SIGNALS[3:]:
        with suppress(ValueError, OSError, RuntimeError):
            rules.add_rule(seccomp.ERRNO(errno.EPERM), name)
