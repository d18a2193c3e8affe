"""Mutants that no test can tell from the program, with the reason why."""

from __future__ import annotations

EQUIVALENTS: dict[tuple[str, str, str], str] = {}
"""Name of the file, the line, the line as changed; and why both are the same program."""
