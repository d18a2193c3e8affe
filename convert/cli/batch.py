"""The verb `convert batch`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convert.cli.limit_options import LimitOptions
from convert.cli.verb_command import VerbCommand, complete_formats

if TYPE_CHECKING:
    from convert.batch.found_paths import PassedOver
    from convert.batch.plan import Task
    from convert.batch.ray_engine import Cluster
    from convert.batch.storage import Url


@click.command(
    cls=VerbCommand,
    common=("to", "output", "jobs", "dry_run", "report"),
    examples=(
        "convert batch zoo/ --to tf -o converted --jobs 2",
        "convert batch zoo.toml -o converted --report zoo.html",
        "ls *.onnx | convert batch --to caffe2",
    ),
)
@click.argument("what", nargs=-1, type=click.Path(), metavar="MANIFEST|DIR|GLOB…")
@click.option(
    "-t", "--to", multiple=True, metavar="FORMAT", shell_complete=complete_formats, help="Output format; repeatable."
)
@click.option("-o", "--output", default="converted", show_default=True, metavar="DIR|URL",
              help="Where outputs go: a folder, or a place such as s3://bucket/zoo.")  # fmt: skip
@click.option("--journal", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Where the journal lies: with the outputs, or for a URL in a folder here.")  # fmt: skip
@click.option("-j", "--jobs", type=click.IntRange(1), help="Conversions at a time; by default one for each CPU.")
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
              help="This machine, or a Ray cluster.")  # fmt: skip
@click.option("--ray-address", default="", metavar="HOST:PORT", help="A running cluster ('auto': this host's).")
@click.option("--cpus", type=float, default=1.0, show_default=True, help="CPUs that the cluster gives each task.")
@click.option("--timeout", type=float, default=3600.0, show_default=True, metavar="SECONDS", help="For each task.")
@click.option("--memory", metavar="SIZE", help="For each task and all its processes, e.g. 8GB.")
@click.option(
    "--retries", type=click.IntRange(0), default=1, show_default=True, help="After a crash or lack of memory."
)
@click.option("--cold", is_flag=True, help="A new interpreter for each task, instead of forks of a warm one.")
@click.option("--verify/--no-verify", default=None, help="Compare the numbers (default: where the runtimes are there).")
@click.option("--input", "inputs", multiple=True, metavar="NAME:DTYPE[DIMS]", help="Describe an input of every model.")
@click.option("--trust", is_flag=True, help="Allow executing what the model files contain.")
@click.option("--force", is_flag=True, help="Do again what is done, and replace what others wrote.")
@click.option("--redo-failed", is_flag=True, help="Do again what did not succeed.")
@click.option("--dry-run", is_flag=True, help="Print the plan and what operators are lacking; write nothing.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Write a page of all results, and one for each model beside it.",
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE.xml",
              help="Write the results as JUnit's XML, for CI.")  # fmt: skip
@click.option("--compare-with", type=click.Path(path_type=Path), metavar="JOURNAL",
              help="Tell what has changed since another batch: failures, sizes, errors.")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out models by their names or paths; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each task, and one for the summary.")
@click.option("-q", "--quiet", is_flag=True, help="Lines for failures only.")
@click.option("-v", "--verbose", is_flag=True, help="Errors of each output, and the notes.")
def batch(
    what: Sequence[str],
    to: Sequence[str],
    output: str,
    journal: Path | None,
    jobs: int | None,
    engine: str,
    ray_address: str,
    cpus: float,
    timeout: float,
    memory: str | None,
    retries: int,
    cold: bool,
    verify: bool | None,
    inputs: Sequence[str],
    trust: bool,
    force: bool,
    redo_failed: bool,
    dry_run: bool,
    report: Path | None,
    junit: Path | None,
    compare_with: Path | None,
    exclude: Sequence[str],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Convert many models, each in its own process; go on where a run was ended.

    Models are named by manifests (.toml), folders, globs and files, or by lines of standard input where nothing is
    named.
    """
    from convert.cli.output_options import exit_on_error
    from convert.cli.signals import raise_in_main_thread

    def work() -> None:
        from convert.batch import run, show, storage
        from convert.batch.changes import changes, earlier_records
        from convert.batch.journal import NAME as journal_name
        from convert.files.output_place import check_apart

        options = _options(verify, inputs, trust)
        on = _cluster(engine, ray_address, cpus)
        where = _output_place(output)
        folder = journal or (where if isinstance(where, Path) else Path(storage.local_name(where)))
        before = None if compare_with is None else earlier_records(compare_with)
        tasks, passed = _planned_tasks(what, to, where, options, LimitOptions(timeout, memory), exclude)
        sources = [task.source for task in tasks]
        check_apart(folder / journal_name, sources, "give another --journal or -o")
        _check_side_files(report, junit, sources)
        _tell_passed_over(passed, quiet)
        how: dict[str, Any] = {"jobs": jobs, "force": force, "redo_failed": redo_failed, "warm": not cold, "on": on}
        with show.output_view(len(tasks), as_json, quiet, verbose) as view:
            if dry_run:
                records = run.dry_run(tasks, folder, view, **how)
            else:
                with storage.mirrored_file(folder / journal_name, where):
                    records = run.run(tasks, folder, view, retries=retries, **how)
        answer = show.summary(records) | ({"coverage": show.coverage(records)} if dry_run else {})
        if before is not None:
            answer["changes"] = changes(records, before)
        places = {"report": report, "junit": junit, "journal": None if dry_run else folder / journal_name}
        _write_results(records, answer, places, as_json)
        sys.exit(0 if answer["ok"] and not passed.unreadable else 1)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Schedulers ask for an end by SIGTERM: what runs is killed then, as on Ctrl-C.
    raise_in_main_thread()
    exit_on_error(work, 0, "batch" if as_json else None)


