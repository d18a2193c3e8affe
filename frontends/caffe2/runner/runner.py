"""Runs Caffe2 models with a real Caffe2, in the Python that CONVERT_CAFFE2_PYTHON names."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from convert.errors import BadInput, ConvertError, Unsupported
from convert.files.caffe2.folder import PREDICTOR, read_folder
from convert.files.scratch import scratch_folder
from convert.processes.sandbox import keep_from_forking
from convert.request.options import Options
from convert.request.source import Source

from .allowed import check_nets

KINDS: Sequence[str] = ("caffe2",)
PROGRAMS = KINDS
"""Caffe2 runs in another Python."""

VARIABLE = "CONVERT_CAFFE2_PYTHON"
"""The environment variable with the interpreter of a Python with Caffe2 (for example 3.8 with torch 1.8.1)."""

_CHILD = Path(__file__).with_name("child.py")
_CRASHES = {-signal.SIGFPE: "a division by zero", -signal.SIGSEGV: "a segmentation fault", -signal.SIGABRT: "an abort",
            -signal.SIGKILL: "a kill, for lack of memory probably"}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One run of the net in a folder; by `workspace.Predictor` if requested."""

    net: Path
    feeds: Mapping[str, np.ndarray]
    predictor: bool = False


def available() -> str:
    """Return an empty string if Caffe2 can be run, else what is missing."""
    python = os.environ.get(VARIABLE, "")
    if not python:
        return f"no Caffe2: {VARIABLE} names no interpreter that has one (Python 3.8 with torch 1.8.1)"
    return _missing_reason(python)


def run(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], *, precision: str, options: Options
) -> list[dict[str, np.ndarray]]:
    """Run the net in the folder `source` on each of `feeds`; return outputs by name, in the order of external_output.

    Raises `Unsupported` for precision float64, `BadInput` for a folder without nets, `UnsafeInput` for nets that do
    more than compute, and `ConvertError` if Caffe2 rejects the net or crashes.
    """
    if precision != "float32":
        raise Unsupported("Caffe2 has float32 kernels only for most operators: it cannot run in float64")
    for name in ("init_net.pb", "predict_net.pb"):
        if not any((source.file / file).is_file() for file in (name, PREDICTOR)):
            raise BadInput(f"{source.file} is no Caffe2 model: it holds no {name}")
    if not options.trust:
        check_nets(source.file)
    return _outputs(run_jobs([Job(source.file, feed) for feed in feeds]))


def run_as_used(
    source: Source, feeds: Sequence[Mapping[str, np.ndarray]], options: Options
) -> dict[str, list[dict[str, np.ndarray]]]:
    """Return the outputs by way of running: in the workspace, and by `workspace.Predictor`.

    This is for nets in two binary files. Raises `UnsafeInput` for nets that do more than compute.
    """
    if not options.trust:
        check_nets(source.file)
    jobs = [Job(source.file, feed) for feed in feeds]
    whole = sorted(f.name for f in source.file.iterdir() if f.suffix != ".pbtxt") == ["init_net.pb", "predict_net.pb"]
    predicted = whole and all(np.asarray(a).dtype.kind in "fiub" for a in feeds[0].values())
    results = run_jobs([*jobs, *([Job(source.file, feeds[0], predictor=True)] if predicted else [])])
    found = {"in the workspace": _outputs(results[: len(jobs)])}
    return {**found, "by a Predictor": _outputs(results[len(jobs) :])} if predicted else found


def _outputs(results: Sequence[dict[str, np.ndarray] | ConvertError]) -> list[dict[str, np.ndarray]]:
    """Return the outputs of jobs. Raises the error of the first that failed."""
    for result in results:
        if isinstance(result, ConvertError):
            raise result
    return [result for result in results if not isinstance(result, ConvertError)]


