"""Runs an artefact in a child process, whose crash, hang or memory use does not affect this one."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from convert import errors, plugin
from convert.activity import advance
from convert.errors import FULL_DISK, BrokenPackage, ConvertError, ResourceLimit, Unsupported
from convert.extras import import_problem
from convert.files.scratch import LockedFolder
from convert.interpreter import module_command, own_variables, paused_garbage_collection
from convert.processes.arrays import decoded, last_bytes, load_arrays, load_json, save_arrays
from convert.processes.disk_space import DiskReserve
from convert.processes.done import progress_of_child
from convert.processes.fork_client import Child, fork
from convert.processes.warm import address_of
from convert.request.options import InputSpec, Options
from convert.request.source import Source

Outputs = list[dict[str, np.ndarray]]
Feeds = Sequence[Mapping[str, np.ndarray]]
T = TypeVar("T")

NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory|[Aa]llocate|[Aa]llocation|BFCArena|pthread_create")
"""How Python and the runtimes report that memory is exhausted."""

_MAKE_ROOM = "make room on the disk of temporary files, or set TMPDIR to a larger place"

AS_USED = "as used"
"""Requested like a precision: run the artefact as users do. Returns outputs for each way of running it, by name."""

TRACE = "trace"
"""Requested like a precision: one run, operator by operator, with a summary of every value."""

PROBE, PROBE_FIRST = "probe", "probe until one runs"
"""Requested like a precision: whether each feed runs alone, as `runs`; PROBE_FIRST stops at the first that does."""

_PROBE_SECONDS = 20.0
"""Seconds after which no further feed is tried. Each trial loads the model again; most fail immediately or never."""

_TAIL = 1 << 16
"""Bytes at the end of a child's messages that are examined."""

_TOLD = 0.5
"""Seconds between two looks at a child's progress."""

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


def _without_arrays(options: Options) -> Options:
    """Return the options without examples and calibration data; complex examples leave a description of their dtype."""
    extra = {name: value for name, value in options.extra.items() if not isinstance(value, Mapping)}
    described = options.inputs
    if not described and any(np.iscomplexobj(example) for example in options.examples.values()):
        described = tuple(
            InputSpec(key if isinstance(key, str) else None, "complex64" if np.iscomplexobj(example) else None)
            for key, example in options.examples.items()
        )
    return replace(options, inputs=described, examples={}, calibrate={}, extra=extra)


