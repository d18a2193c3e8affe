"""The tables of `convert ops`: operators that are native, written out by others, or declared gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence

from convert import plugin
from convert.cli.render import echo_table
from convert.outcome.terminal import echo, echo_json
from convert.plugin import Operator
from convert.request.destination import names_format


def operators(title: str, rows: Sequence[Operator], as_json: bool) -> None:
    """Print an operator table: native operators, written-out ones, and declared gaps."""
    if as_json:
        echo_json(json.dumps(_operators_json(title, rows), ensure_ascii=False))
        return
    native = sorted(r.name for r in rows if not r.gap and not r.written_out)
    written_out = sorted(r.name for r in rows if r.written_out)
    gaps = sorted((r.name, r.gap) for r in rows if r.gap)
    limits = sorted((r.name, r.limit) for r in rows if r.limit)
    differs = sorted((r.name, r.difference) for r in rows if r.difference)
    parts = f" ({len(native)} native, {len(written_out)} written out)" if written_out else ""
    echo(f"{title}: {len(native) + len(written_out)} operators{parts}, {len(gaps)} declared gaps")
    for name in native:
        echo(f"  {name}")
    if written_out:
        echo("written out in operators that it has")
    for name in written_out:
        echo(f"  {name}")
    for heading, reasons in (("gaps", gaps), ("not taken", limits), ("other at the edge of numbers", differs)):
        if reasons:
            echo(heading)
            echo_table(reasons)


def _operators_json(title: str, rows: Sequence[Operator]) -> dict[str, object]:
    answer: dict[str, object] = {"name": title, "operators": sorted(r.name for r in rows if not r.gap)}
    answer["written_out"] = sorted(r.name for r in rows if r.written_out)
    reasons = (("gaps", "gap"), ("limits", "limit"), ("differences", "difference"))
    return answer | {key: {r.name: getattr(r, one) for r in sorted(rows, key=lambda r: r.name) if getattr(r, one)}
                     for key, one in reasons}  # fmt: skip


def _state(row: Operator) -> str:
    return " (declared gap)" if row.gap else " (written out)" if row.written_out else ""


def operators_called(words: Sequence[str], as_json: bool) -> None:
    """Print the operators in each table whose names match one of `words`. Raises `UsageError` if none does."""
    from convert.rules.find import check_found, matching_operators, tables

    names: set[str] = set()
    skipped: list[str] = []
    answers, found = [], []
    for title, rows in tables(skipped):
        names.update(row.name for row in rows)
        called = matching_operators(rows, words)
        found += called
        answers.append(_operators_json(title, called))
        if called and not as_json:
            echo(f"{title}: {', '.join(row.name + _state(row) for row in called)}")
    for word in words:
        if names_format(word) or word in plugin.frontends():
            side = "--to" if names_format(word) else "--from"
            echo(f"note: the whole table is `convert ops {side} {word}`", err=True)
    for text in skipped:
        echo(f"note: {text}", err=True)
    check_found(found, words, names)
    if as_json:
        echo_json(json.dumps(answers, ensure_ascii=False))
