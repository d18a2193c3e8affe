"""Runs an artefact once in a child process, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from convert.errors import Unsupported
from convert.options import Options
from convert.runners.process import TRACE, Limits, RunningChild
from convert.runners.trace import Trace
from convert.source import Source


def trace(source: Source, feed: Mapping[str, np.ndarray], options: Options, limits: Limits) -> Trace:
    """Run `source` once, operator by operator, with a summary of every value: in float64 where that is to be had.

    Raises as `Running.results` does, and `Unsupported` where its runner cannot.
    """
    running = RunningChild(source, [feed], (TRACE,), options, limits)
    try:
        found = running.results()[TRACE]
    finally:
        running.stop()
    if isinstance(found, Unsupported):
        raise found
    return Trace.from_json(str(found[0]["trace"].item()))
