"""How much of its work a child has done, from the child to whoever waits for it: two numbers in a file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from convert import activity

_FILE = "done"


def tell_parent(folder: Path) -> None:
    """From now on, write what `activity.advance` is told into `folder`."""

    def tell(kind: str, text: str) -> None:
        if kind == activity.DONE:
            (folder / _FILE).write_text(text)

    activity.listen(tell)


def progress_of_child(folder: Path) -> str:
    """The two numbers, empty where there are none. What is there is a child's, which may have been taken over."""
    try:
        number = os.open(folder / _FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        text = os.read(number, 64).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(number)
    return text if re.fullmatch("[0-9]{1,9} [0-9]{1,9}", text) else ""
