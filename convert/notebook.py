"""What a notebook shows: rows of text as one short HTML table, all of it escaped, no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence

from convert.text import escape

MOST_ROWS = 20
"""Of one kind; how many are left out is said behind them."""

_COLOURS = {"PASS": "#1b7a3d", "FAIL": "#c62828", "ERROR": "#c62828", "INCONCLUSIVE": "#8a5a00"}


def table(rows: Sequence[str], caption: str = "") -> str:
    """Rows, as made by the functions below, as a table."""
    above = f"<caption>convert: {escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<tbody>{''.join(rows)}</tbody></table>"


def row(heading: str, *texts: str, status: str = "") -> str:
    """A heading, and beside it the texts below one another, behind a status that no text can imitate."""
    word = [f'<b style="color:{_COLOURS[status]}">{escape(status)}</b>'] if status else []
    shown = "<br/>".join([*word, *(escape(text) for text in texts if text)])
    return f'<tr><th style="text-align:left">{escape(heading)}</th><td style="text-align:left">{shown}</td></tr>'


def rows(heading: str, texts: Sequence[str]) -> list[str]:
    """A row for each text, `MOST_ROWS` at the most."""
    return bounded([row(heading, text) for text in texts])


def bounded(made: Sequence[str]) -> list[str]:
    """The first `MOST_ROWS` rows, and how many there are besides."""
    return [*made[:MOST_ROWS], *([row("", f"and {len(made) - MOST_ROWS} more")] if len(made) > MOST_ROWS else [])]
