"""The only path to stdout and stderr: text from files is made visible and shortened before it is printed."""

from __future__ import annotations

import click

from convert.outcome.text import printed, visible_json


def echo(text: str = "", *, lead: str = "", err: bool = False) -> None:
    """Print one line after `lead`, a text that the caller has styled and that contains nothing from a file."""
    click.echo(lead + printed(text), err=err)


def echo_lines(text: str, *, lead: str = "", err: bool = False) -> None:
    """Print a text with our own line breaks; the caller has escaped the line breaks in names."""
    for number, line in enumerate(text.split("\n")):
        echo(line, lead="" if number else lead, err=err)


def echo_json(line: str) -> None:
    """Print a line of JSON."""
    click.echo(visible_json(line))


def echo_traceback(error: BaseException) -> None:
    """Print a traceback on stderr as Python does, with every name in it made visible."""
    import traceback

    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        echo_traceback(cause)
        echo("which led to:" if error.__cause__ else "during which came:", err=True)
    echo("Traceback (most recent call last):", err=True)
    for frame in traceback.extract_tb(error.__traceback__):
        echo(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}', err=True)
        if frame.line:
            echo(f"    {frame.line}", err=True)
    echo(f"{type(error).__module__}.{type(error).__qualname__}: {error}", err=True)
