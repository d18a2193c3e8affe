"""The command-line options that frontends and backends declare; they are created when a command line is parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from convert import plugin
from convert.cli.verb_command import DeclaredOption, VerbCommand
from convert.errors import ConvertError
from convert.plugin import Option


class DeclaringCommand(VerbCommand):
    """A command with the options from `declared` in addition to its own; its function gets them by name.

    The options are looked up when click asks for them, so that `convert ops` does not import every frontend and
    backend.
    """

    declared: Callable[[], Mapping[str, Option[Any]]]
    before: str
    """The name of the option that they stand before in the help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        taken = {word for parameter in own for word in (parameter.name, *parameter.opts)}
        made = [_click_option(option) for option in _declared(self.declared).values()]
        writing = {option.name for backend in plugin.backends().values() for option in getattr(backend, "OPTIONS", ())}
        for option in made:
            if taken & {option.name, *option.opts}:
                raise click.ClickException(
                    f"a frontend or backend declares {option.opts[0]}, which is an option already"
                )
            option.section = "Output" if option.name in writing else "Input"
        at = next(i for i, parameter in enumerate(own) if parameter.name == self.before)
        return [*own[:at], *made, *own[at:]]


class ConvertCommand(DeclaringCommand):
    """A command that reads and writes models."""

    before = "verify"
    declared = staticmethod(plugin.options)


class ReadCommand(DeclaringCommand):
    """A command that reads models only."""

    before = "as_json"
    declared = staticmethod(lambda: plugin.options_declared_by(plugin.frontends().values()))


def values(given: Mapping[str, Any], image_as: str = "") -> dict[str, Any]:
    """Return the keyword arguments of `convert.api` for a parsed command line; raises as `load_samples` for a file.

    image_as: how the images of a folder become inputs.
    """
    return {name: _load(value, image_as) for name, value in given.items() if value is not None}


def _declared(declared: Callable[[], Mapping[str, Option[Any]]]) -> Mapping[str, Option[Any]]:
    try:
        return declared()
    except ConvertError as error:  # click shows this error like its own
        raise click.ClickException(str(error)) from error


def _load(value: Any, image_as: str) -> Any:
    if not isinstance(value, Path):
        return value
    from convert.request.samples import load_samples

    return load_samples(value, image_as)


def _click_option(option: Option[Any]) -> DeclaredOption:
    words = ["--" + option.name.replace("_", "-"), option.name]
    empty = option.default in ("", {})
    if isinstance(option.default, bool):
        return DeclaredOption(words, is_flag=True, help=option.help)
    kind: Any = type(option.default)
    metavar = option.metavar or None
    if isinstance(option.default, dict):
        kind, metavar = click.Path(path_type=Path, exists=True), metavar or "FILE"
    elif option.choices:
        kind = click.Choice(option.choices, case_sensitive=False)
    elif option.low is not None or option.high is not None:
        kind = (click.IntRange if kind is int else click.FloatRange)(option.low, option.high)
    default = None if empty else option.default
    return DeclaredOption(words, type=kind, default=default, show_default=not empty, metavar=metavar, help=option.help)
