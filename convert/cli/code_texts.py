"""The text of `convert explain`: what a note or an error means, by its code."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from convert.errors import UsageError
from convert.outcome.error_codes import ERRORS, ErrorCode
from convert.outcome.note_codes import ACTION, CODES, INFO, NoteCode
from convert.outcome.terminal import echo, echo_json
from convert.request.nearest import did_you_mean

_WIDTH = 80
ALL: dict[str, NoteCode | ErrorCode] = {**CODES, **ERRORS}


def print_codes(codes: Sequence[str], as_json: bool) -> None:
    """Print what these codes mean, or a list of all codes. Raises `UsageError` for one that does not exist."""
    rows = [_row_of(code) for code in codes] or list(ALL.values())
    if as_json:
        echo_json(json.dumps([_kind(row) | asdict(row) for row in rows], ensure_ascii=False))
    elif codes:
        for number, row in enumerate(rows):
            _explain(row, first=not number)
    else:
        _list()


def _row_of(code: str) -> NoteCode | ErrorCode:
    """Return the row of a code. Raises `UsageError` for one that does not exist."""
    if code in ALL:
        return ALL[code]
    raise UsageError(f"there is no code {code!r}", hint=f"{did_you_mean(code, ALL)}`convert explain` lists all codes")


def _kind(row: NoteCode | ErrorCode) -> dict[str, object]:
    return {"kind": "note" if isinstance(row, NoteCode) else "error"}


def _explain(row: NoteCode | ErrorCode, *, first: bool) -> None:
    if not first:
        echo()
    echo(f"{row.code} ({_shown(row)})")
    for text in (row.summary, row.text):
        for line in textwrap.wrap(text, _WIDTH - 2, break_on_hyphens=False, break_long_words=False):
            echo(f"  {line}")


def _shown(row: NoteCode | ErrorCode) -> str:
    if isinstance(row, ErrorCode):
        return f"error, exit code {row.exit_code}"
    option = {ACTION: "shown by default", INFO: "shown with -v"}.get(row.level, "shown with -vv")
    return f"note, level {row.level}: {option}"


def _list() -> None:
    width = max(map(len, ALL))
    echo("notes")
    for note in CODES.values():
        echo(f"  {note.code:<{width}}  {note.level:<6}  {note.summary}")
    echo("errors")
    for error in ERRORS.values():
        echo(f"  {error.code:<{width}}  exit {error.exit_code}  {error.summary}")
