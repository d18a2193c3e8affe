"""Short HTML tables for notebooks: all text is escaped, there is no script, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Sequence

from convert.outcome.text import escape, printed

MAX_ROWS = 20
"""Maximum number of rows of one kind; a last row counts the omitted rows."""

_COLOURS = {"PASS": "#1b7a3d", "FAIL": "#c62828", "ERROR": "#c62828", "INCONCLUSIVE": "#8a5a00"}


def table(rows: Sequence[str], caption: str = "") -> str:
    """Return rows, made by the functions below, as a table."""
    above = f"<caption>convert: {escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<tbody>{''.join(rows)}</tbody></table>"


def row(heading: str, *texts: str, status: str = "") -> str:
    """Return a row: a heading, a status that no text can imitate, then the texts below one another."""
    word = [f'<b style="color:{_COLOURS[status]}">{escape(status)}</b>'] if status else []
    shown = "<br/>".join([*word, *(escape(printed(text)) for text in texts if text)])
    above = escape(printed(heading))
    return f'<tr><th style="text-align:left">{above}</th><td style="text-align:left">{shown}</td></tr>'


def rows(heading: str, texts: Sequence[str]) -> list[str]:
    """Return a row for each text, at most `MAX_ROWS`."""
    return bounded([row(heading, text) for text in texts])


def bounded(made: Sequence[str]) -> list[str]:
    """Return the first `MAX_ROWS` rows, and a row that says how many more there are."""
    return [*made[:MAX_ROWS], *([row("", f"and {len(made) - MAX_ROWS} more")] if len(made) > MAX_ROWS else [])]
