"""The limits on hostile files are in one place, with their meaning, and each of them is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from convert import limits

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    path: path.read_text()
    for top in ("convert", "frontends", "backends")
    for path in (ROOT / top).rglob("*.py")
    if path != ROOT / "convert" / "limits.py"
}


def test_the_table_has_every_limit_with_its_unit() -> None:
    rows = limits.table()
    assert [row.name for row in rows] == [name for name in vars(limits) if name.isupper()]
    for row in rows:
        assert row.value == getattr(limits, row.name) > 0
        assert re.fullmatch(r"[a-z]+", row.unit), row
        assert len(row.what) > 20, row


def test_each_is_used_and_read_when_it_is_needed() -> None:
    """`from convert.limits import X` would keep a number that nobody can change."""
    for row in limits.table():
        assert any(f"limits.{row.name}" in text for text in SOURCES.values()), f"{row.name} bounds nothing"
    for path, text in SOURCES.items():
        assert "from convert.limits import" not in text, path


def test_the_table_follows_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PICKLE_OPCODES", 7)
    assert {row.name: row.value for row in limits.table()}["PICKLE_OPCODES"] == 7


def test_what_is_read_from_an_archive_has_a_limit_of_the_table() -> None:
    """Each use of `read_member` outside its own module names one."""
    calls = [
        (path, call)
        for path, text in SOURCES.items()
        for call in re.findall(r"(?<!def )\bread_member\(.*", text)
        if path.name != "archives.py"
    ]
    assert len(calls) >= 6
    for path, call in calls:
        assert "limits." in call, f"{path}: {call}"
