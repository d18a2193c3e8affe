"""Reports the outcome of a verb: a report, or one paragraph for an error, and the exit code."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import click

from convert.cli import signals
from convert.cli.limit_options import LimitOptions
from convert.errors import ConvertError, as_convert_error
from convert.outcome.terminal import echo, echo_json, echo_traceback
from convert.outcome.text import shell_line

if TYPE_CHECKING:
    from convert.outcome.report import Report

WORDS = "convert.words"
"""Key of the command line in click's context; a page shows the command with which it was made."""

T = TypeVar("T")

_PATIENCE = 10.0
"""Seconds in which a page about an error is written."""

SUPERVISED = "supervised"
"""Click's object on the command line proper, whose work is done in a process that this one watches."""


class FilesBeside(Protocol):
    """The files that a verb writes besides its result: a page, the inputs of a verification."""

    def check_places(self, read: Sequence[Path]) -> None:
        """Raise `UsageError` if a file to write would overwrite a file in `read`, or one that this tool has not
        written.
        """

    def named_files(self) -> list[tuple[str, Path]]:
        """Return the files to write, each with the option that names it."""

    def places(self) -> dict[Path, str]:
        """Return the files to write, and what each is; a file that is written only after a failure is left out."""

    def write(self, done: Report, error: ConvertError | None = None) -> None:
        """Write the files, also after an error."""


@dataclass(frozen=True)
class OutputOptions:
    """The values of these options: JSON or text, no progress, and the verbosity."""

    as_json: bool = False
    quiet: bool = False
    verbose: int = 0


_OPTIONS = [
    click.option("--json", "as_json", is_flag=True, help="Print the report as one line of JSON."),
    click.option("-q", "--quiet", is_flag=True, help="Hide progress and notes; errors are still printed."),
    click.option(
        "-v",
        "--verbose",
        count=True,
        help="Also show info notes, and progress in a pipe; -vv shows all notes and tracebacks.",
    ),
]


