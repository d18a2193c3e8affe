"""Convert random graphs by every backend, to test compositions of operators whose single rules are right.

    python -m tests.suites.compose [--source pytorch|onnx] [--seed 0] [--count 100] [--targets onnx,tf] [--jobs 1]
        [--onednn on|off|both] [--out DIR] [--no-shrink]

A graph has 5 to 40 operators of the tables (`compose_torch_ops.py`, `compose_onnx_ops.py`). Its inputs have random
shapes, with dims of 1 and dynamic dims, and it runs at three sizes. `compose_judge.py` compares with the source
framework and shares no code with our verdict. A failing graph is made smaller while it fails in the same way, and is
printed as a script. The same seeds give the same graphs. If a graph kills its process, the graph counts as crashed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tests.suites.compose_program import Program

SECONDS = 240.0
BAD = ("wrong", "error", "crashed", "runtime")
ALL = ("onnx", "tf", "tf-frozen", "keras", "tflite", "caffe2", "torch")


@dataclass
class Found:
    """The outcome of one seed for each format, and the smallest failing program of each format that fails."""

    source: str
    seed: int
    outcomes: dict[str, Any] = field(default_factory=dict)
    smallest: dict[str, Program] = field(default_factory=dict)


# -- the child --------------------------------------------------------------------------------------------------------


def grown(source: str, seed: int) -> Program:
    """Return the program of a seed."""
    from tests.suites.compose_targets import KINDS

    count = int(np.random.default_rng([seed, 1]).integers(5, 41))
    return KINDS[source].grown(np.random.default_rng([seed, 2]), count)


def serve(connection: Connection) -> None:
    """Answer requests: ("grow", source, seed) returns a program, ("run", program, targets, runs) outcomes."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    if not os.environ.get("COMPOSE_NOISY"):
        os.dup2(sink, 2)
    import torch

    from tests.suites.compose_targets import outcomes

    torch.set_num_threads(1)
    while True:
        try:
            what, *request = connection.recv()
        except EOFError:
            return
        if what == "grow":
            connection.send(("done", grown(*request)))
        else:
            program, targets, runs = request
            connection.send(("done", outcomes(program, targets, lambda s: connection.send(("stage", s)), runs)))


class Child:
    """A process that answers requests. If it dies, it is replaced at the next request."""

    def __init__(self, onednn: bool) -> None:
        self.onednn = onednn
        self.process: Any = None
        self.connection: Any = None

    def ask(self, *request: Any) -> Any:
        """Return the answer, or ("crashed", stage, text) if the process dies or takes too long."""
        if self.process is None or not self.process.is_alive():
            self._start()
        stage = "source"
        try:
            self.connection.send(request)
            while True:
                if not self.connection.poll(SECONDS):
                    self.stop()
                    return "crashed", stage, f"no answer in {SECONDS:g} s"
                what, content = self.connection.recv()
                if what == "done":
                    return content
                stage = content
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.stop()
            return "crashed", stage, f"the process ended with {code}"

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None

    def _start(self) -> None:
        self.stop()
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        with _STARTING:  # a child reads these when it starts
            before = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
            os.environ["TF_ENABLE_ONEDNN_OPTS"] = str(int(self.onednn))
            self.process = context.Process(target=serve, args=(other,), daemon=True)
            self.process.start()
            del os.environ["TF_ENABLE_ONEDNN_OPTS"]
            if before is not None:
                os.environ["TF_ENABLE_ONEDNN_OPTS"] = before
        other.close()


_STARTING = threading.Lock()


# -- the parent -------------------------------------------------------------------------------------------------------


def run_program(child: Child, program: Program, targets: Sequence[str], runs: int = 3) -> dict[str, Any]:
    """Return the outcome for each format. After a crash a new process runs the remaining formats."""
    from tests.suites.compose_targets import Outcome

    found: dict[str, Any] = {}
    left = list(targets)
    while left:
        answer = child.ask("run", program, tuple(left), runs)
        if isinstance(answer, dict):
            return found | answer
        _, stage, text = answer
        if stage not in left:
            return {stage: Outcome("crashed", text)}
        if found or len(left) == 1:
            found[stage] = Outcome("crashed", text)
            left.remove(stage)
            continue
        # Results before a crash are lost with the process, so run one format at a time.
        for target in left:
            one = run_program(child, program, [target], runs)
            found |= one
        return found
    return found


_MOST_RUNS = 240
"""Perturbed runs before an output counts as wrong; few runs do not show how far rounding moves ties."""


def examined(child: Child, source: str, seed: int, targets: Sequence[str], shrink: bool) -> Found:
    """Return the outcome of a seed. A result counts as wrong only if it is wrong with more perturbed runs too."""
    from tests.suites.compose_targets import Outcome

    found = Found(source, seed)
    program = child.ask("grow", source, seed)
    if isinstance(program, tuple):
        # While a program is generated, only the source's runtimes work.
        found.outcomes = {"grow": Outcome("invalid", program[2])}
        return found
    found.outcomes = run_program(child, program, targets)
    for target, outcome in list(found.outcomes.items()):
        if outcome.status not in BAD:
            continue
        for runs in (24, _MOST_RUNS if outcome.status == "wrong" else 24):
            again = run_program(child, program, [target] if target in targets else targets, runs).get(target)
            if again is None or not _alike(again, outcome):
                break
        if again is None or not _alike(again, outcome):
            found.outcomes[target] = Outcome("right" if again and again.status == "right" else "unsteady", outcome.text)
            continue
        found.smallest[target] = program
        if shrink:
            found.smallest[target], found.outcomes[target] = _shrunk(child, program, target, targets, outcome)
    return found


