"""Shared by all verbs on the command line: help in sections, and usage errors reported like all other errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from convert import plugin
from convert.errors import UsageError

COMMON = "Used most"
SECTIONS = ("Input", "Output", "Verification", "Safety", "Work", "Advanced")
_SECTION_OF = {
    "Input": ("inputs", "model", "model_args", "code", "outputs", "signature", "trace", "rules", "names", "origin",
              "exclude"),
    "Output": ("to", "output", "layout", "skip_existing", "force", "dry_run", "junit"),
    "Verification": ("verify", "arrays", "images", "image_as", "save_inputs", "page", "report", "timed", "seeds",
                     "rtol", "atol", "pairs"),
    "Safety": ("trust", "timeout", "memory"),
    "Work": ("jobs", "engine", "ray_address", "cpus", "retries", "cold", "redo_failed", "journal",
             "compare_with"),
}  # fmt: skip
"""Which section of the help an option stands in, by the name of its parameter; any other is in the last one."""


_WITHOUT_FILES = ("formats", "explain", "help")


class DeclaredOption(click.Option):
    """An option that a frontend or backend declares, with the section of the help that shows it."""

    section = ""


def section_of(parameter: click.Parameter) -> str:
    """Return the section of an option; a declared option has its own."""
    declared: str = getattr(parameter, "section", "")
    found = (section for section, names in _SECTION_OF.items() if parameter.name in names)
    return declared or next(found, SECTIONS[-1])


def complete_formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the formats that begin with these characters, for shell completion."""
    return [name for name in plugin.formats() if name.startswith(incomplete)]


