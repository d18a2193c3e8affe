"""The child's side of `worker`: converts one model in a process that dies with its batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from convert.processes.interpreter import own_variables
from convert.processes.marks import driver_of
from convert.processes.sandbox import allow_bounded_memory, die_with_parent

if TYPE_CHECKING:
    from convert.batch.task_request import TaskRequest


def convert(arguments: Sequence[str]) -> None:
    """Do what the only argument asks, a `TaskRequest` as JSON; print the report as JSON and exit with its code."""
    from convert.batch.task_request import TaskRequest
    from convert.cli import streams
    from convert.cli.own_process import run_in_own_process

    streams.hold()
    os.environ.update(own_variables())
    allow_bounded_memory()
    (text,) = arguments
    run_in_own_process(lambda: _convert(TaskRequest.from_json(text)))


def _convert(request: TaskRequest) -> None:
    from convert.cli.conversion import conversion_of_task
    from convert.cli.output_options import exit_on_error, run_confined
    from convert.outcome.report import Report

    report = Report("convert", source=request.source)
    asked = exit_on_error(
        lambda: conversion_of_task(request.source, request.format, request.output, request.options), 0, report
    )
    run_confined(report, asked.work, asked.shown, asked.files(), asked.files_read(), asked.files_written())


if __name__ == "__main__":
    die_with_parent(driver_of(os.environ))
    convert(sys.argv[1:])
