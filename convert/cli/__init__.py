"""The command line: the only room that prints or exits."""

from __future__ import annotations

from convert.cli.commands import cli, main

__all__ = ["cli", "main"]