class RunningChild:
    """A running child; `results` waits for it.

    Objects in memory cannot be sent and run in this process, in `results`.
    """

    def __init__(
        self,
        source: Source,
        feeds: Sequence[Mapping[str, np.ndarray]],
        precisions: Sequence[str],
        options: Options,
        limits: Limits,
        optional: int = 0,
        setting: int = 0,
        deployed: Collection[int] = (),
    ) -> None:
        self.source, self.feeds, self.precisions, self.optional = source, feeds, precisions, optional
        self.setting, self.deployed = setting, tuple(deployed)
        self.options, self.limits = _without_arrays(options), limits
        self.process: Child | None = None
        if source.path is not None:
            self.folder = LockedFolder()
            self.reserve = DiskReserve(self.folder.path)
            self._start(self.folder.path)

    def results(self) -> dict[str, Outputs | Unsupported]:
        """Return the outputs for each precision, without optional feeds that failed; or an `Unsupported`.

        Raises `ResourceLimit` on a timeout or lack of memory, and `ConvertError` if the child died or the runtime
        rejected the artefact.
        """
        if self.process is None:
            runner = plugin.runner_for(self.source.kind)
            if runner is None:
                raise Unsupported(f"no runner executes a {self.source.kind}")
            try:
                found = run_all(runner, self.source, self.feeds, *self._how())
                return {p: o if isinstance(o, Unsupported) else [*map(decoded, o)] for p, o in found.items()}
            except ConvertError:
                raise
            except Exception as error:  # frameworks raise exceptions of their own classes
                raise failed_run(self.source, error) from error
        try:
            self._wait()
        except subprocess.TimeoutExpired:
            raise ResourceLimit(
                f"running {self.source.label} took longer than {self.limits.seconds:g} s",
                hint="give a larger --timeout",
            ) from None
        finally:
            self.stop()
        return self._collect(self.folder.path)

    def _wait(self) -> None:
        """Wait for the child, and forward its progress.

        Raises `subprocess.TimeoutExpired`, and `ResourceLimit` if the disk of its folder fills up, whoever causes that.
        """
        assert self.process is not None
        end, progress = time.monotonic() + self.limits.seconds, ""
        while (left := end - time.monotonic()) > _TOLD:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=_TOLD)
                return
            if self.reserve.is_touched() and not self.options.trust:
                text = f"running {self.source.label} was ended: the disk of {self.folder.path.parent} is nearly full"
                raise ResourceLimit(text, hint=_MAKE_ROOM)
            before, progress = progress, progress_of_child(self.folder.path)
            if progress not in ("", before):
                advance(*map(int, progress.split()))
        self.process.wait(timeout=left)

    def finish(self) -> None:
        """Wait until the child ends or its time is over; `results` reports the outcome."""
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired, ResourceLimit):
                self._wait()

    def stop(self) -> None:
        """Kill the child and everything it started."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _start(self, folder: Path) -> None:
        for i, feed in enumerate(self.feeds):
            save_arrays(folder / f"feed{i}", feed)
        job = (self.source, len(self.feeds), self.limits, self._how())
        (folder / "job.pickle").write_bytes(pickle.dumps(job))
        (folder / "confine.json").write_text(json.dumps(self._bounds()))
        own, usual = _environment(self.source, self.setting if AS_USED in self.precisions else None)
        environment = {**os.environ, **own_variables(), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", **own}
        with open(folder / "stderr", "wb") as log:
            # A warm process has imported its runtimes, which have already read their variables.
            variables, number = {} if usual else own, log.fileno()
            warm = address_of(self.source.kind, variables)
            self.process = fork("run", [str(folder)], environment, number, number, warm, variables, self.source.kind)
            self.process = self.process or subprocess.Popen(
                module_command("convert.processes.child", str(folder), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _how(self) -> tuple[tuple[str, ...], Options, int, tuple[int, ...]]:
        return tuple(self.precisions), self.options, self.optional, self.deployed

    def _bounds(self) -> dict[str, Any]:
        """Return how to confine the child (`convert.processes.sandbox`); a trusted file is only limited."""
        programs = self.source.kind in getattr(plugin.runner_for(self.source.kind), "PROGRAMS", ())
        limits = {"seconds": self.limits.seconds, "memory": self.limits.memory}
        return {**limits, "programs": programs, "trust": self.options.trust}

    def _collect(self, folder: Path) -> dict[str, Outputs | Unsupported]:
        assert self.process is not None
        if not os.path.lexists(folder / "status.json"):
            code = self.process.returncode
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            tail = last_bytes(folder / "stderr", _TAIL).strip().splitlines()[-3:]
            if code == -signal.SIGKILL or any(NO_MEMORY.search(line) for line in tail):
                raise ResourceLimit(f"running {self.source.label} ended with {how}: out of memory, it seems")
            if any(FULL_DISK.search(line) for line in tail):
                raise ResourceLimit(f"running {self.source.label} ended with {how}: {tail[-1]}", hint=_MAKE_ROOM)
            if code == -signal.SIGBUS:
                raise errors.file_became_shorter(f"running {self.source.label} ended with {how}")
            raise ConvertError(f"the process that ran {self.source.label} died with {how}: " + " | ".join(tail))
        try:
            found = _answer(folder)
        except (MemoryError, ConvertError):
            raise
        except Exception as error:  # the answer is untrusted, because the model may control the child
            hint = "the model may have taken it over, which could write to its own folder only"
            text = f"the process that ran {self.source.label} left an answer that is none ({type(error).__name__})"
            raise ConvertError(text, hint=hint) from error
        if isinstance(found, ConvertError):
            raise found
        return found


def _answer(folder: Path) -> dict[str, Outputs | Unsupported] | ConvertError:
    """Return a child's answer. Raises any exception if it is malformed."""
    answer: dict[str, Any] = load_json(folder / "status.json")
    if "error" in answer:
        kind = getattr(errors, answer["error"])
        if not issubclass(kind, ConvertError):
            raise ValueError(answer["error"])
        return errors.restored(kind, str(answer["message"]), str(answer["hint"] or ""))
    found: dict[str, Outputs | Unsupported] = {p: Unsupported(why) for p, why in answer["unsupported"].items()}
    for number, (way, count) in enumerate(answer["outputs"]):
        found[way] = [load_arrays(folder / f"{number}.{i}") for i in range(count)]
    return found


def failed_run(source: Source, error: Exception) -> ConvertError:
    """Return the exception that a framework raised while running `source` as an error that names both."""
    if (unmapped := errors.memory_of_library(error)) is not None:
        return unmapped
    if FULL_DISK.search(str(error)):
        return ResourceLimit(f"running {source.label} ended: its temporary files fill the disk", hint=_MAKE_ROOM)
    text = " ".join(str(error).split())[:600]
    if (broken := import_problem(error)) is not None:
        return BrokenPackage(broken[0], hint=broken[1])
    return ConvertError(f"running {source.label} failed: {type(error).__name__}: {text}")


def settings_of(source: Source) -> list[dict[str, str]]:
    """Return the environment variables of the processes in which to run an artefact as used, one or more."""
    runner = plugin.runner_for(source.kind)
    asked = getattr(runner, "settings", None)
    return (list(asked(source)) if asked is not None else []) or [_environment(source, None)[0]]


def _environment(source: Source, setting: int | None) -> tuple[dict[str, str], bool]:
    """Return the variables to set before a source's runtime is imported, and whether they are the default.

    `setting` is their index among the runner's settings; None for a source.
    """
    asked = getattr(plugin.runner_for(source.kind), "environment", None)
    own = dict(asked(source)) if asked is not None else {}
    if own or setting is None:
        return own, not own
    return settings_of(source)[setting], setting == 0


def execute(
    source: Source,
    feeds: Sequence[Mapping[str, np.ndarray]],
    precisions: Sequence[str] = ("float32",),
    options: Options | None = None,
    limits: Limits | None = None,
    optional: int = 0,
    setting: int = 0,
    deployed: Collection[int] = (),
) -> RunningChild:
    """Start running `source` on each feed in each precision in a child process; call `results()` on the return value.

    - `optional`: how many of the last feeds may fail
    - `setting`: the index in `settings_of`, for an artefact that runs as used
    - `deployed`: indices of feeds that run in float32 only; their outputs also serve as their float64 outputs
    """
    return RunningChild(
        source, feeds, precisions, options or Options(), limits or Limits(), optional, setting, deployed
    )


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
    return runner.run(source, feeds, precision=precision, options=options)


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
