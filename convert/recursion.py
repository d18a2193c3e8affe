"""Room for frameworks that go through a graph by recursion, one call for each node on the way."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deeper(calls: int) -> Iterator[None]:
    """Let Python's calls lie `calls` deeper inside of one another than they may now."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
