"""Interprets the first words of a command line: a verb, a model, or a misspelled verb."""

from __future__ import annotations

import os
from collections.abc import Collection

from convert.errors import UsageError
from convert.request.nearest import nearest

MODEL = "model"
"""The verb that is not written: `convert model.pt --to tf`."""

_MEANT = {
    "compare": "verify", "diff": "verify", "check": "verify", "test": "verify", "validate": "verify",
    "evaluate": "verify", "parity": "verify",
    "info": "inspect", "show": "inspect", "summary": "inspect", "describe": "inspect", "view": "inspect",
    "print": "inspect", "summarize": "inspect", "stat": "inspect",
    "list": "formats", "targets": "formats", "backends": "formats", "frontends": "formats",
    "operators": "ops", "op": "ops", "coverage": "ops", "support": "ops",
    "why": "explain", "rule": "explain", "codes": "explain", "code": "explain",
    "all": "batch", "many": "batch", "bulk": "batch", "run": "batch", "zoo": "batch",
}  # fmt: skip
"""Verbs of other programs, and which of ours does that."""

_SAME = {"export": MODEL, "convert": MODEL, "to": MODEL}
"""Words that repeat the name of the command."""

_LEADING = ("-q", "--quiet", "-v", "-vv", "--verbose")


def arranged(words: list[str], verbs: Collection[str]) -> list[str]:
    """Return the words with their verb first: `help verify` becomes `verify --help`, and `model.pt --to tf` gets its
    verb.

    Raises `UsageError` if the first word is neither a verb nor a file but looks like a verb. Also raises it for an
    empty first word, which as a path would be the current folder.
    """
    if "" in words:
        raise UsageError("a word of the command is empty", hint='a variable of the shell may be, such as "$MODEL"')
    flags = []
    while words and words[0] in _LEADING:
        flags.append(words[0])
        words = words[1:]
    if flags and not (words and words[0] in verbs):
        return [MODEL, *flags, *words] if words else flags
    if not words or words[0] in verbs:
        if words[1:] == ["help"] and not os.path.exists("help"):
            words = [words[0], "--help"]
        return [*words[:1], *flags, *words[1:]]
    first, rest = words[0], words[1:]
    if rest and rest[-1] in ("--help", "-h") and first not in verbs:
        return ["--help"]
    if first in ("--help", "-h", "help") and not os.path.exists(first):
        return [*_verb_of(rest[0], verbs), "--help"] if rest and not rest[0].startswith("-") else ["--help"]
    if first in ("--version", "-V") or (first == "version" and not os.path.exists(first)):
        return ["--version"]
    if first in _SAME and rest and not os.path.exists(first):
        return arranged(rest, verbs)
    if not _may_be_model(first):
        raise _no_verb_error(first, verbs)
    return [MODEL, *words]


def _verb_of(word: str, verbs: Collection[str]) -> list[str]:
    """Return the verb whose help is requested; empty for the help of a conversion."""
    if word in verbs:
        return [word]
    if word in _SAME or word == "help":
        return []
    raise _no_verb_error(word, verbs)


def _may_be_model(word: str) -> bool:
    return word.startswith("-") or any(c in word for c in "./\\:*[") or os.path.exists(word) or not _near(word)


def _near(word: str) -> str:
    """Return the verb that a word was most likely meant to be; empty if none is similar."""
    known = ["verify", "batch", "inspect", "formats", "ops", "explain", "help"]
    near = nearest(word, [*known, *_MEANT], 0.75)
    return _MEANT.get(near, near)


def _no_verb_error(word: str, verbs: Collection[str]) -> UsageError:
    shown = ", ".join(sorted(verb for verb in verbs if verb != MODEL))
    near = _near(word)
    suggestion = f"did you mean `convert {near}`? " if near else ""
    return UsageError(f"there is no verb {word!r}, nor a file of that name", hint=f"{suggestion}verbs: {shown}")
