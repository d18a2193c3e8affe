"""The command line: parses arguments, calls `api`, and is the only place that exits.

The module imports what declares the options. A verb imports what does its work when it runs, because `--help`,
completion and usage errors import this module too, and should not wait for more than that.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from convert import __version__, limits, plugin
from convert.cli.batch import batch
from convert.cli.declared_options import ConvertCommand, ReadCommand, values
from convert.cli.explain import explain
from convert.cli.first_words import MODEL
from convert.cli.limit_options import LimitOptions, with_limit_options
from convert.cli.output_options import SUPERVISED, OutputOptions, exit_on_error, run, with_output_options
from convert.cli.own_process import run_in_own_process
from convert.cli.read_options import LAYOUTS, ReadOptions, with_read_options
from convert.cli.verb_command import VerbCommand, complete_formats
from convert.cli.verb_group import VerbGroup
from convert.cli.verify_options import VerifyOptions, with_verify_options
from convert.errors import BadInput, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from convert.outcome.report import Report


def _complete_frontends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in plugin.frontends() if name.startswith(incomplete)]


def _complete_output(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return completions: files, and after the model also formats."""
    from click.shell_completion import CompletionItem

    formats = complete_formats(ctx, param, incomplete) if ctx.params.get(str(param.name)) else []
    return [*(CompletionItem(name) for name in formats), CompletionItem(incomplete, type="file")]


def _here(
    words: Sequence[str],
    report: Report,
    read_options: ReadOptions,
    limit_options: LimitOptions,
    output_options: OutputOptions,
) -> tuple[str, ...]:
    """Return the words of a command with hub models replaced by the folders into which `--download` fetches them."""
    if not read_options.download:
        return tuple(words)
    from convert.cli.downloads import fetched

    quiet = output_options.quiet or output_options.as_json
    shown = report if output_options.as_json else None
    return exit_on_error(lambda: fetched(words, limit_options.seconds(), quiet=quiet), output_options.verbose, shown)


@click.group(
    "convert", cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="convert", message="%(prog)s %(version)s")
def cli() -> None:
    """Convert deep-learning models between PyTorch, TensorFlow, ONNX and Caffe2, and check that the numbers agree."""