def _options(verify: bool | None, inputs: Sequence[str], trust: bool) -> dict[str, Any]:
    """Return the options of every task, as the command line names them."""
    options: dict[str, Any] = {} if verify is None else {"verify": verify}
    if inputs:
        options["input"] = list(inputs)
    if trust:
        options["trust"] = True
    return options


def _cluster(engine: str, address: str, cpus: float) -> Cluster | None:
    """Return the Ray cluster to use, None for this machine. Raises `UsageError` for an address without Ray."""
    from convert.batch.ray_engine import Cluster
    from convert.errors import UsageError

    if address and engine != "ray":
        raise UsageError("--ray-address is for --engine ray", hint="add --engine ray")
    return Cluster(address, cpus) if engine == "ray" else None


def _output_place(output: str) -> Path | Url:
    """Return where outputs go. Raises `UsageError` for a file."""
    from convert.batch import storage
    from convert.errors import UsageError

    where = storage.parse_location(output)
    if isinstance(where, Path) and os.path.exists(where) and not where.is_dir():
        raise UsageError(f"{output} is a file, and outputs go to a folder", hint="give another -o")
    return where


def _planned_tasks(
    what: Sequence[str],
    to: Sequence[str],
    where: Path | Url,
    options: dict[str, Any],
    bounds: LimitOptions,
    exclude: Sequence[str],
) -> tuple[list[Task], PassedOver]:
    """Return the tasks for what is named, or for the lines of standard input, and what was left out.

    Raises `UsageError` if nothing is named, and as `plan_tasks` does.
    """
    from convert.batch.found_paths import PassedOver
    from convert.batch.plan import plan_tasks
    from convert.errors import UsageError

    names = list(what)
    if not names and not sys.stdin.isatty():
        names = [name for line in sys.stdin.buffer if (name := os.fsdecode(line).strip())]  # any bytes are a name
    if not names:
        raise UsageError("no models are named", hint="name a manifest, a folder, a glob, or send lines of paths")
    passed = PassedOver()
    return plan_tasks(names, to, where, options, bounds.seconds(), bounds.bytes(), passed, exclude), passed


def _check_side_files(report: Path | None, junit: Path | None, sources: Sequence[Path]) -> None:
    """Raise `UsageError` where the page or the results would destroy something."""
    from convert.batch.junit import is_results
    from convert.files.side_files import check_side_file, is_page

    if report is not None:
        check_side_file(report, is_page, "--report", sources)
    if junit is not None:
        check_side_file(junit, is_results, "--junit", sources)


def _write_results(
    records: list[dict[str, Any]], answer: dict[str, Any], places: dict[str, Path | None], as_json: bool
) -> None:
    """Write the page and the results for CI, and print the summary and where these files are."""
    from convert.batch import junit, show
    from convert.cli.output_options import command_line
    from convert.terminal import echo, echo_json

    if (page := places["report"]) is not None:
        from convert.pages import zoo

        zoo.write(page, records, answer, command_line())
    if (results := places["junit"]) is not None:
        junit.write(results, records)
    if as_json:
        echo_json(json.dumps({"summary": answer}, ensure_ascii=False))
        return
    show.show_summary(answer)
    for word, place in places.items():
        if place is not None:
            echo(f"{word}: {place}")


def _tell_passed_over(passed: PassedOver, quiet: bool) -> None:
    """Say what of the folders is left out; what cannot be read is told in any case, as models may be there."""
    from convert.terminal import echo
    from convert.text import counted

    for word, reason, paths in (
        ("file", "not a model", passed.files),
        ("link", "to a large folder elsewhere", passed.links),
        ("model", "by --exclude", passed.excluded),
    ):
        if paths and not quiet:
            first = ", ".join(map(str, paths[:5])) + (" …" if paths[5:] else "")
            echo(f"note: {counted(len(paths), word)} passed over, {reason}: {first}", err=True)
    for message in passed.unreadable.values():
        echo(f"note: {message}; its models are left out", err=True)
