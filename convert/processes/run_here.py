"""Runs feeds in this process, in each precision that is requested: the work of a child process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from convert import errors, plugin
from convert.errors import FULL_DISK, BrokenPackage, ConvertError, ResourceLimit, Unsupported
from convert.outcome.extras import import_problem
from convert.processes.interpreter import paused_garbage_collection
from convert.request.detections import CANDIDATES, DETECTIONS
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.detections import candidates, detect

Outputs = list[dict[str, np.ndarray]]
Feeds = Sequence[Mapping[str, np.ndarray]]
T = TypeVar("T")

NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory|[Aa]llocate|[Aa]llocation|BFCArena|pthread_create")
"""How Python and the runtimes report that memory is exhausted."""

MAKE_ROOM = "make room on the disk of temporary files, or set TMPDIR to a larger place"

AS_USED = "as used"
"""Requested like a precision: run the artefact as users do. Returns outputs for each way of running it, by name."""

TRACE = "trace"
"""Requested like a precision: one run, operator by operator, with a summary of every value."""

PROBE, PROBE_FIRST = "probe", "probe until one runs"
"""Requested like a precision: whether each feed runs alone, as `runs`; PROBE_FIRST stops at the first that does."""

_PROBE_SECONDS = 20.0
"""Seconds after which no further feed is tried. Each trial loads the model again; most fail immediately or never."""

GENERATE = "generate"
"""Requested like a precision: greedy generation, with parameters (`GENERATION_KEY`) and prompt in the one feed."""

GENERATION_KEY = "how"

TIME = "time"
"""Requested like a precision: the seconds that a run on the single feed takes, measured several times."""

_ROUNDS, _AT_ONCE, _ROUND_SECONDS, _TIMING_SECONDS = 5, 500, 0.2, 30.0
"""Number of measurements; largest number of runs and seconds per measurement; seconds after which none begins."""


@dataclass(frozen=True)
class Limits:
    """`seconds` of wall time, and bytes of address space (`memory`) after which allocations fail (None: no limit)."""

    seconds: float = 600.0
    memory: int | None = None


def run_all(
    runner: plugin.Runner,
    source: Source,
    feeds: Sequence[Mapping[str, np.ndarray]],
    precisions: Sequence[str],
    options: Options,
    optional: int = 0,
    deployed: Collection[int] = (),
) -> dict[str, Outputs | Unsupported]:
    """Run every precision in this process and return the outputs; for a missing precision, its `Unsupported`.

    `optional` is how many of the last feeds may fail; outputs end before the first that fails. `deployed` are the
    indices of feeds that run in float32 only, whose outputs also serve for other precisions.
    """
    found: dict[str, Outputs | Unsupported] = {}
    for precision in precisions:
        if precision == TRACE:
            found[precision] = [_trace_arrays(runner, source, feeds[0], options)]
            continue
        if precision == AS_USED:
            found |= _without_optional(partial(_run_as_used, runner, source, options), feeds, optional)
            continue
        if precision == GENERATE:
            found[precision] = [_generated(runner, source, feeds[0], options)]
            continue
        if precision == TIME:
            found[precision] = [{"seconds": _timed(runner, source, feeds[0], options)}]
            continue
        if precision in (PROBE, PROBE_FIRST):
            found[precision] = _probe(runner, source, feeds, options, once=precision == PROBE_FIRST)
            continue
        run = partial(_run, runner, source, options, precision)
        try:
            found[precision] = (
                _without_optional(run, feeds, optional)
                if not deployed or precision == "float32"
                else _with_stand_ins(run, feeds, optional, deployed, found["float32"])
            )
        except Unsupported as error:
            if precision == "float32":
                raise
            found[precision] = error
    return found


def _without_optional(run: Callable[[Feeds], T], feeds: Feeds, optional: int) -> T:
    """Return the result of `run` for the feeds; if it fails, the last feed is left out, at most `optional` times."""
    try:
        return run(feeds)
    except Exception as error:  # frameworks raise exceptions of their own classes
        if not optional or isinstance(error, Unsupported):
            raise
    return _without_optional(run, feeds[:-1], optional - 1)


def _with_stand_ins(
    run: Callable[[Feeds], Outputs],
    feeds: Feeds,
    optional: int,
    places: Collection[int],
    plain: Outputs | Unsupported,
) -> Outputs:
    """Return the outputs of `run`, with those of `plain` for the feeds at `places`."""
    rest = [feed for i, feed in enumerate(feeds) if i not in places]
    left = sum(i not in places for i in range(len(feeds) - optional, len(feeds)))
    return with_stand_ins(_without_optional(run, rest, left), places, plain)


def with_stand_ins(outputs: Outputs, places: Collection[int], plain: Outputs | Unsupported) -> Outputs:
    """Return `outputs` with those of `plain` inserted at `places`, where both exist.

    `plain` has the outputs of all feeds.
    """
    found = list(outputs)
    for place in sorted(places):
        if not isinstance(plain, Unsupported) and place < len(plain) and place <= len(found):
            found.insert(place, plain[place])
    return found


def _run(runner: plugin.Runner, source: Source, options: Options, precision: str, feeds: Feeds) -> Outputs:
    found = runner.run(source, feeds, precision=precision, options=options)
    how = options.extra.get(DETECTIONS)
    if how is None:
        return found
    finish = candidates if options.extra.get(CANDIDATES) else detect
    return [finish(outputs[how.boxes], outputs[how.scores], how) for outputs in found]


def _run_as_used(runner: plugin.Runner, source: Source, options: Options, feeds: Feeds) -> dict[str, Outputs]:
    """Return the outputs by way of running; a runner without `run_as_used` has one way."""
    ways: Callable[..., dict[str, Outputs]] | None = getattr(runner, "run_as_used", None)
    return ways(source, feeds, options) if ways is not None else {"": _run(runner, source, options, "float32", feeds)}


def _generated(
    runner: plugin.Runner, source: Source, feed: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    from convert.runtimes.generation import generation_from_json

    run: Callable[..., dict[str, np.ndarray]] = runner.generate  # type: ignore[attr-defined]
    how = generation_from_json(str(feed[GENERATION_KEY].item()))
    return run(source, how, {name: array for name, array in feed.items() if name != GENERATION_KEY}, options)


def _probe(runner: plugin.Runner, source: Source, feeds: Feeds, options: Options, *, once: bool) -> Outputs:
    """Return whether each feed runs; feeds at the end are skipped when the time is over, or, with `once`, after the
    first that runs.
    """
    found: list[bool] = []
    end = time.monotonic() + _PROBE_SECONDS
    for feed in feeds:
        if found and (time.monotonic() > end or (once and found[-1])):
            break
        try:
            runner.run(source, [feed], precision="float32", options=options)
            found.append(True)
        except Unsupported:
            raise
        except Exception:  # frameworks raise exceptions of their own classes
            found.append(False)
    return [{"runs": np.array(ran)} for ran in found]


def _timed(runner: plugin.Runner, source: Source, feed: Mapping[str, np.ndarray], options: Options) -> np.ndarray:
    """Return the seconds per run of each measurement: the extra time of many runs over one, without loading."""

    def seconds(count: int) -> float:
        began = time.perf_counter()
        runner.run(source, [feed] * count, precision="float32", options=options)
        return time.perf_counter() - began

    end = time.monotonic() + _TIMING_SECONDS
    seconds(2)  # imports and other work that only the first run has
    count = 1
    while (more := seconds(1 + count) - seconds(1)) < _ROUND_SECONDS / 4 and count < _AT_ONCE:
        count = min(_AT_ONCE, max(2 * count, int(count * _ROUND_SECONDS / max(more, 1e-5))))
    found = [more / count]
    while len(found) < _ROUNDS and time.monotonic() < end:
        found.append((seconds(1 + count) - seconds(1)) / count)
    return np.maximum(found, 0.0)


def _trace_arrays(
    runner: plugin.Runner, source: Source, feed: Mapping[str, np.ndarray], options: Options
) -> dict[str, np.ndarray]:
    """Return a trace as text in an array, the form in which it is sent."""
    follow = getattr(runner, "trace", None)
    if follow is None:
        raise Unsupported(f"a {source.kind} runs as a whole")
    with paused_garbage_collection():
        return {"trace": np.array(follow(source, feed, options).to_json(), dtype=object)}


def failed_run(source: Source, error: Exception) -> ConvertError:
    """Return the exception that a framework raised while running `source` as an error that names both."""
    if (unmapped := errors.memory_of_library(error)) is not None:
        return unmapped
    if FULL_DISK.search(str(error)):
        return ResourceLimit(f"running {source.label} ended: its temporary files fill the disk", hint=MAKE_ROOM)
    text = " ".join(str(error).split())[:600]
    if (broken := import_problem(error)) is not None:
        return BrokenPackage(broken[0], hint=broken[1])
    return ConvertError(f"running {source.label} failed: {type(error).__name__}: {text}")
