"""What this machine, or the container that this runs in, offers: CPUs and memory."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
"""Where a container sees its own limits (cgroup v2)."""

_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
"""What tells frameworks how many threads to use."""


def set_threads(count: int) -> None:
    """How many threads the frameworks in what this process starts may use, where the user does not say."""
    for name in _THREADS:
        os.environ.setdefault(name, str(max(1, count)))


def cpus() -> int:
    """CPUs that this process may use."""
    quota, period = (*_cgroup_limit("cpu.max"), 0, 0)[:2]
    allowed = len(os.sched_getaffinity(0))
    return max(1, min(allowed, quota // period)) if quota and period else allowed


def memory() -> int:
    """Bytes of memory."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_cgroup_limit("memory.max")])


def _cgroup_limit(name: str) -> list[int]:
    """The numbers in one of the files of the cgroup; none where there is no limit."""
    try:
        words = (_CGROUP / name).read_text().split()
    except OSError:
        return []
    return [int(word) for word in words] if all(word.isdigit() for word in words) else []
