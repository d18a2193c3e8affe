"""Takes the code of a TorchScript archive apart as PyTorch's own lexer does (torch/csrc/jit/frontend/lexer.h).

Python's `tokenize` would be another language: the number `0x1.` of PyTorch ends with a point, which Python takes for
the one before an attribute. What one of the two could read otherwise than this is refused.
"""

from __future__ import annotations

import re

_TRIPLE = r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"""|' + r"'''(?:[^'\\]|\\[\s\S]|'(?!''))*+'''"
_SINGLE = r'"(?!"")(?:[^"\\\n]|\\[\s\S])*+"|' + r"'(?!'')(?:[^'\\\n]|\\[\s\S])*+'"
_TEXT = re.compile(f"{_TRIPLE}|{_SINGLE}")
_TOKEN = re.compile(rf"#(?! type:)[^\n]*|\\\n|({_TRIPLE}|{_SINGLE}|[\"'][\s\S]*|\w+|\S)", re.ASCII)
"""A comment and a line that goes on are none; "# type:" begins no comment. A text without an end has all that follows,
so that no more than one end is looked for in vain. A point of a number stands by itself, as do those of "..."."""


def script_tokens(code: str) -> list[str]:
    """Words, texts with their quotes, and other characters one by one, of "a.b = 'c'": a . b = 'c'.

    Raises `ValueError`, in words, for what is no TorchScript: a text that does not end, or another character than
    those of ASCII outside of texts and comments, which a locale may take for a blank or a letter.
    """
    tokens = [token for token in _TOKEN.findall(code) if token]
    if tokens and tokens[-1][0] in "\"'" and _TEXT.fullmatch(tokens[-1]) is None:
        raise ValueError("a text in it does not end")
    if not code.isascii() and (odd := next((t for t in tokens if t[0] not in "\"'" and not t.isascii()), "")):
        raise ValueError(f"{odd!a} is no character of TorchScript")
    return tokens
