"""Measure the latency of source and target, one after the other, each in a process that does nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from convert import plugin
from convert.activity import doing
from convert.errors import ConvertError, Unsupported
from convert.outcome.notes import Note
from convert.outcome.verdict import Latency
from convert.parity.inputs.feeds import Feed
from convert.parity.runs.repeats import child_results
from convert.processes.process import execute
from convert.processes.run_here import TIME, Limits
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import THREADS


def measure_latency(
    source: tuple[Source, Mapping[str, np.ndarray], Options],
    target: tuple[Source, Mapping[str, np.ndarray], Options],
    feed: Feed,
    limits: Limits,
) -> Latency | Note:
    """Return the latency of both artefacts on the arrays of `feed`, or a note that says why it is unknown."""
    found = []
    for who, (artefact, arrays, options) in (("source", source), ("target", target)):
        with doing(f"timing the {who}"):
            seconds = _seconds(artefact, arrays, options, limits, who)
        if isinstance(seconds, ConvertError):
            return Note(f"the {who} was not timed: {seconds.sentence}", code="not-timed")
        found.append(seconds)
    threads: dict[int, float] = {}
    artefact, arrays, options = target
    for number in getattr(plugin.runner_for(artefact.kind), "TIMED_THREADS", ()):
        with doing(f"timing the target with {number} threads"):
            several = replace(options, extra={**options.extra, THREADS: number})
            seconds = _seconds(artefact, arrays, several, limits, "target")
        if not isinstance(seconds, ConvertError):
            threads[number] = float(np.median(seconds))
    ours, theirs = (float(np.median(seconds)) for seconds in found)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Latency(ours, theirs, feed.label, min(map(len, found)), cpus, threads)


def _seconds(
    artefact: Source, arrays: Mapping[str, np.ndarray], options: Options, limits: Limits, who: str
) -> np.ndarray | ConvertError:
    answer = child_results(execute(artefact, [arrays], (TIME,), options, limits), who)
    if isinstance(answer, ConvertError):
        return answer
    found = answer[TIME]
    return found if isinstance(found, Unsupported) else found[0]["seconds"]
