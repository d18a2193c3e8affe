"""How long one run of the source and of the target takes, one after the other, in processes that do nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from convert.activity import doing
from convert.errors import ConvertError, Unsupported
from convert.notes import Note
from convert.options import Options
from convert.parity.inputs.feeds import Feed
from convert.parity.runs.repeats import child_results
from convert.runners.process import TIME, Limits, execute
from convert.source import Source
from convert.verdict import Latency, Verdict


def add_latency(
    verdict: Verdict,
    source: tuple[Source, Mapping[str, np.ndarray], Options],
    target: tuple[Source, Mapping[str, np.ndarray], Options],
    feed: Feed,
    limits: Limits,
) -> None:
    """Add, in place, how long a run of either artefact takes on its arrays, which are those of `feed`; else a note."""
    found = []
    for who, (artefact, arrays, options) in (("source", source), ("target", target)):
        with doing(f"timing the {who}"):
            seconds = _seconds(artefact, arrays, options, limits, who)
        if isinstance(seconds, ConvertError):
            text = f"the {who} was not timed: {seconds.sentence}"
            verdict.notes.append(Note(text, code="not-timed"))
            return
        found.append(seconds)
    ours, theirs = (float(np.median(seconds)) for seconds in found)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    verdict.latency = Latency(ours, theirs, feed.label, min(map(len, found)), cpus)


def _seconds(
    artefact: Source, arrays: Mapping[str, np.ndarray], options: Options, limits: Limits, who: str
) -> np.ndarray | ConvertError:
    answer = child_results(execute(artefact, [arrays], (TIME,), options, limits), who)
    if isinstance(answer, ConvertError):
        return answer
    found = answer[TIME]
    return found if isinstance(found, Unsupported) else found[0]["seconds"]
