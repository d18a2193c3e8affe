"""Reference kernels on strings, where ONNX's own drop empty strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.reference.table import kernel

Array = Any

_LONGEST = 1 << 24
"""Largest number of ways to split a text that a pattern may try."""


@kernel("StringNormalizer")
def string_normalizer(
    count: int, x: Array, *, case_change_action: str, is_case_sensitive: int, locale: str, stopwords: Any
) -> Array:
    """StringNormalizer-10: a row of strings without stop words, with changed case; one empty string if no word is left.

    The locale matters only for letters beyond ASCII, and a runtime may not have it.
    """
    words = [w.decode() if isinstance(w, bytes) else str(w) for w in x.ravel()]
    given = [w.decode() if isinstance(w, bytes) else str(w) for w in stopwords or ()]
    left_out = set(given if is_case_sensitive else map(str.lower, given))
    kept = [w for w in words if (w if is_case_sensitive else w.lower()) not in left_out]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    made = np.array([change(w) for w in kept] or [""], dtype=object)
    return made.reshape(1, -1) if x.ndim == 2 else made


@kernel("RegexFullMatch")
def regex_full_match(count: int, x: Array, *, pattern: str) -> Array:
    """RegexFullMatch-20: whether the pattern matches each text as a whole.

    Raises `Unsupported` if that could take forever.

    Runtimes use RE2, whose time is proportional to the text; Python's matcher tries every way to split it.
    """
    texts = [w.decode() if isinstance(w, bytes) else str(w) for w in x.ravel()]
    try:
        compiled, depth, choices = re.compile(pattern), *_choices(parser.parse(pattern))
    except (re.error, RecursionError, OverflowError) as error:
        raise Unsupported(f"RegexFullMatch of a pattern that Python does not have: {error}") from None
    longest = max(map(len, texts), default=0)
    if (2**longest if depth > 1 else max(longest, 2) ** choices) > _LONGEST:
        raise Unsupported(
            f"RegexFullMatch: Python might try {pattern[:100]!r} for ever on a text of {longest} characters"
        )
    found = [compiled.fullmatch(text) is not None for text in texts]
    return np.array(found, dtype=np.bool_).reshape(x.shape)


def _choices(parsed: Any) -> tuple[int, int]:
    """Return how deeply choices of a pattern (repetitions, alternatives) are nested, and how many there are."""
    depth = count = 0
    for code, argument in parsed:
        chosen = code in _CHOICES
        for inner in _inner_patterns(argument):
            below, more = _choices(inner)
            depth, count = max(depth, below + chosen), count + more
        count += chosen
    return depth, count


_CHOICES = (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT, parser.BRANCH)


def _inner_patterns(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for part in argument:
            yield from _inner_patterns(part)
