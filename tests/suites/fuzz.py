"""Mutate files of eleven formats: none may crash, hang, print a traceback, or convert silently to other numbers.

    python -m tests.suites.fuzz [--formats pt,onnx,…] [--count 1000] [--seed 0] [--out FILE.jsonl] [--keep FOLDER]

A mutation knows its format (`fuzzing/`): lengths, offsets, dims and counts, members of archives with matching
checksums, opcodes of pickles, fields of messages. A mutated file is converted to ONNX by the Python API in a worker,
which is forked from a process that has imported the frameworks. The same seed gives the same files. The outcomes are:

    refused      an error of convert's own
    same         converted to the same bytes as the original file
    agrees       converted to something else, and the framework computes the same from the mutated file
    alike        converted, but neither the framework runs the file nor onnxruntime the result: nobody gets numbers
    loose        converted, but only one of the framework and onnxruntime runs its file (listed to look at)
    silent       converted to other numbers than the framework computes, or in spite of a wrong checksum
    traceback, signal, hang, memory

The last five count as bad.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.suites.fuzzing import archives, flat, hdf5, safetensors, wire
from tests.suites.fuzzing.numbers import changed_bytes
from tests.suites.fuzzing.seeds import WRITERS

SECONDS = 20.0
START_SECONDS = 900.0
"""Time within which a worker starts, however busy the machine is: TensorFlow's first conversion takes half a minute."""
MEMORY = 3 << 30
RENEW = 100
BAD = ("silent", "traceback", "signal", "hang", "memory")
Change = Callable[[random.Random, bytes], bytes]
CHANGES: dict[str, list[tuple[str, Change, bool]]] = {
    "pt": [("", archives.changed_member, False), ("", archives.damaged_archive, True)],
    "torchscript": [("", archives.changed_member, False), ("", archives.damaged_archive, True)],
    "pt2": [("", archives.changed_member, False), ("", archives.damaged_archive, True)],
    "keras": [("", archives.changed_member, False), ("", archives.damaged_archive, True)],
    "safetensors": [("", safetensors.changed_safetensors, False)],
    "onnx": [("m.onnx", wire.changed_message, False), ("m.data", changed_bytes, False)],
    "savedmodel": [
        ("saved_model.pb", wire.changed_message, False),
        ("variables/variables.index", wire.changed_index, False),
        ("variables/variables.data-00000-of-00001", changed_bytes, True),
        ("variables/variables.index", changed_bytes, True),
    ],
    "frozen": [("", wire.changed_message, False)],
    "h5": [("", hdf5.changed_hdf5, False)],
    "tflite": [("", flat.changed_flatbuffer, False)],
    "caffe2": [("predict_net.pb", wire.changed_message, False), ("init_net.pb", wire.changed_message, False)],
}
"""Mutations by format: the file in its folder, the mutations, and whether checksums protect the mutated bytes."""
WEIGHTS = {"onnx": (3, 1), "savedmodel": (5, 3, 1, 1)}
"""The weights of the mutations, if they are not uniform."""
FACTORIES = ("pt", "safetensors")


@dataclass
class Found:
    """One mutation, identified by format and number, and its outcome."""

    form: str
    number: int
    change: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0


def change_of(form: str, number: int, seed: int, folder: Path, name: str) -> tuple[str, bool]:
    """Mutate a file of the copy in `folder`; return a description, and whether checksums protect it."""
    rng = random.Random(f"{form} {seed} {number}")
    ((place, change, guarded),) = rng.choices(CHANGES[form], WEIGHTS.get(form))
    file = folder / name / place if place else folder / name
    if place and not file.exists():  # an entry next to the file
        file = folder / place
    content = file.read_bytes()
    try:
        content = change(rng, content)
    except Exception:  # a library that the mutation uses rejects it
        change = changed_bytes
        content = change(rng, content)
    file.write_bytes(content)
    return f"{change.__name__} {place}".strip(), guarded


# -- the worker -------------------------------------------------------------------------------------------------------


