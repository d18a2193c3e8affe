"""The verb `convert explain`."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict

import click

from convert.cli.output_options import exit_on_error
from convert.cli.verb_command import VerbCommand
from convert.errors import UsageError
from convert.outcome.error_codes import ERRORS, ErrorCode
from convert.outcome.note_codes import ACTION, CODES, INFO, NoteCode
from convert.outcome.terminal import echo, echo_json
from convert.request.nearest import did_you_mean

_WIDTH = 80
_ALL: dict[str, NoteCode | ErrorCode] = {**CODES, **ERRORS}


def _complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in _ALL if code.startswith(incomplete)]


@click.command(cls=VerbCommand, examples=("convert explain assumed-input", "convert explain"))
@click.argument("codes", nargs=-1, metavar="[CODE]…", shell_complete=_complete_codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(codes: tuple[str, ...], as_json: bool) -> None:
    """Explain a note or an error by its code, or list all codes.

    `-v` and `--json` show the codes of notes, `--json` those of errors.
    """

    def work() -> None:
        rows = [_row_of(code) for code in codes] or list(_ALL.values())
        if as_json:
            echo_json(json.dumps([_kind(row) | asdict(row) for row in rows], ensure_ascii=False))
        elif codes:
            for number, row in enumerate(rows):
                _explain(row, first=not number)
        else:
            _list()

    exit_on_error(work, 0, "explain" if as_json else None)


def _row_of(code: str) -> NoteCode | ErrorCode:
    """Return the row of a code. Raises `UsageError` for one that does not exist."""
    if code in _ALL:
        return _ALL[code]
    raise UsageError(f"there is no code {code!r}", hint=f"{did_you_mean(code, _ALL)}`convert explain` lists all codes")


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
    width = max(map(len, _ALL))
    echo("notes")
    for note in CODES.values():
        echo(f"  {note.code:<{width}}  {note.level:<6}  {note.summary}")
    echo("errors")
    for error in ERRORS.values():
        echo(f"  {error.code:<{width}}  exit {error.exit_code}  {error.summary}")
