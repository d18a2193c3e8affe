"""The releases of PyTorch that were tried, and what is done on another one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import torch

from convert.errors import Unsupported
from convert.report import Report

TRIED = ((2, 13), (2, 14))
"""The releases that the tests of both PyTorch packages ran on; `tests/suites/releases.py` runs them on others."""


def _parsed(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


RELEASE = _parsed(torch.__version__)
"""Major and minor number of the PyTorch that is installed."""

Patch = Callable[[], AbstractContextManager[Any]]


def note_release(report: Report) -> None:
    """Tell the user that this PyTorch was not tried, whether or not the result is verified."""
    if RELEASE not in TRIED:
        report.note(
            f"this converter was not tested with PyTorch {torch.__version__} (but with {_tried()}): "
            "rely on the verification"
        )


def unknown_part(error: Exception) -> Unsupported:
    """Return the refusal for a part of PyTorch that is needed and that this release does not have."""
    return Unsupported(
        f"this converter does not know PyTorch {torch.__version__}, which lacks a part that it needs: {error}",
        hint=f"install a release that was tested: {_tried()}",
    )


@contextmanager
def patched(needed: Iterable[Patch], saving_time: Iterable[Patch] = ()) -> Iterator[None]:
    """Inside, patches of PyTorch are in place; those that only save time are left out where a name is missing.

    Raises `Unsupported` if PyTorch lacks a name that one of the others replaces.
    """
    with ExitStack() as stack:
        for patch in needed:
            try:
                stack.enter_context(patch())
            except (AttributeError, ImportError) as error:
                raise unknown_part(error) from error
        for patch in saving_time:
            with suppress(AttributeError, ImportError):
                stack.enter_context(patch())
        yield


def _tried() -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in TRIED)
