"""The top-level command: its first word is a verb or a model; its help shows a conversion and the list of verbs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import convert
from convert.cli.first_words import MODEL, arranged
from convert.cli.output_options import WORDS
from convert.cli.verb_command import VerbCommand
from convert.errors import ConvertError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMPLETION = (
    'Completion: put eval "$(_CONVERT_COMPLETE=bash_source convert)" into ~/.bashrc; zsh_source and fish_source are '
    "for the other shells."
)


class VerbGroup(click.Group):
    """A group whose first word may also be a model: `convert model.pt --to tf` is `convert` without a verb."""

    def main(self, *args: Any, **rest: Any) -> Any:
        """Run and exit; a usage error is one paragraph and exit code 2, as for every error."""
        run: Any = super().main
        if rest.pop("standalone_mode", True) is False:
            return run(*args, standalone_mode=False, **rest)
        try:
            sys.exit(run(*args, standalone_mode=False, **rest))
        except click.Abort:
            sys.exit(130)
        except ConvertError as error:
            self._tell(error, rest.get("args", sys.argv[1:]))
            sys.exit(error.exit_code)
        except click.ClickException as error:
            self._tell(UsageError(error.format_message()), rest.get("args", sys.argv[1:]))
            sys.exit(error.exit_code)

    def _tell(self, error: ConvertError, words: Sequence[str]) -> None:
        """Print an error from before the work, also as a line of JSON for --json."""
        from convert.cli import render
        from convert.outcome.report import Report
        from convert.outcome.terminal import echo_json

        verb = next((word for word in words if word in self.commands), "convert")
        if "--json" in words:
            has_report = verb in ("convert", "verify", "inspect")
            echo_json(render.error_json(Report(verb) if has_report else verb, error))
        render.error(error)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words, with their verb first."""
        ctx.meta[WORDS] = tuple(args)
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(UsageError.exit_code)
        if ctx.resilient_parsing and args and args[0] not in self.commands and not args[0].startswith("-"):
            return super().parse_args(ctx, [MODEL, *args])
        return super().parse_args(ctx, args if ctx.resilient_parsing else arranged(args, self.commands))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return completions: verbs, files, and the options of a conversion."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            command = self.commands[MODEL]
            return command.shell_complete(click.Context(command, ctx, resilient_parsing=True), incomplete)
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write both forms of a command line."""
        formatter.write_usage("convert", "MODEL [OUTPUT|FORMAT] [--to FORMAT] [OPTIONS]")
        formatter.write_usage("convert", "verify|batch|inspect|formats|ops|explain [OPTIONS] …")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of a conversion and the other verbs."""
        command = self.commands[MODEL]
        assert isinstance(command, VerbCommand)
        command.write_sections(ctx, formatter)
        with formatter.section("Other verbs (`convert help VERB` shows their options)"):
            shown = [(n, c.get_short_help_str(90)) for n, c in self.commands.items() if not c.hidden]
            formatter.write_dl(shown)
        formatter.write_paragraph()
        formatter.write_text(_COMPLETION)
        formatter.write_paragraph()
        formatter.write_text(f"Recipes, with what they print: {Path(convert.__file__).with_name('README.md')}")