def run_jobs(jobs: Sequence[Job], *, seconds: float | None = None) -> list[dict[str, np.ndarray] | ConvertError]:
    """Return the outputs of each job, or its error; a job that crashes the interpreter does not affect the others.

    seconds: time limit per job; a job that takes longer is killed, and the next one is started.
    """
    missing = available()
    if missing:
        raise ConvertError(missing, hint=f"set {VARIABLE}")
    with scratch_folder() as folder:
        described = [_prepare_job(folder, number, job) for number, job in enumerate(jobs)]
        (folder / "jobs.json").write_text(json.dumps(described))
        results: dict[int, dict[str, np.ndarray] | ConvertError] = {}
        while len(results) < len(jobs):
            results.update(_run_child(folder, len(results), len(jobs), seconds))
        return [results[i] for i in range(len(jobs))]


def _prepare_job(folder: Path, number: int, job: Job) -> dict[str, object]:
    arrays = {str(i): np.asarray(array) for i, array in enumerate(job.feeds.values())}
    np.savez(folder / f"{number}.in.npz", **arrays)  # type: ignore[arg-type]
    return {
        "net": str(job.net.resolve()),
        "predictor": job.predictor,
        "names": list(job.feeds),
        "outputs": _output_names(job.net),
        "inputs": str(folder / f"{number}.in.npz"),
        "output": str(folder / f"{number}.out.npz"),
    }


def _output_names(folder: Path) -> list[str]:
    """Return the outputs that the reader finds; empty if it cannot read the nets, which Caffe2 then reports."""
    try:
        return list(read_folder(folder).predict.outputs)
    except ConvertError:
        return []


def _run_child(
    folder: Path, first: int, count: int, seconds: float | None
) -> dict[int, dict[str, np.ndarray] | ConvertError]:
    """Return the results of the jobs from `first` on, up to the job that ends the interpreter, if any."""
    # Isolated (-I), so that Python neither finds our modules next to the script nor uses our PYTHONPATH.
    command = [os.environ[VARIABLE], "-I", str(_CHILD), str(folder / "jobs.json"), str(first), str(os.getpid())]
    results: dict[int, dict[str, np.ndarray] | ConvertError] = {}
    with (folder / "stderr").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=keep_from_forking
        )
    late = False
    with process:
        assert process.stdout is not None
        for line in _read_lines(process.stdout.fileno(), seconds):
            if line is None:
                late = True
                process.kill()
                break
            word, _, rest = line.partition(" ")
            number, _, text = rest.partition(" ")
            if word == "done":
                results[int(number)] = _load_outputs(folder / f"{number}.out.npz", json.loads(text))
            elif word == "failed":
                results[int(number)] = ConvertError(f"Caffe2 could not run the net: {_brief_message(json.loads(text))}")
    if len(results) < count - first:
        death = _CRASHES.get(process.returncode, f"exit code {process.returncode}")
        death = f"having taken more than {seconds:g} s" if late else death
        last = (folder / "stderr").read_text(errors="replace").strip().splitlines()[-1:]
        text = f"Caffe2's process died while it ran the net, of {death}"
        results[first + len(results)] = ConvertError(text, hint=last[0] if last else "")
    return results


def _read_lines(descriptor: int, seconds: float | None) -> Iterator[str | None]:
    """Yield the lines of a pipe as they arrive; None if none arrives in time."""
    pending = b""
    while True:
        if not select.select([descriptor], [], [], seconds)[0]:
            yield None
            return
        more = os.read(descriptor, 1 << 16)
        if not more:
            return
        *whole, pending = (pending + more).split(b"\n")
        yield from (line.decode() for line in whole)


def _load_outputs(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[str(i)] for i, name in enumerate(names)}


def _brief_message(text: str) -> str:
    """Return Caffe2's message without its native stack frames."""
    return text.split("\nframe #")[0].strip()


@cache
def _missing_reason(python: str) -> str:
    command = [python, "-I", "-c", "from caffe2.python import workspace"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{VARIABLE} names {python!r}, which cannot be run: {error.strerror}"
    return "" if process.returncode == 0 else f"{VARIABLE} names {python!r}, which has no caffe2.python.workspace"
