"""The one way to stdout and stderr: what a file brings is made visible on it, whatever a name holds."""

from __future__ import annotations

import click

from convert.text import visible, visible_json


def echo(text: str = "", *, lead: str = "", err: bool = False, nl: bool = True) -> None:
    """Print a line; `lead` is put before it as it is, styled by the caller and free of what files say."""
    click.echo(lead + visible(text), err=err, nl=nl)


def echo_json(line: str) -> None:
    """Print a line of JSON."""
    click.echo(visible_json(line))
