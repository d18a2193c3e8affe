"""Tokenizes the code of a TorchScript archive as PyTorch's own lexer does (torch/csrc/jit/frontend/lexer.h).

Python's `tokenize` differs: PyTorch's number `0x1.` ends with a point, which Python would read as the one before an
attribute. Code that the two could read differently is refused.
"""

from __future__ import annotations

import re

_TRIPLE = r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"""|' + r"'''(?:[^'\\]|\\[\s\S]|'(?!''))*+'''"
_SINGLE = r'"(?!"")(?:[^"\\\n]|\\[\s\S])*+"|' + r"'(?!'')(?:[^'\\\n]|\\[\s\S])*+'"
_TEXT = re.compile(f"{_TRIPLE}|{_SINGLE}")
_TOKEN = re.compile(rf"#(?! type:)[^\n]*|\\\n|({_TRIPLE}|{_SINGLE}|[\"'][\s\S]*|\w+|\S)", re.ASCII)
"""Comments and line continuations are no tokens; "# type:" is not a comment. An unterminated string extends to the end,
so that at most one is searched in vain. The point of a number is a separate token, as are those of "...".
"""


def script_tokens(code: str) -> list[str]:
    """Return words, strings with their quotes, and other characters one by one: "a.b = 'c'" gives a . b = 'c'.

    Raises `ValueError` with a description for an unterminated string, and for a non-ASCII character outside strings and
    comments. A locale may treat such a character as a blank or a letter.
    """
    tokens = [token for token in _TOKEN.findall(code) if token]
    if tokens and tokens[-1][0] in "\"'" and _TEXT.fullmatch(tokens[-1]) is None:
        raise ValueError("a text in it does not end")
    if not code.isascii() and (odd := next((t for t in tokens if t[0] not in "\"'" and not t.isascii()), "")):
        raise ValueError(f"{odd!a} is no character of TorchScript")
    return tokens