def with_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them together as `output_options`."""

    @functools.wraps(command)
    def with_options(*args: Any, as_json: bool, quiet: bool, verbose: int, **rest: Any) -> Any:
        return command(*args, output_options=OutputOptions(as_json, quiet, verbose), **rest)

    for option in reversed(_OPTIONS):
        with_options = option(with_options)
    return with_options


def command_line() -> str:
    """Return the running command, quoted for a shell."""
    return shell_line(["convert", *click.get_current_context().meta.get(WORDS, ())])


def run(
    report: Report,
    work: Callable[[Report], Report],
    output_options: OutputOptions,
    limit_options: LimitOptions,
    files: FilesBeside | None = None,
    read: Sequence[Path] = (),
    written: Sequence[Path] | None = None,
) -> None:
    """Do the `work` of a command, print its report, and exit with the report's exit code.

    On the command line the work is done by a worker process, which this process watches.

    - `files`: files written in addition to the result
    - `read`: the files that the command reads, none of which may be overwritten
    - `written`: what the command writes besides `files`; None if the user's own code runs
    """

    def enter() -> None:
        if click.get_current_context().obj == SUPERVISED:
            from convert.cli.supervisor import disk_usage, enter_worker

            places = _places_written(files, written)
            enter_worker(limit_options.seconds(), limit_options.bytes(), disk_usage(report.source), places)

    def noted_work(report: Report) -> Report:
        from convert.processes.bytecode import bytecode_note

        done = work(report)
        if (note := bytecode_note()) is not None:
            done.note(note)
        return done

    report.reproduce = command_line()
    run_entered(report, noted_work, output_options, files, read, enter)


def run_confined(
    report: Report,
    work: Callable[[Report], Report],
    output_options: OutputOptions,
    files: FilesBeside | None,
    read: Sequence[Path],
    written: Sequence[Path] | None,
) -> None:
    """Do as `run` in a process that exists for this work alone: it loses the right to write anywhere else."""

    def enter() -> None:
        places = _places_written(files, written)
        if places is not None:
            import tempfile

            from convert.processes.sandbox import confine_command
            from convert.processes.warm import keep_warm_processes

            keep_warm_processes(Path(tempfile.gettempdir()), places)
            confine_command(Path(tempfile.gettempdir()), places)

    run_entered(report, work, output_options, files, read, enter)


def _places_written(files: FilesBeside | None, written: Sequence[Path] | None) -> list[Path] | None:
    if written is None:
        return None
    return [*written, *(files.places() if files is not None else [])]


def run_entered(
    report: Report,
    work: Callable[[Report], Report],
    output_options: OutputOptions,
    files: FilesBeside | None,
    read: Sequence[Path],
    enter: Callable[[], None],
) -> None:
    """Check the places of files, `enter` the process that does the work, do it with progress on stderr, print its
    report, and exit with the report's exit code.
    """
    from convert.cli.progress import shown_progress

    began = time.monotonic()
    written_after_error: dict[Path, str] = {}

    def task() -> None:
        if files is not None:
            files.check_places(read)
            report.side_files = files.named_files()
        try:
            enter()
            silent = output_options.quiet or output_options.as_json
            with shown_progress(quiet=silent, verbose=output_options.verbose):
                done = work(report)
        except ConvertError as error:
            if files is not None:
                _write_soon(files, report, error)
                pages = {path: what for path, what in files.places().items() if what == "report" and path.exists()}
                written_after_error.update(pages)
            raise
        if files is not None:
            files.write(done)
        _print_report(done, output_options, files, time.monotonic() - began)
        sys.exit(done.exit_code)

    exit_on_error(task, output_options.verbose, report if output_options.as_json else None, written_after_error)


def _print_report(done: Report, output_options: OutputOptions, files: FilesBeside | None, seconds: float) -> None:
    from convert.cli import render

    if output_options.as_json:
        echo_json(done.to_json())
        return
    render.report(
        done,
        quiet=output_options.quiet,
        verbose=output_options.verbose,
        seconds=seconds,
        written=files.places() if files is not None else {},
    )


def _write_soon(files: FilesBeside, report: Report, error: ConvertError) -> None:
    """Write the files that report an error, and raise what the writing raises; wait no longer than `_PATIENCE`.

    After the time limit of the command, no other limit ends a process that waits for a reader of a pipe.
    """
    errors: list[Exception] = []

    def write() -> None:
        try:
            files.write(report, error)
        except Exception as problem:
            errors.append(problem)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    writer.join(_PATIENCE)
    if errors:
        raise errors[0]
    if writer.is_alive():
        echo(f"note: the report of the error was not written within {_PATIENCE:g} s, because nobody reads it", err=True)


def exit_on_error(
    work: Callable[[], T],
    verbose: int,
    report: Report | str | None = None,
    written: Mapping[Path, str] = MappingProxyType({}),
) -> T:
    """Return the result of `work`; turn exceptions into one paragraph and an exit code, with tracebacks only for -vv.

    report: for --json, the report of the run, or the name of a verb that has none. written: the files that report the
    error, and what each is; `work` fills it in.
    """
    try:
        return work()
    except ConvertError as error:
        _exit_with_error(error, verbose, report, written=written)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(130)
    except signals.Ended as ended:
        echo(ended.line, err=True)
        sys.exit(ended.exit_code)
    except Exception as error:
        _exit_with_error(as_convert_error(error), verbose, report, error)


def _exit_with_error(
    error: ConvertError,
    verbose: int,
    report: Report | str | None,
    cause: Exception | None = None,
    written: Mapping[Path, str] = MappingProxyType({}),
) -> NoReturn:
    from convert.cli import render

    if verbose >= 2:
        echo_traceback(cause or error)
    if report is not None:
        echo_json(render.error_json(report, error))
    render.error(error)
    for path, what in written.items():
        echo(f"{what}: {path}", err=True)
    sys.exit(error.exit_code)