@cli.command(
    MODEL,
    cls=ConvertCommand,
    hidden=True,
    common=("to", "output", "inputs", "verify", "force"),
    examples=(
        "convert model.pt --to onnx                        # model.onnx, here",
        "convert model.pt net.savedmodel                   # the name of the output tells the format",
        "convert model.pt tf --input 'x:float32[batch,3,224,224]'",
        "convert weights.pt --model pkg.mod:factory --to tflite --quantize int8",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="MODEL [OUTPUT|FORMAT]", shell_complete=_complete_output)
@click.option(
    "-t",
    "--to",
    metavar="FORMAT",
    shell_complete=complete_formats,
    help="Output format (see `convert formats`); optional if OUTPUT names one.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Output path (default: the model's name, in this folder).",
)
@click.option("--layout", type=click.Choice(LAYOUTS, case_sensitive=False), help="Layout of inputs and outputs.")
@click.option(
    "--verify/--no-verify", default=None, help="Compare the numbers (default: if the runtimes are installed)."
)
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option("--skip-existing", is_flag=True, help="Keep an existing output, and exit with 0.")
@click.option("--dry-run", is_flag=True, help="Check the operators without writing anything.")
@click.option(
    "--dump-passes",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the graph after each pass to this new folder, as ONNX files.",
)
@click.option("--check-passes", is_flag=True, help="Check the graph after each pass; name the one that breaks it.")
@with_verify_options
@with_read_options
@with_limit_options
@with_output_options
def convert_model(
    words: tuple[str, ...],
    to: str | None,
    output: Path | None,
    layout: str | None,
    verify: bool | None,
    force: bool,
    skip_existing: bool,
    dry_run: bool,
    dump_passes: Path | None,
    check_passes: bool,
    verify_options: VerifyOptions,
    read_options: ReadOptions,
    limit_options: LimitOptions,
    output_options: OutputOptions,
    **declared: Any,
) -> None:
    """Convert MODEL to OUTPUT, or to FORMAT."""
    from convert.cli.conversion import Conversion
    from convert.cli.output_words import placed
    from convert.outcome.report import Report

    report = Report("convert", source=words[0])
    words = _here(words, report, read_options, limit_options, output_options)
    source, form, output = exit_on_error(
        lambda: placed(words, to, output), output_options.verbose, report if output_options.as_json else None
    )

    asked = Conversion(
        source,
        form,
        output,
        layout=layout or "",
        verify=verify,
        force=force,
        skip_existing=skip_existing,
        dry_run=dry_run,
        dump_passes=dump_passes,
        check_passes=check_passes,
        read=read_options,
        verification=verify_options,
        limits=limit_options,
        shown=output_options,
        declared=declared,
    )
    run(report, asked.work, output_options, limit_options, asked.files(), asked.files_read(), asked.files_written())


@cli.command(
    cls=ReadCommand,
    common=("inputs", "arrays", "page", "layout", "trust"),
    examples=(
        "convert verify model.pt model.savedmodel",
        "convert verify model.pt model.onnx --report out.html",
        "convert verify model.py:Net weights.pt model.onnx model.savedmodel",
    ),
)
@click.argument("chain", nargs=-1, required=True, type=click.Path(), metavar="SOURCE TARGET [TARGET]…")
@click.option(
    "--layout",
    type=click.Choice(LAYOUTS, case_sensitive=False),
    help="The layout that TARGET was converted to.",
)
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="LEFT=RIGHT",
    help="Pair an input or output of SOURCE with its name in TARGET; repeatable. LEFT= leaves an output out.",
)
@with_verify_options
@with_read_options
@with_limit_options
@with_output_options
def verify(
    chain: tuple[str, ...],
    layout: str | None,
    pairs: tuple[str, ...],
    verify_options: VerifyOptions,
    read_options: ReadOptions,
    limit_options: LimitOptions,
    output_options: OutputOptions,
    **declared: Any,
) -> None:
    """Compare TARGET with SOURCE numerically: PASS (exit 0), FAIL (3) or INCONCLUSIVE (7).

    With more than two artefacts, each is compared with the one before it. model.py:Net before a file of weights is the
    factory of its module.
    """
    from convert.outcome.report import Report

    report = Report("verify", source=chain[0], target=chain[-1])
    chain = _here(chain, report, read_options, limit_options, output_options)

    def work(report: Report) -> Report:
        from convert import api
        from convert.parity.locate.chain import parse_artifacts, parse_pairs, verify_chain

        return verify_chain(
            parse_artifacts(chain),
            api.verify,
            report,
            replace(verify_options.method(limit_options.of_runs()), pairs=parse_pairs(pairs)),
            rules=read_options.rules,
            layout=layout or "",
            **values(declared),
            **read_options.options(),
        )

    read = list(map(Path, chain))
    run(report, work, output_options, limit_options, verify_options, read, read_options.written_by(read, []))


@cli.command(
    cls=ReadCommand,
    common=("inputs", "model", "page", "trust", "as_json"),
    examples=(
        "convert inspect model.onnx",
        "convert inspect model.onnx --report out.html",
        "convert inspect weights.pt --model pkg.mod:factory --json",
        "convert inspect frozen.pb --nodes prob           # names for --outputs",
    ),
)
@click.argument("source", metavar="MODEL", type=click.Path(path_type=Path))
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE.html",
              help="Write a page with the graph as a drawing, its operators and weights.")  # fmt: skip
@click.option("--nodes", default="", metavar="PATTERN",
              help="List inner nodes and tensors with such names instead: a part of a name, or a glob.")  # fmt: skip
@with_read_options
@with_limit_options
@with_output_options
def inspect(
    source: Path,
    page: Path | None,
    nodes: str,
    read_options: ReadOptions,
    limit_options: LimitOptions,
    output_options: OutputOptions,
    **declared: Any,
) -> None:
    """Show a model's kind, inputs, outputs, operators and weights."""
    from convert.cli.model_page import ModelPage
    from convert.outcome.report import Report

    report = Report("inspect", source=str(source))
    (place,) = _here([str(source)], report, read_options, limit_options, output_options)
    source = Path(place)

    def work(report: Report) -> Report:
        from convert import api

        return api.inspect(
            source,
            rules=read_options.rules,
            nodes=nodes,
            report=report,
            **values(declared),
            **read_options.options(),
        )

    written = read_options.written_by([source], [])
    run(report, work, output_options, limit_options, ModelPage(page), [source], written)


