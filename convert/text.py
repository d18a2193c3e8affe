"""Text from files, made visible before people see it: nothing in a name moves the cursor or turns the line round."""

from __future__ import annotations

import json
import unicodedata

_SHOWN = frozenset("\n\t")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode's categories of controls (C0 and C1), formats (bidirectional overrides, zero widths), surrogates, private
characters and separators of lines and paragraphs."""
_JOINERS = frozenset("\u200c\u200d\u00ad")
"""Formats that words are written with, and that change nothing else."""


def visible(text: str) -> str:
    r"""`text` with what a terminal or a page would act upon written as `\x1b`, `\u202e` …; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_shown(c) else _escaped(c) for c in text)


def visible_json(text: str) -> str:
    """A line of JSON with the same characters written as JSON escapes them: they are inside of its strings only."""
    return "".join(c if _is_shown(c) else json.dumps(c)[1:-1] for c in text)


def bytes_text(count: int) -> str:
    """A number of bytes as people read it: `164.0 kB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def escape(text: str) -> str:
    """`text` for the body or an attribute of a page."""
    import html  # its table of entities takes a while, and the command line needs none of it

    return html.escape(visible(text))


def _is_shown(c: str) -> bool:
    return c in _SHOWN or c in _JOINERS or unicodedata.category(c) not in _HIDDEN


def _escaped(c: str) -> str:
    number = ord(c)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
