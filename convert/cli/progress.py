"""Progress on stderr: what is being done, of what size, how long so far."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convert import activity
from convert.terminal import echo
from convert.text import visible


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[None]:
    """Inside, activities are shown: a line that moves on a terminal, a line for each in a pipe, nothing if `quiet`."""
    if quiet:
        yield
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _moving_line():
            yield
    else:
        with _lines():
            yield


@contextmanager
def _lines() -> Iterator[None]:
    """A line for each activity when it begins, behind the seconds so far."""
    began, before = time.monotonic(), ""

    def tell(kind: str, text: str) -> None:
        nonlocal before
        if kind == activity.DOING:
            if text and not before.startswith(text):  # an outer activity that goes on is no news
                echo(f"[{time.monotonic() - began:5.1f} s] {activity.innermost_activity()} …", err=True)
            before = text

    with activity.listening(tell):
        yield


@contextmanager
def _moving_line() -> Iterator[None]:
    """One line with the activity, how long it has taken so far, and the whole; nothing of it stays."""
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    began = since = time.monotonic()
    shown, spinner = "starting", Spinner("dots")

    def tell(kind: str, text: str) -> None:
        nonlocal shown, since
        if kind == activity.DOING:
            shown, since = activity.innermost_activity() or shown, time.monotonic()

    def line() -> Any:
        now = time.monotonic()
        whole = f" of {now - began:.0f} s" if since > began else ""
        spinner.update(text=Text(f"{visible(shown)} … {now - since:.0f} s{whole}", no_wrap=True, overflow="ellipsis"))
        return spinner

    live = Live(get_renderable=line, console=Console(stderr=True), refresh_per_second=8, transient=True)
    with activity.listening(tell), live:
        yield
