"""Convert a zoo of PyTorch models to ONNX, or with `--to onnx tf` to TensorFlow too, and verify each.

    python tests/suites/zoo.py --to onnx tf --jobs 2

Each model is built, converted and verified in a process of its own, under limits of time and memory. A line of JSON for
each model and target goes to stdout, a summary by family and by cause to stderr. The exit code is 0 only if every pair
passes, or is a declared gap that does fail.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from zoo_models import TARGETS, Entry, entries
from zoo_worker import GAP, PASS, Limits, Outcome, preload, work

# Forked, so that the frameworks are imported once and not for each model.
_CONTEXT = multiprocessing.get_context("fork")


@dataclass
class Child:
    """A process that works on one model, and the outcomes that it has sent so far."""

    entry: Entry
    process: multiprocessing.Process
    start: float = field(default_factory=time.perf_counter)
    said: list[Outcome] = field(default_factory=list)


def outcomes(
    chosen: Sequence[Entry], targets: Sequence[str], jobs: int = 1, limits: Limits | None = None
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of each model, a list with one for each target, as they arrive."""
    limits = limits or Limits()
    preload()
    waiting = list(chosen)[::-1]
    running: dict[Connection, Child] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            entry = waiting.pop()
            ours, theirs = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=work, args=(theirs, entry, targets, limits))
            process.start()
            theirs.close()
            running[ours] = Child(entry, process)
        for connection in wait(list(running), timeout=5):
            child = running[connection]
            try:
                child.said.append(connection.recv())
            except EOFError:
                del running[connection]
                child.process.join()
                yield _complete(child, targets, f"the process ended with {child.process.exitcode}")
        for connection, child in list(running.items()):
            if time.perf_counter() - child.start > limits.seconds:
                del running[connection]
                child.process.kill()
                child.process.join()
                yield _complete(child, targets, f"out of time after {limits.seconds} s")


def _complete(child: Child, targets: Sequence[str], why: str) -> list[Outcome]:
    """Return the outcomes of the child process, and a failure for each target that it did not reach."""
    entry, seconds = child.entry, round(time.perf_counter() - child.start, 1)
    lost = targets[len(child.said) :]
    return child.said + [Outcome(entry.name, entry.family, target, seconds=seconds, error=why) for target in lost]


def group(family: str) -> str:
    """Return the library or the topic that a family belongs to."""
    return family.split()[0] if family.startswith(("timm ", "transformers ")) else family


def cause(error: str) -> str:
    """Return an error text without the parts that differ between models, for grouping."""
    return re.sub(r"\d[\d.e+-]*", "#", re.sub(r"\s+", " ", error))[:160]


def summary(found: Sequence[Outcome]) -> str:
    """Return counts by group and target, then the failures by cause, and the declared gaps with their reasons."""
    targets = list(dict.fromkeys(o.target for o in found))
    lines = [f"{'':16}{'models':>8}" + "".join(f"{t:>10}" for t in targets) + f"{'ratio':>9}{'seconds':>10}{'MiB':>8}"]
    for name in [*dict.fromkeys(group(o.family) for o in found), "all"]:
        members = [o for o in found if name in (group(o.family), "all")]
        passed = "".join(f"{sum(o.outcome == PASS for o in members if o.target == t):10}" for t in targets)
        ratio, peak = max(o.ratio for o in members), max(o.peak_mib for o in members)
        seconds = sum(o.seconds for o in members)
        lines.append(f"{name:16}{len({o.name for o in members}):8}{passed}{ratio:9.2f}{seconds:10.0f}{peak:8}")
    for outcome in dict.fromkeys(o.outcome for o in found if o.outcome != PASS):
        causes: dict[str, list[Outcome]] = defaultdict(list)
        for o in found:
            if o.outcome == outcome:
                causes[cause(o.error)].append(o)
        lines.append(f"{outcome}: {sum(map(len, causes.values()))}")
        for members in sorted(causes.values(), key=len, reverse=True):
            lines.append(f"  {members[0].error[:300]}")
            lines.append(f"      {', '.join(f'{o.name} → {o.target}' for o in members)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the zoo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models by name; by default all of them")
    parser.add_argument("--to", nargs="+", choices=TARGETS, default=["onnx"])
    parser.add_argument("--family", nargs="+", default=[""], help="only families whose name holds one of these")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=Limits.seconds, help="for one model, all its targets together")
    parser.add_argument("--memory", type=int, default=Limits.gibibytes, metavar="GIB", help="a process's address space")
    parser.add_argument("--seeds", type=int, default=Limits.seeds, help="sets of inputs to verify with")
    parser.add_argument("--list", action="store_true", help="names and families, nothing else")
    parser.add_argument(
        "--save", type=Path, metavar="DIR", help="write the models and a manifest of them, nothing else"
    )
    options = parser.parse_args(arguments)
    known = entries()
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no model {unknown[0]}")
    chosen = [known[name] for name in options.names] or [
        e for e in known.values() if any(family in e.family for family in options.family)
    ]
    if options.list:
        print("\n".join(f"{e.name:40}{e.family}" for e in chosen))
        return 0
    if options.save:
        from zoo_manifest import save

        print(save(chosen, options.save))
        return 0
    found: list[Outcome] = []
    for rows in outcomes(chosen, options.to, options.jobs, Limits(options.seconds, options.memory, options.seeds)):
        for row in rows:
            print(json.dumps(vars(row), ensure_ascii=False), flush=True)
        found += rows
        if sys.stderr.isatty():
            print(f"\r{len(found)} of {len(chosen) * len(options.to)} {rows[0].name:40}", end="", file=sys.stderr)
    if found:
        print(summary(found), file=sys.stderr)
    return int(not found or any(o.outcome not in (PASS, GAP) for o in found))


if __name__ == "__main__":
    sys.exit(main())
