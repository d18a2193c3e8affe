"""The verb `convert explain`."""

from __future__ import annotations

import click

from convert.cli.output_options import exit_on_error
from convert.cli.verb_command import VerbCommand


def _complete_codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from convert.cli.code_texts import ALL

    return [code for code in ALL if code.startswith(incomplete)]


@click.command(cls=VerbCommand, examples=("convert explain assumed-input", "convert explain"))
@click.argument("codes", nargs=-1, metavar="[CODE]…", shell_complete=_complete_codes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain(codes: tuple[str, ...], as_json: bool) -> None:
    """Explain a note or an error by its code, or list all codes.

    `-v` and `--json` show the codes of notes, `--json` those of errors.
    """

    def work() -> None:
        from convert.cli.code_texts import print_codes

        print_codes(codes, as_json)

    exit_on_error(work, 0, "explain" if as_json else None)
