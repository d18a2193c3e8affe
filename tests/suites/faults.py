"""Kill and starve real runs, and check that they leave the old output or a complete new one, and nothing else.

    python tests/suites/faults.py kills [--count 50] [--verbs …] [--signals …]
    python tests/suites/faults.py limits [--verbs …]

`kills` sends each signal at random moments to the process that was started; every other SIGKILL goes to its worker. A
run that ended before its signal is repeated, so that the counts are those of runs that were killed.
`limits` runs every verb on disks that are too small, under limits of file sizes and of address space, and with streams
that cannot be written. Every run has a folder for temporary files and a mark in its environment, by which leftovers are
found.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
MARK = "CONVERT_FAULTS"
SIGNALS = {
    "KILL": None, "TERM": 143, "INT": 130, "HUP": 129, "QUIT": 131, "USR1": 138, "USR2": 140, "XCPU": 152, "ALRM": 142,
    "ABRT": 134,
}  # fmt: skip
"""Exit codes by signal; SIGKILL has none of its own."""
GRACE = 10.0
"""Seconds within which the kernel ends processes that die with their parent, even on a busy machine."""

VERBS = {
    "convert": "m.onnx --to onnx -o out/m.onnx --force --no-verify",
    "frozen": "m.onnx --to tf-frozen -o out/m.pb --force --no-verify",
    "folder": "m.onnx --to caffe2 -o out/m.caffe2 --force --no-verify",
    "verified": "m.onnx --to onnx -o out/m.onnx --force --report out/page.html --save-inputs out/in.npz",
    "verify": "verify m.onnx n.onnx --report out/page.html --save-inputs out/in.npz",
    "batch": "batch zoo --to onnx -o out --jobs 2 --no-verify --force",
    "modules": "batch modules --to onnx -o out --jobs 2 --no-verify --force",
    "inspect": "inspect m.onnx --report out/page.html",
    "ops": "ops --to caffe2",
    "formats": "formats -v",
    "explain": "explain",
}

BATCHES = ("batch", "modules")
"""Verbs that convert several models in workers of their own."""

ONE_OUTPUT = ("convert", "frozen", "folder")
"""Verbs that write one output, atomically."""


@dataclass
class Place:
    """A working directory: models, outputs of an earlier run in `out`, temporary files in `tmp`."""

    folder: Path
    old: dict[str, str] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)
    seconds: float = 1.0

    def environment(self, mark: str) -> dict[str, str]:
        """Return the environment of a run with this mark."""
        return {**os.environ, MARK: mark, "TMPDIR": str(self.folder / "tmp"), "TF_CPP_MIN_LOG_LEVEL": "3"}


def command(verb: str) -> list[str]:
    """Return the words of a run's command line."""
    return [sys.executable, "-m", "convert", *shlex.split(VERBS[verb])]


def prepare(verb: str, folder: Path) -> Place:
    """Return a place with the outputs of another model, the outputs after a run, and the time of a run."""
    place = Place(folder)
    for name in ("zoo", "modules", "out", "tmp"):
        (folder / name).mkdir()
    _use_model(place, "super_resolution")
    _finish(place, verb)
    place.old = contents(folder / "out")
    shutil.copytree(folder / "out", folder / "before")
    _use_model(place, "mnist_cnn")
    begun = time.monotonic()
    _finish(place, verb)
    place.seconds = time.monotonic() - begun
    place.new = contents(folder / "out")
    return place


def _use_model(place: Place, name: str) -> None:
    for model in ("m.onnx", "n.onnx", "zoo/a.onnx", "zoo/b.onnx", "zoo/c.onnx", "modules/a.pt", "modules/b.pt"):
        shutil.copy(FIXTURES / f"{name}{Path(model).suffix}", place.folder / model)


def reset(place: Place) -> None:
    """Restore the outputs of the other model."""
    shutil.rmtree(place.folder / "out")
    shutil.copytree(place.folder / "before", place.folder / "out")
    for left in (place.folder / "tmp").iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink()


