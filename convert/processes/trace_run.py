"""Runs an artefact once in a child process, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from convert.errors import Unsupported
from convert.processes.process import RunningChild
from convert.processes.run_here import TRACE, Limits
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Trace


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options, limits: Limits) -> Trace:
    """Run `source` once, operator by operator, and return a summary of every value, in float64 if possible.

    Raises as `RunningChild.results` does, and `Unsupported` if its runner cannot trace.
    """
    running = RunningChild(source, [feed], (TRACE,), options, limits)
    try:
        found = running.results()[TRACE]
    finally:
        running.stop()
    if isinstance(found, Unsupported):
        raise found
    return Trace.from_json(str(found[0]["trace"].item()))