def _shrunk(child: Child, program: Program, target: str, targets: Sequence[str], outcome: Any) -> tuple[Program, Any]:
    from tests.suites.compose_shrink import shrunk

    last = outcome

    def fails(candidate: Program) -> bool:
        nonlocal last
        got = run_program(child, candidate, [target] if target in targets else targets[:1], 12).get(target)
        same = got is not None and _alike(got, outcome)
        last = got if same else last
        return same

    return shrunk(program, fails), last


def _alike(a: Any, b: Any) -> bool:
    """Return whether two failures are of the same kind: errors with the same words, except names and numbers."""
    if a.status != b.status:
        return False
    return a.status != "error" or _words(a.text) == _words(b.text)


def _words(text: str) -> str:
    return re.sub(r"[a-z_/]*\d+[a-z_\d/]*|\W+", " ", text)[:60]


def printed(found: Found, target: str, onednn: bool) -> str:
    """Return a failure as a script that reproduces it."""
    from tests.suites.compose_targets import KINDS

    program, outcome = found.smallest[target], found.outcomes[target]
    feeds = [{k: (v.dtype.name, v.shape) for k, v in f.items()} for f in program.feeds]
    kind = KINDS[program.kind]
    arrays = [f"# feed {i}: {f}" for i, f in enumerate(feeds)]
    numbers = "from numpy import array, bool_, float32, inf, int32, int64, nan, uint8"
    small = (
        [numbers, f"feeds = {program.feeds!r}"] if sum(v.size for f in program.feeds for v in f.values()) <= 40 else []
    )
    name = target if target in ALL else "onnx"
    call = f"convert.convert(source, {name!r}, 'artefact', inputs={kind.specs(program.inputs)!r}"
    where = f"{found.source} seed {found.seed} to {target}, oneDNN {'on' if onednn else 'off'}"
    return "\n".join([
        f"# {where}: {outcome.status}: {outcome.text}",
        *kind.script(program), *arrays, *small,
        f"import convert; {call} or None, verify=False)",
        "",
    ])  # fmt: skip


def run_seeds(
    jobs: Sequence[tuple[str, int, bool]],
    targets: Sequence[str],
    workers: int,
    shrink: bool = True,
    out: Path | None = None,
) -> Counter[tuple[str, str]]:
    """Examine (source, seed, onednn) in `jobs` processes, print failures and return counts by format and status."""
    counts: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()
    waiting: dict[bool, queue.SimpleQueue[tuple[str, int, bool]]] = {
        True: queue.SimpleQueue(),
        False: queue.SimpleQueue(),
    }
    for job in jobs:
        waiting[job[2]].put(job)

    def drain(first: bool) -> None:
        for onednn in (first, not first):
            child = Child(onednn)
            while not waiting[onednn].empty():
                try:
                    source, seed, _ = waiting[onednn].get_nowait()
                except queue.Empty:
                    break
                try:
                    found = examined(child, source, seed, targets, shrink)
                except Exception as error:  # a defect of this suite; the other seeds continue
                    print(f"seed {seed} of {source}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                    with lock:
                        counts["suite", "failed"] += 1
                    continue
                with lock:
                    _tell(found, onednn, counts, out)
            child.stop()

    threads = [threading.Thread(target=drain, args=(i % 2 == 0,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts


def _tell(found: Found, onednn: bool, counts: Counter[tuple[str, str]], out: Path | None) -> None:
    counts["graphs", found.source] += 1
    for target, outcome in found.outcomes.items():
        counts[target, outcome.status] += 1
        if outcome.status in BAD:
            text = (
                printed(found, target, onednn)
                if target in found.smallest
                else f"# seed {found.seed} {target} {outcome}"
            )
            print(text, flush=True)
            if out:
                (out / f"{found.source}-{found.seed}-{target}.py").write_text(text)
        elif outcome.status not in ("right",) and out:
            with open(out / "others.txt", "a") as log:
                log.write(f"{found.source} {found.seed} {target} {outcome.status}: {outcome.text}\n")


def main() -> None:
    """Run and print the counts; return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=["pytorch", "onnx", "both"], default="both")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--count", type=int, default=100, help="graphs in all")
    parser.add_argument("--targets", default=",".join(ALL))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--onednn", choices=["on", "off", "both"], default="both", help="both: each fourth graph without"
    )
    parser.add_argument("--out", type=Path, help="a folder for failures, and for the words of refusals")
    parser.add_argument("--no-shrink", action="store_true")
    args = parser.parse_args()
    sources = ["pytorch", "onnx"] if args.source == "both" else [args.source]
    targets = [t for t in args.targets.split(",") if t != "caffe2" or os.environ.get("CONVERT_CAFFE2_PYTHON")]
    jobs = []
    for place in range(args.count):
        onednn = args.onednn == "on" or (args.onednn == "both" and place % 8 < 6)
        jobs.append((sources[place % len(sources)], args.seed + place // len(sources), onednn))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    counts = run_seeds(jobs, targets, args.jobs, not args.no_shrink, args.out)
    graphs = {source: n for (word, source), n in sorted(counts.items()) if word == "graphs"}
    print(f"{args.count} graphs in {time.time() - began:.0f} s: {graphs}")
    for target in sorted({t for t, _ in counts} - {"graphs"}):
        print(f"{target:<10}" + "  ".join(f"{s} {n}" for (t, s), n in sorted(counts.items()) if t == target))
    sys.exit(any(status in (*BAD, "failed") for _, status in counts))


if __name__ == "__main__":
    # Child processes look names up in the module by its own name.
    from tests.suites.compose import main as main_as_module

    main_as_module()
