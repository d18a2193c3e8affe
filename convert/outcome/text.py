"""Escapes and shortens text from files before people see it: no name can break, reverse or flood a line."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Unicode categories of control characters (C0 and C1), format characters (bidirectional overrides, zero
widths), surrogates, private characters, and line and paragraph separators.
"""
_JOINERS = frozenset("\u200c\u200d\u00ad")
"""Format characters that are used in words and change nothing else."""
LONGEST_WORD, LONGEST_LINE = 5000, 20_000
"""Maximum characters of a printed word and of a printed line; the longest path of Linux, 4,096 bytes, stays whole."""


def visible(text: str) -> str:
    r"""Return `text` as one line, with special characters written as `\n`, `\x1b`, `\u202e`, ….

    Special characters are those that affect a terminal or a page.

    A text of several lines is printed line by line (`convert.outcome.terminal.echo_lines`). A line break inside comes
    from a name, and would forge a line of the report.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_shown(c) else _escaped(c) for c in text)


def printed(text: str) -> str:
    """Return `text` as one visible line with its long words shortened, and then the line itself if it is still long.

    The middle is replaced by its length: `aaaa…[95,040 characters]…aaaa`. JSON has the whole text.
    """
    shown = visible(text)
    if len(shown) <= LONGEST_WORD:
        return shown
    return _shortened(re.sub(r"\S+", lambda word: _shortened(word[0], LONGEST_WORD), shown), LONGEST_LINE)


def _shortened(text: str, limit: int) -> str:
    """Return the two ends of a text of more than `limit` characters, with the number of characters between them."""
    if len(text) <= limit:
        return text
    end = limit // 2 - 20
    return f"{text[:end]}…[{len(text) - 2 * end:,} characters]…{text[-end:]}"


def visible_json(text: str) -> str:
    """Return a line of JSON with the same special characters as JSON escapes; they occur only inside its strings."""
    import json

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
    """Return `text` in one line, escaped for the body or an attribute of a page."""
    import html  # its table of entities is slow to import, and the command line does not need it

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
    # bash reads at most two hexadecimal digits, so a digit that follows is not swallowed.
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(c))


def _is_shown(c: str) -> bool:
    return c in _JOINERS or unicodedata.category(c) not in _HIDDEN


def _escaped(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    number = ord(c)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
