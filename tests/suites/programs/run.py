"""Run every program of the tables in every format, and count the outcomes.

    python -m tests.suites.programs.run [--tables pytorch,onnx,tensorflow] [--targets keras,tflite] [--names a,b] [-v]

The outcomes are right, refused (as declared or not), wrong, error and crashed. The source framework is the reference,
as in the tests beside this file. All programs run in one process, which is started again if a program ends it.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.run_targets import SUFFIXES

TABLES = ("pytorch", "onnx", "tensorflow")
SECONDS = 300.0
GOOD = ("right", "refused")
REASONS = {
    "keras": r"no subgraphs|no sequences|computed at run time|of dynamic (number|size)|of which nothing is known|"
    r"depends on the data|no operation for it|has no operations on|no complex tensors",
    "tflite": r"TensorFlow Lite has no|ConcatFromSequence of tensors of unknown rank",
    "caffe2": r"not fixed|computed at run time|known only when the model runs|the rank of|negative pads|"
    r"Caffe2 (has no|needs|comp)",
}
"""Reasons that a format may give for refusing a program that its table does not declare."""


def outcome(table: str, name: str, form: str) -> tuple[str, str]:
    """Return the status of one program, and its message."""
    module = importlib.import_module(f"tests.suites.programs.test_{table}")
    with tempfile.TemporaryDirectory(prefix="programs-") as folder:
        try:
            reason = module.attempt(name, form, Path(folder))
        except AssertionError as error:
            return "wrong", _line(error)
        except Exception as error:
            return "error", f"{type(error).__name__}: {_line(error)}"
    declared = module.REFUSED.get(form, {}).get(name) or module.REFUSED["onnx"].get(name)
    if declared is None and not reason:
        return "right", ""
    declared = declared or REASONS.get(form, r"(?!)")
    return ("refused" if re.search(declared, reason) else "undeclared"), _line(reason or "it is not refused")


def _line(said: object) -> str:
    return " ".join(str(said).split())[:400]


def serve(connection: Connection) -> None:
    """Answer the requests ("names", table) and ("run", table, name, form)."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    while True:
        try:
            what, *request = connection.recv()
        except EOFError:
            return
        if what == "names":
            connection.send(list(importlib.import_module(f"tests.suites.programs.test_{request[0]}").ROWS))
        else:
            connection.send(outcome(*request))


class Child:
    """A process that serves; if it dies, the next request starts another."""

    def __init__(self) -> None:
        self.process: Any = None
        self.connection: Any = None

    def ask(self, *request: str) -> Any:
        """Return the answer, or ("crashed", reason) if there is none."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.connection.send(request)
            if self.connection.poll(SECONDS):
                return self.connection.recv()
            why = f"no answer in {SECONDS:g} s"
        except (EOFError, OSError):
            self.process.join()
            why = f"the process ended with {self.process.exitcode}"
        self.process.kill()
        self.process.join()
        self.process = None
        return "crashed", why


def main() -> None:
    """Run the programs and print the counts; the exit code is 1 if one is neither right nor refused as declared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--targets", default=",".join(SUFFIXES))
    parser.add_argument("--names", help="only these programs")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is refused as declared, too")
    args = parser.parse_args()
    child, bad = Child(), False
    for table in args.tables.split(","):
        names = child.ask("names", table)
        wanted = args.names.split(",") if args.names else names
        for form in args.targets.split(","):
            counts: Counter[str] = Counter()
            began = time.time()
            for name in names:
                if name not in wanted:
                    continue
                status, said = child.ask("run", table, name, form)
                counts[status] += 1
                if status not in GOOD or (args.verbose and status != "right"):
                    print(f"{table} {name} {form} {status}: {said}", flush=True)
            bad = bad or any(status not in GOOD for status in counts)
            told = ", ".join(f"{status} {count}" for status, count in sorted(counts.items()))
            print(f"{table} in {form}: {told} ({time.time() - began:.0f} s)", flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    # The child finds everything under the module's own name.
    from tests.suites.programs.run import main as main_as_module

    main_as_module()
