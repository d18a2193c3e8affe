"""Finds names similar to a missing one, for hints; a command that a hint suggests must work."""

from __future__ import annotations

from collections.abc import Iterable

_LIKE = 0.7
"""The minimum similarity of two names (`difflib`); below that, a suggestion is a guess."""


def nearest(word: str, known: Iterable[str], like: float = _LIKE) -> str:
    """Return the name in `known` that `word` was most likely meant to be; "" if none is similar.

    Case, leading dashes, and the choice of `-`, `_` or a space are ignored.
    """
    from difflib import get_close_matches

    plain = {_plain(name): name for name in reversed(list(known))}
    near = get_close_matches(_plain(word), plain, 1, like) if _plain(word) else []
    return plain[near[0]] if near else ""


def did_you_mean(word: str, known: Iterable[str], quote: str = "") -> str:
    """Return `did you mean NAME? ` for a similar name, with a trailing space; else ""."""
    near = nearest(word, known)
    return f"did you mean {quote}{near}{quote}? " if near else ""


def names_hint(asked: str, names: Iterable[str], what: str = "its inputs are") -> str:
    """Return a hint that lists the inputs of a model (or `what` else), and suggests the name nearest to `asked`.

    If there is only one name, it is suggested whatever `asked` is.
    """
    known = list(names)
    near = known[0] if len(known) == 1 else nearest(asked, known) if asked else ""
    return (f"did you mean {near}? " if near else "") + f"{what} {', '.join(known) or 'none'}"


def saving_hint(names: Iterable[str]) -> str:
    """Return a hint with the numpy call that saves arrays under the names of the inputs."""
    return f"save them under these names: numpy.savez('data.npz', {', '.join(f'{name}=…' for name in names)})"


def _plain(word: str) -> str:
    return word.strip().lstrip("-").lower().replace("_", "-").replace(" ", "-")
