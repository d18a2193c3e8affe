"""Convert and verify one model of the zoo to each target in a process of its own, with one outcome for each target."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from zoo_models import Built, Entry

PASS, FAILED, GAP, STALE = "pass", "failed", "gap", "stale gap"
"""gap: declared, with its reason, and it did fail; stale gap: declared, and it passed."""

# The least relative change of the outputs between two inputs for which agreement proves something.
SENSITIVE = 1e-3


@dataclass
class Outcome:
    """The outcome of one model and target.

    `ratio` is the largest error of an output divided by its noise floor (up to 4 is a pass), `twin` the largest
    distance of the graph in float64 from the source, `moved` the relative change of the outputs with other inputs.
    """

    name: str
    family: str
    target: str
    outcome: str = FAILED
    seconds: float = 0.0
    peak_mib: int = 0
    nodes: int = 0
    ratio: float = 0.0
    twin: float = 0.0
    moved: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Limits:
    """The wall time of a model, the address space of a process, and the number of input sets of a verification."""

    seconds: int = 900
    gibibytes: int = 16
    seeds: int = 2


def preload() -> None:
    """Import what every child process needs, except onnxruntime and TensorFlow, whose threads do not survive a fork."""
    warnings.simplefilter("ignore")
    import timm  # noqa: F401
    import torch
    import transformers.modeling_utils
    from convert.frontends.pytorch import reader  # noqa: F401

    import convert.parity.verify  # noqa: F401

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()


def work(connection: Connection, entry: Entry, targets: Sequence[str], limits: Limits) -> None:
    """Send the outcome of each target; drop all printed output."""
    resource.setrlimit(resource.RLIMIT_AS, (limits.gibibytes << 30,) * 2)
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    built: Built | None = None
    with tempfile.TemporaryDirectory(prefix="convert-zoo-") as folder:
        for target in targets:
            outcome = Outcome(entry.name, entry.family, target)
            start = time.perf_counter()
            try:
                built = built or entry.build()
                _convert(built, outcome, Path(folder), limits)
                outcome.outcome = STALE if target in entry.gaps else PASS
            except Exception as error:
                outcome.error = _shown(error)
                if target in entry.gaps:
                    outcome.outcome, outcome.error = GAP, f"{entry.gaps[target]} ({outcome.error})"
            outcome.seconds = round(time.perf_counter() - start, 1)
            usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            outcome.peak_mib = max(usage) // 1024
            connection.send(outcome)


def _convert(built: Built, outcome: Outcome, folder: Path, limits: Limits) -> None:
    """Convert, verify and fill in the figures.

    Raises as `convert` does, and AssertionError if agreement proves nothing.
    """
    import convert
    from convert.parity.method import VerifyMethod
    from convert.processes import run_here

    path = folder / f"model.{outcome.target}"
    report = convert.convert(
        built.module,
        outcome.target,
        path,
        inputs=built.inputs,
        verify=True,
        method=VerifyMethod(seeds=limits.seeds, limits=run_here.Limits(seconds=limits.seconds)),
        **built.options,
    )
    verdict = report.verdict
    assert verdict is not None
    outcome.nodes = sum(report.operators.values())
    outcome.ratio = round(max(row.error / row.floor if row.floor else 0.0 for row in verdict.outputs), 2)
    outcome.twin = max(row.twin or 0.0 for row in verdict.outputs)
    assert verdict.status == "PASS", f"{verdict.status}: {verdict.reason}"
    assert verdict.reference == "the source in float64", f"the reference was {verdict.reference}"
    if outcome.target == "onnx":
        outcome.moved = round(moved(path), 4)
        assert outcome.moved > SENSITIVE, f"other inputs move the outputs by {outcome.moved} of their size only"


def moved(path: Path) -> float:
    """Return the largest relative change of an ONNX file's outputs with another input set."""
    import onnx_ir as ir
    import onnxruntime

    from convert.parity.inputs.feeds import generate_feeds

    model = ir.load(path)
    first, *_ = generate_feeds(model, 1)
    rng = np.random.default_rng(7)
    second = {name: _other(array, rng) for name, array in first.arrays.items()}
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    most = 0.0
    for a, b in zip(session.run(None, dict(first.arrays)), session.run(None, second), strict=True):
        if a.dtype.kind != "f" or a.shape != b.shape:
            most = max(most, float(a.shape != b.shape or not np.array_equal(a, b)))
            continue
        size = float(np.sqrt(np.mean(np.square(a, dtype=np.float64)))) if a.size else 0.0
        finite = np.isfinite(a) & np.isfinite(b)
        difference = (a.astype(np.float64) - b)[finite]
        if size > 0 and difference.size:
            most = max(most, float(np.sqrt(np.mean(difference**2))) / size)
    return most


def _other(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the same values in another order, which stay within their range."""
    return rng.permutation(array.ravel()).reshape(array.shape) if array.ndim else array


def _shown(error: Exception) -> str:
    """Return class and text of an error in one line, with the place if it is not an error of convert's own."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = "" if hasattr(error, "hint") else f" at {Path(place.filename).name}:{place.lineno}"
    return f"{type(error).__name__}{where}: {' '.join(str(error).split())}"[:600]
