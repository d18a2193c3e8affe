"""Progress on stderr: the activity, its size, the time it has taken so far, and an estimate of the rest."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convert import activity
from convert.outcome.terminal import echo
from convert.outcome.text import printed

_SECONDS = 10.0
"""Between two lines in a pipe about the same activity; a second on, a rest is estimated."""


@contextmanager
def shown_progress(*, quiet: bool, verbose: int = 0) -> Iterator[None]:
    """Context manager that shows activities: one moving line on a terminal; elsewhere one line each, if `verbose`.

    `quiet` shows nothing.
    """
    if quiet:
        yield
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        with _moving_line():
            yield
    elif verbose:
        with _lines():
            yield
    else:
        yield


def remaining(progress: str, seconds: float) -> str:
    """Return the progress of an activity that has taken this long: `, 40 %, about 90 s left`; empty in its first
    second.
    """
    done, whole = map(int, progress.split())
    if not 0 < done < whole or seconds < 1:
        return ""
    rest = max(seconds * (whole - done) / done, 1)
    return f", {100 * done // whole} %, about {f'{rest:.0f} s' if rest < 120 else f'{rest / 60:.0f} min'} left"


def elapsed(activity_seconds: float, all_seconds: float) -> str:
    """Return how long an activity and the whole command have taken so far, worded so that it is not read as an
    estimate.
    """
    whole = f", {all_seconds:.0f} s since the start" if all_seconds > activity_seconds else ""
    return f"for {activity_seconds:.0f} s{whole}"


@contextmanager
def _lines() -> Iterator[None]:
    """Print a line for each activity when it begins, with the seconds so far, and further lines if it takes long."""
    began = since = last = time.monotonic()
    before = ""

    def tell(kind: str, text: str) -> None:
        nonlocal before, since, last
        now, rest = time.monotonic(), ""
        if kind == activity.DOING:
            since = now
            news = bool(text) and not before.startswith(text)  # an outer activity that continues is not printed again
            before = text
        elif kind == activity.DONE:
            rest = remaining(text, now - since)
            news = bool(rest) and now - last >= _SECONDS
        else:
            return
        if news:
            last = now
            echo(f"[{now - began:5.1f} s] {activity.innermost_activity()}{rest} …", err=True)

    with activity.listening(tell):
        yield


@contextmanager
def _moving_line() -> Iterator[None]:
    """Show one line with the activity, its time so far, and the time of the whole; the line is removed at the end."""
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    began = since = time.monotonic()
    shown, rest, spinner = "starting", "", Spinner("dots")

    def tell(kind: str, text: str) -> None:
        nonlocal shown, rest, since
        if kind == activity.DOING:
            shown, rest, since = activity.innermost_activity() or shown, "", time.monotonic()
        elif kind == activity.DONE:
            rest = remaining(text, time.monotonic() - since)

    def line() -> Any:
        now = time.monotonic()
        text = f"{printed(shown)}{rest} … {elapsed(now - since, now - began)}"
        spinner.update(text=Text(text, no_wrap=True, overflow="ellipsis"))
        return spinner

    live = Live(get_renderable=line, console=Console(stderr=True), refresh_per_second=8, transient=True)
    with activity.listening(tell), live:
        yield
