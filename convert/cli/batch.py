"""The verb `convert batch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from convert.cli.limit_options import LimitOptions
from convert.cli.verb_command import VerbCommand, complete_formats

if TYPE_CHECKING:
    from convert.batch.found_paths import SkippedPaths
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
              help="Where outputs go: a folder, or a URL such as s3://bucket/zoo.")  # fmt: skip
@click.option("--journal", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder of the journal (default: that of the outputs; for a URL, a folder here).")  # fmt: skip
@click.option(
    "-j", "--jobs", type=click.IntRange(1), help="Number of conversions at a time (default: one for each CPU)."
)
@click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
              help="Where tasks run: on this machine, or on a Ray cluster.")  # fmt: skip
@click.option(
    "--ray-address",
    default="",
    metavar="HOST:PORT",
    help="Address of a running cluster ('auto': the one of this host).",
)
@click.option("--cpus", type=float, default=1.0, show_default=True, help="CPUs for each task on the cluster.")
@click.option(
    "--timeout", type=float, default=3600.0, show_default=True, metavar="SECONDS", help="Time limit for each task."
)
@click.option("--memory", metavar="SIZE", help="Memory limit for each task with all its processes, e.g. 8GB.")
@click.option(
    "--retries", type=click.IntRange(0), default=1, show_default=True, help="Retries after a crash or lack of memory."
)
@click.option("--cold", is_flag=True, help="Start a new interpreter for each task instead of forking a warm one.")
@click.option(
    "--verify/--no-verify", default=None, help="Compare the numbers (default: if the runtimes are installed)."
)
@click.option("--input", "inputs", multiple=True, metavar="NAME:DTYPE[DIMS]", help="Describe an input of every model.")
@click.option("--trust", is_flag=True, help="Allow executing what the model files contain.")
@click.option("--force", is_flag=True, help="Repeat finished tasks, and replace files that convert did not write.")
@click.option("--redo-failed", is_flag=True, help="Repeat the tasks that did not succeed.")
@click.option("--dry-run", is_flag=True, help="Print the plan and the missing operators; write nothing.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="Write a page of all results, and one for each model beside it.",
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE.xml",
              help="Write the results as JUnit XML, for CI.")  # fmt: skip
@click.option("--compare-with", type=click.Path(path_type=Path), metavar="JOURNAL",
              help="Report what has changed since another batch: failures, sizes, errors.")  # fmt: skip
@click.option("--exclude", multiple=True, metavar="GLOB", help="Skip models whose name or path matches; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each task, and one for the summary.")
@click.option("-q", "--quiet", is_flag=True, help="Print failures only.")
@click.option("-v", "--verbose", is_flag=True, help="Also print the errors of each output, and the notes.")
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
    """Convert many models, each in its own process; continue an interrupted run.

    Name the models by manifests (.toml), folders, globs or files. If you name none, their paths are read from standard
    input, one a line.
    """
    from convert.cli.output_options import exit_on_error
    from convert.cli.signals import raise_in_main_thread

    def work() -> None:
        from convert.batch import run, show, storage
        from convert.batch.changes import changes, earlier_records
        from convert.batch.journal import NAME as journal_name

        options = _options(verify, inputs, trust)
        on = _cluster(engine, ray_address, cpus)
        where = _output_place(output)
        folder = journal or (where if isinstance(where, Path) else Path(storage.local_name(where)))
        before = None if compare_with is None else earlier_records(compare_with)
        tasks, passed = _planned_tasks(what, to, where, options, LimitOptions(timeout, memory), exclude)
        _check_side_files(report, junit, tasks, folder / journal_name)
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
    # Schedulers end a job by SIGTERM; the running tasks are then killed, as on Ctrl-C.
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
        raise UsageError(f"{output} is a file, but outputs go to a folder", hint="give another -o")
    return where


def _planned_tasks(
    what: Sequence[str],
    to: Sequence[str],
    where: Path | Url,
    options: dict[str, Any],
    bounds: LimitOptions,
    exclude: Sequence[str],
) -> tuple[list[Task], SkippedPaths]:
    """Return the tasks for the named models, or for the lines of standard input, and the paths that were left out.

    Raises `UsageError` if nothing is named, and as `plan_tasks` does.
    """
    from convert.batch.found_paths import SkippedPaths
    from convert.batch.plan import plan_tasks
    from convert.errors import UsageError

    names = list(what)
    if not names and not sys.stdin.isatty():
        names = [name for line in sys.stdin.buffer if (name := os.fsdecode(line).strip())]  # any bytes may be a name
    if not names:
        raise UsageError("no models are named", hint="name a manifest, a folder, a glob, or pipe in paths, one a line")
    passed = SkippedPaths()
    return plan_tasks(names, to, where, options, bounds.seconds(), bounds.bytes(), passed, exclude), passed


def _check_side_files(report: Path | None, junit: Path | None, tasks: Sequence[Task], journal: Path) -> None:
    """Raise `UsageError` if the page, the results or the journal would destroy a source, an output or one another."""
    from convert.batch.junit import is_results
    from convert.files.output_place import check_apart
    from convert.files.side_files import check_different, check_side_file, is_page

    sources = [task.source for task in tasks]
    check_apart(journal, sources, "give another --journal or -o")
    outputs = [("the output of a model", task.output) for task in tasks if isinstance(task.output, Path)]
    named = [("--report", report), ("--junit", junit)]
    check_different(
        [("the journal", journal), *outputs, *((option, path) for option, path in named if path is not None)]
    )

    if report is not None:
        check_side_file(report, is_page, "--report", sources)
    if junit is not None:
        check_side_file(junit, is_results, "--junit", sources)


def _write_results(
    records: list[dict[str, Any]], answer: dict[str, Any], places: dict[str, Path | None], as_json: bool
) -> None:
    """Write the page and the results for CI, and print the summary and where these files are."""
    import json

    from convert.batch import junit, show
    from convert.cli.output_options import command_line
    from convert.outcome.terminal import echo, echo_json

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


def _tell_passed_over(passed: SkippedPaths, quiet: bool) -> None:
    """Print what was left out of the folders. Unreadable folders are always printed, because models may be in them."""
    from convert.outcome.terminal import echo
    from convert.outcome.text import counted

    for word, reason, paths in (
        ("file", "not a model", passed.files),
        ("link", "to a large folder elsewhere", passed.links),
        ("model", "by --exclude", passed.excluded),
    ):
        if paths and not quiet:
            first = ", ".join(map(str, paths[:5])) + (" …" if paths[5:] else "")
            echo(f"note: skipped {counted(len(paths), word)}, {reason}: {first}", err=True)
    for pattern in passed.unmatched:
        echo(f"note: --exclude {pattern} matches no model, by its name, file or folder", err=True)
    for message in passed.unreadable.values():
        echo(f"note: {message}; its models are left out", err=True)