def _finish(place: Place, verb: str) -> None:
    done = subprocess.run(
        command(verb), cwd=place.folder, env=place.environment("whole"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def contents(folder: Path) -> dict[str, str]:
    """Return the hash of every file; for pages, inputs and the journal only whether they are complete."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        found[path.relative_to(folder).as_posix()] = _told(path)
    return found


def _told(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".html":
        return "whole" if data.endswith(b"</html>\n") else "cut"
    if path.suffix == ".npz":
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            return "whole" if archive.testzip() is None else "damaged"
        return "cut"
    if path.name == "journal.jsonl":
        *lines, _ = data.split(b"\n")
        with contextlib.suppress(ValueError):
            return "whole" if all(isinstance(json.loads(line), dict) for line in lines) else "damaged"
        return "damaged"
    return hashlib.sha256(data).hexdigest()


def kill_once(verb: str, name: str, place: Place, rng: random.Random, whom: str) -> tuple[bool, list[str]]:
    """Send a signal at a random moment; return whether it met a running process, and the faults found afterwards."""
    reset(place)
    mark = uuid.uuid4().hex
    moment = rng.uniform(0, 1.1 * place.seconds)
    process = subprocess.Popen(
        command(verb),
        cwd=place.folder,
        env=place.environment(mark),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_signals,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    running = process.poll() is None
    target = _worker_of(process.pid) if whom == "worker" else process.pid
    if running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, getattr(signal, f"SIG{name}"))
    try:
        _, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        return True, [f"{verb} went on for a minute after SIG{name} at {moment:.2f} s"]
    wanted = {0, SIGNALS[name] if name != "KILL" else (-9 if target == process.pid else 6)}
    if _is_before_us(err):
        print(f"{verb}, SIG{name} at {moment:.2f} s met Python's own start: its traceback is not counted", flush=True)
        wanted, err = {1, -2, 130}, ""
    if process.returncode == -getattr(signal, f"SIG{name}") and not err:
        # Python had not started, so the signal itself ended the process; a shell reports the same number.
        wanted.add(process.returncode)
    wrong = [] if process.returncode in wanted else [f"exit code {process.returncode}: {err[-300:]}"]
    wrong += find_faults(verb, place, mark, err, swept=name != "KILL" or target != process.pid)
    if name == "KILL":
        _finish(place, verb)
        wrong += [f"after the next run: {fault}" for fault in find_faults(verb, place, mark, "", swept=True)]
        if contents(place.folder / "out") != place.new:
            wrong.append("the next run did not write what it should")
    place.seconds = max(place.seconds, moment) if running else 0.9 * place.seconds  # the load of the machine changes
    told = f"{verb}, SIG{name} to {whom} at {moment:.2f} of {place.seconds:.2f} s"
    return running, [f"{told}: {fault}" for fault in wrong]


def _hear_signals() -> None:
    """Handle SIGINT again: background processes of a shell ignore it, and child processes inherit that."""
    for name in SIGNALS:
        if name != "KILL":
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)


def _is_before_us(err: str) -> bool:
    """Return whether the interpreter itself reported the interrupt during its start, before any line of the project
    ran.
    """
    return err.rstrip().endswith("KeyboardInterrupt") and "convert/" not in err


def _worker_of(pid: int) -> int:
    """Return the worker of a process, or the process itself."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(words[0]) if words else pid
    return pid


def find_faults(verb: str, place: Place, mark: str, err: str, *, swept: bool) -> list[str]:
    """Return the leftovers of a run with this mark. swept: hidden folders and temporary files must be gone too."""
    found = [f"process {left} is left" for left in _left_processes(mark)]
    if "Traceback" in err:
        found.append(f"a traceback: {err[-500:]}")
    now = contents(place.folder / "out")
    hidden = [name for name in now if name.startswith(".convert-")]
    for name, told in now.items():
        if name not in hidden and told not in (place.old.get(name), place.new.get(name)):
            found.append(f"{name} is neither the old one nor the new one")
    found += [f"{name} is gone" for name in place.old if name not in now]
    whole = {name: told for name, told in now.items() if name not in hidden}
    if verb in ONE_OUTPUT and whole not in (place.old, place.new):
        found.append("the output is part old and part new")
    if swept:
        found += [f"{name} is left" for name in hidden]
        found += [f"{path.name} is left" for path in (place.folder / "tmp").iterdir() if not _is_probe(path)]
    return found


def _is_probe(path: Path) -> bool:
    """Return whether Python's tempfile wrote this file to test the folder; a SIGKILL at that moment leaves it."""
    return (
        path.is_file() and re.fullmatch("[a-z0-9_]{8}", path.name) is not None and path.read_bytes() in (b"", b"blat")
    )


def _left_processes(mark: str) -> list[str]:
    """Return the processes with the mark that still run after `GRACE`."""
    until = time.monotonic() + GRACE
    while (left := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _marked(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} ({(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()})")
    return found


def kills(verbs: Sequence[str], signals: Sequence[str], count: int, seed: int) -> tuple[int, list[str]]:
    """Return the number of runs that a signal met, and the faults. Runs that ended before their signal are repeated."""
    rng, done, wrong = random.Random(seed), Counter[str](), []
    for verb in verbs:
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            place = prepare(verb, Path(name))
            for kind in signals:
                number = tries = 0
                while number < count and tries < 3 * count:
                    whom = "worker" if kind == "KILL" and number % 2 and verb not in BATCHES else "itself"
                    met, found = kill_once(verb, kind, place, rng, whom)
                    print("\n".join(found), end="\n" * bool(found), flush=True)
                    wrong += found
                    number, tries = number + met, tries + 1
                done[verb] += number
                print(f"{verb}: {done[verb]} killed, {len(wrong)} faults so far (SIG{kind}, {tries} runs)", flush=True)
    return sum(done.values()), wrong


def main() -> None:
    """Print the faults; exit code 1 if there were any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "limits"])
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "kills":
        done, wrong = kills(options.verbs, options.signals, options.count, options.seed)
    else:
        import faults_limits

        done, wrong = faults_limits.starve(options.verbs)
    print(f"{done} runs, {len(wrong)} faults")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
