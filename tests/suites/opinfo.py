"""Convert PyTorch's own operator table, sample by sample, and count the right results.

    python tests/suites/opinfo.py --samples all --dtype float32 --json outcomes.jsonl

The table is `torch.testing._internal.common_methods_invocations.op_db`. Samples run in a child process that is replaced
when it crashes or hangs. Samples whose outcome is in the file already are not run again, so an interrupted run
continues; `--again refused error` runs those outcomes again. The exit code is 1 if a sample gives a wrong result
without an error.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from multiprocessing.connection import Connection, wait
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from opinfo_bounds import alarm
from opinfo_judge import PASSED, Outcome, judged, samples, table

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "bool")
SECONDS = 60
_CONTEXT = multiprocessing.get_context("fork")


def entries(dtype: str) -> list[str]:
    """Return the names of the entries that support `dtype`."""
    return [name for name, op in table().items() if getattr(torch, dtype) in op.dtypes]


def group(entry: str) -> str:
    """Return the topic of an entry."""
    for prefix in ("nn.functional", "linalg", "fft", "special", "masked", "signal"):
        if entry.startswith((f"{prefix}.", f"torch.ops.{prefix}.")):
            return prefix
    return "tensor"


def outcomes(
    names: Iterable[str],
    dtype: str,
    step: int = 0,
    jobs: int = 1,
    done: Set[tuple[str, int]] = frozenset(),
    by_example: bool = False,
) -> Iterator[Outcome]:
    """Yield the outcome of each sample of `names` that is not in `done` (by entry and number), in any order."""
    waiting = list(names)[::-1]
    running: dict[Connection, tuple[multiprocessing.Process, list[str], list[int]]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            batch = [waiting.pop() for _ in range(min(25, len(waiting)))]
            _start(running, batch, 0, dtype, step, done, by_example)
        ready = wait(list(running), timeout=2 * SECONDS)
        for connection in ready or list(running):
            process, batch, place = running[connection]
            try:
                message = connection.recv() if ready else None
            except EOFError:
                message = None
            if isinstance(message, Outcome):
                yield message
            elif isinstance(message, tuple):
                place[:] = message
            else:
                del running[connection]
                process.kill()
                process.join()
                if place[0] < len(batch):
                    yield Outcome(batch[place[0]], place[1], "error", detail="the process crashed or hung")
                    _start(running, batch[place[0] :], place[1] + 1, dtype, step, done, by_example)


def _start(
    running: dict,
    batch: list[str],
    skipped: int,
    dtype: str,
    step: int,
    done: Set[tuple[str, int]],
    by_example: bool,
) -> None:
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(theirs, batch, skipped, dtype, step, done, by_example), daemon=True)
    process.start()
    theirs.close()
    running[ours] = (process, batch, [0, skipped])


def _work(
    connection: Connection,
    batch: list[str],
    skipped: int,
    dtype: str,
    step: int,
    done: Set[tuple[str, int]],
    by_example: bool,
) -> None:
    """Judge the samples of `batch`, and announce each before; the first entry starts at `skipped`."""
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (open as long as the process is)
    for place, entry in enumerate(batch):
        for number, sample in samples(entry, getattr(torch, dtype), step):
            if (entry, number) in done or (place == 0 and number < skipped):
                continue
            connection.send((place, number))
            try:
                with alarm(SECONDS):
                    outcome = judged(entry, number, sample, getattr(torch, dtype), by_example)
            except TimeoutError as error:
                outcome = Outcome(entry, number, "error", detail=str(error))
            if outcome is not None:
                connection.send(outcome)
    connection.send((len(batch), 0))


# -- the summary ------------------------------------------------------------------------------------------------------


def summary(found: list[Outcome]) -> str:
    """Return counts overall and by group, and the reasons of samples that did not pass."""
    lines = [f"{'':16}{'samples':>9}{'passed':>9}{'%':>7}   rest"]
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[group(outcome.entry)].append(outcome)
    for name, members in [*sorted(groups.items()), ("all", found)]:
        counts = Counter(o.verdict for o in members)
        passed = sum(counts.pop(v, 0) for v in PASSED)
        rest = ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())
        lines.append(f"{name:16}{len(members):9}{passed:9}{100 * passed / max(len(members), 1):7.1f}   {rest}")
    by_reference = sum(o.judge == "reference" for o in found)
    drawn = sum(o.verdict == "random" for o in found)
    lines.append(
        f"onnxruntime lacks a kernel for {by_reference} of these, or passes over NaN: the reference executor ran them;"
    )
    lines.append(f"{drawn} draw random numbers, of which only dtype and shape are compared.")
    for verdict, title in (("gap", "declared gaps"), ("refused", "refused"), ("error", "errors"), ("wrong", "WRONG")):
        reasons: dict[str, set[str]] = defaultdict(set)
        for outcome in found:
            if outcome.verdict == verdict:
                reasons[outcome.detail].add(outcome.entry)
        if reasons:
            lines.append(f"{title}:")
            ordered = sorted(reasons.items(), key=lambda item: -len(item[1]))
            lines += [f"  {reason}\n      {', '.join(sorted(names))}" for reason, names in ordered]
    return "\n".join(lines)


def _kept(file: Path, only: Sequence[str], again: Sequence[str]) -> list[Outcome]:
    """Return the outcomes in `file`; those to run again are removed from it."""
    if not file.exists():
        return []
    found = [Outcome(**json.loads(line)) for line in file.read_text().splitlines()]
    kept = [o for o in found if o.verdict not in again or (only and o.entry not in only)]
    if len(kept) < len(found):
        file.write_text("".join(json.dumps(o.to_dict()) + "\n" for o in kept))
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--samples", choices=("first", "all"), default="first")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of all samples, each N-th one")
    parser.add_argument("--only", nargs="*", help="entries by name, for instance nn.functional.grid_sample")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, help="one line of JSON a sample: what it holds is kept, the rest added")
    parser.add_argument("--again", nargs="*", default=[], metavar="VERDICT", help="of what it holds, run these anew")
    parser.add_argument(
        "--by-example", action="store_true", help="give the tensors as examples, with no option: dims become dynamic"
    )
    options = parser.parse_args()
    names = [n for n in entries(options.dtype) if not options.only or n in options.only]
    found = _kept(options.json, names if options.only else [], options.again) if options.json else []
    done = {(o.entry, o.sample) for o in found}
    step = options.every if options.samples == "all" else 0
    stream = options.json.open("a") if options.json else None
    for outcome in outcomes(names, options.dtype, step, options.jobs, done, options.by_example):
        found.append(outcome)
        if stream:
            print(json.dumps(outcome.to_dict()), file=stream, flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(found)} {outcome.entry[:60]:60}", end="", file=sys.stderr)
    print(summary(found))
    return int(any(o.verdict == "wrong" for o in found))


if __name__ == "__main__":
    sys.exit(main())