def serve(connection: Connection, form: str, pristine: Path, seed: int) -> None:
    """Answer numbers with the outcomes of their mutations."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    name = WRITERS[form][1]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        os.chdir(place)
        tempfile.tempdir = place
        first = Path(place, "first.onnx")
        _convert(form, pristine / name, first, pristine)
        connection.send(("ready", "", "", 0.0))
        while True:
            try:
                number = connection.recv()
            except EOFError:
                return
            folder = Path(place, str(number))
            shutil.copytree(pristine, folder)
            what, guarded = change_of(form, number, seed, folder, name)
            connection.send(("change", what, "", 0.0))
            began = time.monotonic()
            outcome, detail = outcome_of(form, folder / name, pristine, first)
            took = time.monotonic() - began
            connection.send(("converted", outcome, "", took))
            if outcome == "other":
                outcome, detail = _judged(form, guarded, folder)
            connection.send(("done", outcome, detail, took))
            shutil.rmtree(folder)


def _convert(form: str, source: Path, target: Path, pristine: Path) -> None:
    from convert import api

    api.convert(source, "onnx", target, verify=False, **_options(form, pristine))


def _options(form: str, folder: Path) -> dict[str, Any]:
    more: dict[str, Any] = {"model": f"{folder}/net.py:Net"} if form in FACTORIES else {}
    return more | ({"inputs": "x:float32[batch,1,8,8]"} if form in (*FACTORIES, "torchscript") else {})


def outcome_of(form: str, source: Path, pristine: Path, first: Path) -> tuple[str, str]:
    """Return `refused`, `same` as `first`, `other`, `memory` or `traceback`, and the message."""
    from convert.errors import ConvertError

    target = source.with_name("out.onnx")
    try:
        _convert(form, source, target, pristine)
    except ConvertError as error:
        return "refused", f"{type(error).__name__}: {error.message}"
    except MemoryError:
        return "memory", traceback.format_exc()[-1500:]
    except Exception:
        return "traceback", traceback.format_exc()[-3000:]
    return ("same" if target.read_bytes() == first.read_bytes() else "other"), ""


def _judged(form: str, guarded: bool, folder: Path) -> tuple[str, str]:
    from tests.suites.fuzzing.judges import judged

    if guarded:
        return "silent", "bytes under a checksum were changed"
    word, detail = judged(form, folder / WRITERS[form][1], folder / "out.onnx")
    named = {"differs": "silent", "refused by the framework": "loose", "does not run": "loose", "fails alike": "alike"}
    return named.get(word, word), detail


# -- the driver -------------------------------------------------------------------------------------------------------


class Worker:
    """A forked process that answers requests.

    If it dies, or after its share of work, it is replaced at the next request.
    """

    def __init__(self, form: str, pristine: Path, seed: int) -> None:
        self.arguments = (form, pristine, seed)
        self.process: Any = None
        self.connection: Any = None
        self.done = 0

    def ask(self, number: int) -> Found:
        """Return the outcome of a mutation."""
        if self.process is None or self.done >= RENEW:
            self.stop()
            self._start()
        self.done += 1
        self.connection.send(number)
        found = Found(self.arguments[0], number, "", "")
        stage = ""
        while True:
            try:
                if not self.connection.poll(SECONDS if stage == "change" else 4 * SECONDS):
                    found.outcome, found.seconds = "hang", SECONDS
                    break
                stage, outcome, detail, seconds = self.connection.recv()
            except (EOFError, OSError):
                self.process.join()
                found.outcome, found.detail = "signal", f"the process ended with {self.process.exitcode}"
                break
            if stage == "change":
                found.change = outcome
            elif stage == "done":
                found.outcome, found.detail, found.seconds = outcome, detail, seconds
                return found
        if stage == "converted":
            found.outcome, found.detail = "loose", "the framework itself crashed or hung over it"
        self.stop()
        return found

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None

    def _start(self) -> None:
        fork = multiprocessing.get_context("fork")
        self.connection, other = fork.Pipe()
        self.process = fork.Process(target=serve, args=(other, *self.arguments), daemon=True)
        self.process.start()
        other.close()
        self.done = 0
        if not self.connection.poll(START_SECONDS) or self.connection.recv()[0] != "ready":
            raise RuntimeError(f"the unchanged file of {self.arguments[0]} does not convert")


KINDS = {
    "pt": "torchscript", "torchscript": "torchscript", "pt2": "torchscript", "safetensors": "torchscript",
    "onnx": "onnx", "savedmodel": "savedmodel", "frozen": "savedmodel", "keras": "savedmodel", "h5": "savedmodel",
    "tflite": "savedmodel", "caffe2": "caffe2",
}  # fmt: skip
"""A kind of the frontend that reads each format."""


def preload(formats: Sequence[str]) -> None:
    """Import what the workers need, except modules that start threads."""
    from convert.processes.fork_server import preload as import_rooms

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import_rooms(sorted({KINDS[form] for form in formats}), ["onnx"])


def run(form: str, numbers: range, seed: int, keep: Path | None = None) -> Iterator[Found]:
    """Return the outcomes of the mutations of these numbers; the files of bad ones are kept in `keep`, if given."""
    with tempfile.TemporaryDirectory(prefix="fuzz-seeds-") as place:
        pristine = Path(place)
        command = [sys.executable, "-m", "tests.suites.fuzzing.seeds", form, place]
        subprocess.run(command, check=True, capture_output=True)
        worker = Worker(form, pristine, seed)
        try:
            for number in numbers:
                found = worker.ask(number)
                if found.outcome == "hang":  # try again in a fresh worker, because the machine may have been busy
                    found = worker.ask(number)
                if keep is not None and found.outcome in (*BAD, "loose"):
                    folder = keep / form / str(number)
                    shutil.copytree(pristine, folder, dirs_exist_ok=True)
                    change_of(form, number, seed, folder, WRITERS[form][1])
                yield found
        finally:
            worker.stop()


def main() -> None:
    """Run and print a table; return 1 if any outcome is bad."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(WRITERS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    formats = given.formats.split(",")
    preload(formats)
    bad = 0
    for form in formats:
        counts: Counter[str] = Counter()
        began = time.monotonic()
        for found in run(form, range(given.first, given.first + given.count), given.seed, given.keep):
            counts[found.outcome] += 1
            if given.out is not None:
                with given.out.open("a") as log:
                    log.write(json.dumps(asdict(found)) + "\n")
        bad += sum(counts[word] for word in BAD)
        told = ", ".join(f"{word} {n}" for word, n in counts.most_common())
        print(f"{form:12} {sum(counts.values()):5} in {time.monotonic() - began:5.0f} s: {told}", flush=True)
    sys.exit(int(bad > 0))


if __name__ == "__main__":
    main()
