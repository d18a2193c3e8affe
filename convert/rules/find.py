"""Finds operators by approximate names: any case, with or without underscores, or only a part of the name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from convert import plugin
from convert.errors import ConvertError, UsageError
from convert.plugin import Operator


def matching_operators(rows: Iterable[Operator], words: Sequence[str]) -> list[Operator]:
    """Return the rows whose name contains one of `words`; exact matches come first."""
    wanted = [plain for word in words if (plain := _plain(word))]
    found = [row for row in rows if any(word in _plain(row.name) for word in wanted)]
    return sorted(found, key=lambda row: not _is_called(row.name, wanted))


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _is_called(name: str, wanted: Sequence[str]) -> bool:
    """Return whether `name` equals one of `wanted`, ignoring namespace and overload."""
    last = name.rpartition("::")[2]
    return any(_plain(part) in wanted for part in (name, last, last.partition(".")[0]))


def tables(skipped: list[str]) -> Iterator[tuple[str, list[Operator]]]:
    """Yield a title and the rows of each frontend and format.

    A format whose framework is not installed is skipped; `skipped` gets a sentence that says why.
    """
    reads = [(f"--from {name}", frontend.operators) for name, frontend in plugin.frontends().items()]
    writes = [
        (f"--to {name}", lambda backend=backend, name=name: backend.operators(name))
        for backend in plugin.backends().values()
        for name in backend.FORMATS
    ]
    for title, listed in (*reads, *writes):
        try:
            yield title, list(listed())
        except (ConvertError, ImportError) as error:
            skipped.append(f"{title} is left out: {getattr(error, 'message', error)}")


def check_found(found: Sequence[Operator], words: Sequence[str], names: Iterable[str], where: str = "") -> None:
    """Raise `UsageError` if `found` is empty, with the names nearest to `words` in the hint."""
    if found:
        return
    # Of names that differ in case only, the last one stays: Softmax, not softmax, SOFTMAX or _softmax.
    ordered = sorted(names, key=lambda name: (name.startswith("_"), name.isupper(), name), reverse=True)
    known = {_plain(name): name for name in ordered}
    near = [known[key] for word in words for key in get_close_matches(_plain(word), known, 3, 0.75)]
    hint = f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else "`convert ops --to tf` lists a whole table"
    raise UsageError(f"no operator{where} has a name like {' or '.join(words)}", hint=hint)
