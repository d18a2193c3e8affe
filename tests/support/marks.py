"""Parameters of a test, some of which have the mark `slow`; the others run by default."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def slow(values: Iterable[Any], *those: Any) -> list[Any]:
    """Return the parameters of a test, with the mark `slow` on the named ones, which must exist."""
    return _marked(values, those, named_are_slow=True)


def slow_but(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the parameters of a test, with the mark `slow` on all but the named ones, which must exist."""
    return _marked(values, quick, named_are_slow=False)


def slow_but_one_of(names: Iterable[str], count: int) -> list[Any]:
    """Return the names, all but about one in `count` with the mark `slow`; a new name does not change the choice."""
    every = list(names)
    return slow_but(every, *(name for name in every if zlib.crc32(name.encode()) % count == 0))


def _marked(values: Iterable[Any], named: tuple[Any, ...], *, named_are_slow: bool) -> list[Any]:
    every = list(values)
    assert all(name in every for name in named), [name for name in named if name not in every]
    return [pytest.param(v, marks=pytest.mark.slow) if (v in named) == named_are_slow else v for v in every]
