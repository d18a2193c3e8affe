"""Runs an artefact in a child process, whose crash, hang or memory use does not affect this one."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from convert import errors, plugin
from convert.activity import advance
from convert.errors import FULL_DISK, ConvertError, ResourceLimit, Unsupported
from convert.files.scratch import LockedFolder
from convert.processes.arrays import decoded, last_bytes, load_arrays, load_json, save_arrays
from convert.processes.disk_space import DiskReserve
from convert.processes.done import progress_of_child
from convert.processes.fork_client import Child, fork
from convert.processes.interpreter import module_command, own_variables
from convert.processes.run_here import AS_USED, MAKE_ROOM, NO_MEMORY, Limits, Outputs, failed_run, run_all
from convert.processes.warm import address_of
from convert.request.options import InputSpec, Options
from convert.request.source import Source

_TAIL = 1 << 16
"""Bytes at the end of a child's messages that are examined."""

_TOLD = 0.5
"""Seconds between two looks at a child's progress."""


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
                raise ResourceLimit(text, hint=MAKE_ROOM)
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
                raise ResourceLimit(f"running {self.source.label} ended with {how}: {tail[-1]}", hint=MAKE_ROOM)
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
