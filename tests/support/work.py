"""Bounds on how much a call may do, as a number of calls instead of seconds: it is the same on every machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TooManyCalls(BaseException):
    """The code within made more calls than it may; `except Exception` in that code does not catch it."""


@contextmanager
def at_most_calls(limit: int) -> Iterator[None]:
    """End the code within, in this thread, with TooManyCalls at its call number limit + 1.

    Calls of Python functions and of builtin ones count. Work inside one builtin call does not.
    """
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event not in ("call", "c_call"):
            return
        count += 1
        if count > limit:
            sys.setprofile(None)
            raise TooManyCalls(f"more than {limit:,} calls")

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(previous)