class VerbCommand(click.Command):
    """A verb. `common` are the parameters that its help shows first, `examples` are lines at the end of the help."""

    def __init__(self, *args: Any, common: Sequence[str] = (), examples: Sequence[str] = (), **rest: Any) -> None:
        self.common, self.examples = tuple(common), tuple(examples)
        super().__init__(*args, **rest)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, the most used first, and the examples."""
        self.write_sections(ctx, formatter)

    def write_sections(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options in their sections."""
        shown = [p for p in self.get_params(ctx) if isinstance(p, click.Option) and p.get_help_record(ctx)]
        first = [p for name in self.common for p in shown if p.name == name]
        parts = {COMMON: first} | {s: [p for p in shown if p not in first and section_of(p) == s] for s in SECTIONS}
        parts = {title: part for title, part in parts.items() if part}
        for title, part in parts.items():
            with formatter.section("Options" if len(parts) == 1 else title):
                formatter.write_dl([record for p in part if (record := p.get_help_record(ctx))])
        write_examples(formatter, self.examples)

    def make_context(self, *args: Any, **rest: Any) -> click.Context:
        """Parse the words. Raises this project's `UsageError` for wrong ones."""
        try:
            return super().make_context(*args, **rest)
        except click.UsageError as error:
            raise _usage_error(error, self) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb. Raises `UsageError` in a deleted current folder, in which libraries would end the process."""
        if self.name not in _WITHOUT_FILES:
            try:
                os.getcwd()
            except FileNotFoundError:
                raise UsageError(
                    "the folder that you are in has been removed: libraries do not load in it",
                    hint="cd to another one",
                ) from None
        return super().invoke(ctx)


def write_examples(formatter: click.HelpFormatter, lines: Sequence[str]) -> None:
    """Write lines unchanged, indented."""
    if lines:
        with formatter.section("Examples" if len(lines) > 1 else "Example"):
            for line in lines:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _usage_error(error: click.UsageError, command: click.Command) -> UsageError:
    """Return click's usage error in this project's words, with a suggestion."""
    verb = "" if command.hidden else f" {command.name}"
    more = f"`convert{verb} --help` shows the options"
    if isinstance(error, click.NoSuchOption):
        from convert.cli.option_suggestions import OPTION_SUGGESTIONS, suggestion_for_option

        option = error.option_name
        others = "" if option in OPTION_SUGGESTIONS else _verbs_with(error, command)
        hint = f"{others}; {more}" if others else suggestion_for_option(option, _options(error, command)) or more
        return UsageError(f"there is no option {option}", hint=hint)
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        examples = getattr(command, "examples", ())
        return UsageError(
            f"no {error.param.make_metavar(_context(error, command))} is named",
            hint=f"for instance: {examples[0]}" if examples else more,
        )
    if isinstance(error, click.BadOptionUsage) and error.message.endswith("does not take a value."):
        return UsageError(f"{error.option_name} does not take a value", hint=_without_value(error, command) or more)
    if isinstance(error, click.BadOptionUsage) and error.message.endswith("requires an argument."):
        params = (p for p in command.get_params(_context(error, command)) if error.option_name in p.opts)
        shown = next((p.make_metavar(_context(error, command)) for p in params), "a value")
        return UsageError(f"{error.option_name} takes {shown}, which is missing", hint=more)
    if error.message.startswith("Got unexpected extra argument"):
        names = error.message.partition("(")[2].rstrip(").")
        taken = [p.make_metavar(_context(error, command)) for p in command.params if isinstance(p, click.Argument)]
        what = f"takes one {taken[0]}, and there is {names} too" if taken else f"takes no names, and there is {names}"
        return UsageError(f"convert{verb} {what}", hint=more)
    if isinstance(error, click.BadParameter) and isinstance(getattr(error.param, "type", None), click.Choice):
        from convert.cli.option_suggestions import suggestion_for_value

        choices = [str(choice) for choice in error.param.type.choices]  # type: ignore[union-attr]
        value = error.message.split("'")[1] if "'" in error.message else ""
        more = suggestion_for_value(value, choices, _options(error, command)) or more
    if isinstance(error, click.BadParameter) and error.message.endswith("does not exist."):
        from convert.files.missing import missing_path_error

        missing = missing_path_error(Path(error.message.split("'")[1]), hub=False)
        return UsageError(f"{error.param.opts[0] if error.param else 'it'}: {missing.message}", hint=missing.hint)
    if isinstance(error, click.BadParameter) and (span := _span(error.param)):
        more = f"give a number {span}"
    text = error.format_message().strip().rstrip(".")
    text = text.replace("a valid integer range", "a whole number").replace("a valid float range", "a number")
    return UsageError(text[:1].lower() + text[1:], hint=more)


def _span(param: click.Parameter | None) -> str:
    """Return the numbers that an option takes, such as `from 7 to 28`; empty if there are no limits."""
    low, high = (getattr(getattr(param, "type", None), side, None) for side in ("min", "max"))
    parts = [f"{word} {limit}" for word, limit in (("from", low), ("to", high)) if limit is not None]
    return " ".join(parts)


def _options(error: click.UsageError, command: click.Command) -> set[str]:
    """Return all options of a verb, as they are typed."""
    return {word for p in command.get_params(_context(error, command)) for word in (*p.opts, *p.secondary_opts)}


def _verbs_with(error: click.NoSuchOption, command: click.Command) -> str:
    """Return which other commands have the option, such as "`convert batch` has it"; empty if none has."""
    context = _context(error, command)
    group = context.parent.command if context.parent else None
    verbs = group.commands.values() if isinstance(group, click.Group) else ()
    found = [
        f"`convert{'' if verb.hidden else f' {verb.name}'}`"
        for verb in verbs
        if verb is not command and error.option_name in _options(error, verb)
    ]
    return f"{', '.join(found)} {'has' if len(found) == 1 else 'have'} it" if found else ""


def _context(error: click.UsageError, command: click.Command) -> click.Context:
    return error.ctx or click.Context(command)


def _without_value(error: click.BadOptionUsage, command: click.Command) -> str:
    """Return the option that switches off an option which was given a value, if there is one."""
    params = (p for p in command.get_params(_context(error, command)) if error.option_name in p.opts)
    return next((f"{p.secondary_opts[0]} switches it off" for p in params if p.secondary_opts), "")
