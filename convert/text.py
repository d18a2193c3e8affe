"""Text from files, made visible before people see it: no name breaks a line, turns it round or moves the cursor."""

from __future__ import annotations

import json
import os
import shlex
import unicodedata
from collections.abc import Iterable

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode's categories of controls (C0 and C1), formats (bidirectional overrides, zero widths), surrogates, private
characters and separators of lines and paragraphs."""
_JOINERS = frozenset("\u200c\u200d\u00ad")
"""Formats that words are written with, and that change nothing else."""


def visible(text: str) -> str:
    r"""Return `text` as one line, with what a terminal or a page would act upon written as `\n`, `\x1b`, `\u202e` ….

    A text of several lines is printed line by line (`convert.terminal.echo_lines`): a line break in here comes from a
    name, and would forge a line of the report.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_shown(c) else _escaped(c) for c in text)


def visible_json(text: str) -> str:
    """A line of JSON with the same characters written as JSON escapes them: they are inside of its strings only."""
    return "".join(c if _is_shown(c) else json.dumps(c)[1:-1] for c in text)


def bytes_text(count: int) -> str:
    """Return a number of bytes as people write it: `164 kB`, `1.2 MB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 9.95 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 set`, `2 sets`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def escape(text: str) -> str:
    """Return `text` for the body or an attribute of a page, in one line."""
    import html  # its table of entities takes a while, and the command line needs none of it

    return html.escape(visible(text))


def shell_line(words: Iterable[str]) -> str:
    r"""Return words as a shell reads them, in one line: a word with a line break is written as `$'a\nb'`."""
    return " ".join(map(_shell_word, words))


def _shell_word(word: str) -> str:
    if visible(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(_shell_character(c) for c in word) + "'"


def _shell_character(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    if _is_shown(c):
        return c
    # Of two hexadecimal digits and more, bash takes at most two: no digit that follows is swallowed.
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(c))


def _is_shown(c: str) -> bool:
    return c in _JOINERS or unicodedata.category(c) not in _HIDDEN


def _escaped(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    number = ord(c)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