@cli.command(cls=VerbCommand, examples=("convert formats -v",))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Also say how runs of models are confined here.")
def formats(as_json: bool, verbose: bool) -> None:
    """List what can be read and what can be written."""
    from convert.cli import render

    exit_on_error(lambda: render.formats(as_json, verbose), 0, "formats" if as_json else None)


@cli.command(
    cls=VerbCommand,
    common=("to", "origin", "names"),
    examples=(
        "convert ops --to caffe2",
        "convert ops softmax                  # what is called so, in every table",
        "convert ops --from tf --of names.txt",
        "convert ops --skeleton mine::cube > my_rules.py",
    ),
)
@click.argument("words", nargs=-1, metavar="[OPERATOR]…")
@click.option("-t", "--to", metavar="FORMAT", shell_complete=complete_formats, help="Operators that a backend writes.")
@click.option(
    "--from", "origin", metavar="FRONTEND", shell_complete=_complete_frontends, help="Operators that a frontend reads."
)
@click.option(
    "--of", "names", type=click.Path(exists=True, dir_okay=False), help="Only the operators that this file names."
)
@click.option("--skeleton", metavar="OPERATOR", help="Print the beginning of a rule for this operator instead.")
@click.option("--rules", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
              help="Python file that declares operators of yours; it is run first.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ops(
    words: tuple[str, ...],
    to: str | None,
    origin: str | None,
    names: str | None,
    skeleton: str | None,
    rules: tuple[Path, ...],
    as_json: bool,
) -> None:
    """List the operators of a frontend or a backend, with declared gaps and their reasons.

    OPERATOR is a name or a part of one; case does not matter. Matches in every table are listed, or in the one that
    --to or --from names. With --of, the operators are those at the start of each line of a file: the answer says how
    many have rules, and why the others have none.
    """

    def work() -> None:
        from convert.cli import operator_tables
        from convert.outcome.terminal import echo_lines
        from convert.request.destination import format_named

        if rules:
            from convert.rules.user_files import load_rules

            load_rules(rules)
        if skeleton is not None:
            writer = plugin.backend_for(format_named(to).name) if to else None
            reader = plugin.frontend_named(origin) if origin else None
            echo_lines(plugin.skeleton(skeleton, writer or reader).removesuffix("\n"))
            return
        if words and to is origin is names is None:
            operator_tables.operators_called(words, as_json)
            return
        if (to is None) == (origin is None):
            raise UsageError(
                "say one of --to FORMAT and --from FRONTEND",
                hint=f"frontends: {', '.join(plugin.frontends())}; formats: {', '.join(plugin.formats())}; "
                "or name an operator: `convert ops softmax`",
            )
        if to is not None:
            title = format_named(to).name
            package: plugin.Frontend | plugin.Backend = plugin.backend_for(title)
            rows = list(plugin.backend_for(title).operators(title))
        else:
            title, package = str(origin), plugin.frontend_named(str(origin))
            rows = list(plugin.frontend_named(title).operators())
        if names is not None:
            other = getattr(package, "operator_row", lambda name: None)
            rows = plugin.operators_in_text(rows, _list_of_operators(names), other)
        if words:
            from convert.rules.find import check_found, matching_operators

            all_rows, rows = rows, matching_operators(rows, words)
            check_found(rows, words, [row.name for row in all_rows], f" of {title}")
        operator_tables.operators(title, rows, as_json)

    exit_on_error(work, 0, "ops" if as_json else None)


def _list_of_operators(path: str) -> str:
    """Return the text of a file. Operator names are ASCII; other bytes are shown as well as possible."""
    try:
        with open(path, "rb") as file:
            text = file.read(limits.OPERATOR_LIST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from None
    if len(text) > limits.OPERATOR_LIST_BYTES:
        raise BadInput(f"{path} has more than {limits.OPERATOR_LIST_BYTES:,} bytes, too large for a list of operators",
                       hint="name a file with one operator at the start of each line")  # fmt: skip
    if b"\0" in text:
        raise UsageError(
            f"{path} is not a text file with one operator at the start of each line",
            hint=f"to check the operators of a model: convert batch {shlex.quote(path)} --to FORMAT --dry-run",
        )
    return text.decode("utf-8", "backslashreplace")


cli.add_command(batch)
cli.add_command(explain)


def run_command_line() -> NoReturn:
    """Run the command in these words, and exit. Verbs that read models run in a process that this one watches."""
    run_in_own_process(lambda: cli.main(prog_name="convert", obj=SUPERVISED))
