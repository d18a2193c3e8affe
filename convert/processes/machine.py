"""The CPUs and the memory of this machine, or of the container that this runs in."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
"""The folder in which a container finds its own limits (cgroup v2)."""

_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
"""Environment variables with the number of threads of frameworks."""


def set_threads(count: int) -> None:
    """Set how many threads frameworks in child processes may use, unless the user has set it."""
    for name in _THREADS:
        os.environ.setdefault(name, str(max(1, count)))


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    quota, period = (*_cgroup_limit("cpu.max"), 0, 0)[:2]
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, quota // period)) if quota and period else allowed


def memory() -> int:
    """Return the bytes of memory."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_cgroup_limit("memory.max")])


def _cgroup_limit(name: str) -> list[int]:
    """Return the numbers in a file of the cgroup; [] if there is no limit."""
    try:
        words = (_CGROUP / name).read_text().split()
    except OSError:
        return []
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []
