"""Runs every verb while something runs out: disk space, file size, address space, readers of stdout."""

from __future__ import annotations

import resource
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import faults

Prepare = Callable[[], None]

SPACE = [16, 64, 128, 192, 320, 1024]
"""Sizes of a disk, or limits of a file, in KiB; the models have 160."""
MEMORY = [400, 800, 1200, 2000]
"""MiB of address space."""
OPEN_FILES = [8, 12, 16, 24, 48]
PROCESSES = [1, 2, 3, 4, 5, 6, 8, 16]
"""Processes and threads of a user, who has none yet."""
USER = 61234
"""A user without other processes, because the limit counts all processes of a user. It does not hold for root."""
_AS_USER = ("setpriv", f"--reuid={USER}", "--inh-caps=+dac_override", "--ambient-caps=+dac_override")
STREAMS = {
    "stdout full": ">/dev/full",
    "stderr full": "2>/dev/full",
    "both full": ">/dev/full 2>&1",
    "stdout closed": ">&-",
    "stderr closed": "2>&-",
    "all closed": "<&- >&- 2>&-",
    "a reader of one line": "| head -n 1 >/dev/null",
    "a reader of nothing": "| true",
}


def starve(verbs: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of runs, and the faults."""
    done, wrong = 0, list[str]()
    for verb in verbs:
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            place = faults.prepare(verb, Path(name))
            for told, run in _runs(verb, place):
                faults.reset(place)
                found = [f"{verb}, {told}: {fault}" for fault in run()]
                print("\n".join(found), end="\n" * bool(found), flush=True)
                wrong += found
                done += 1
        print(f"{verb}: {done} runs, {len(wrong)} faults so far", flush=True)
    return done, wrong


def _runs(verb: str, place: faults.Place) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for size in SPACE:
        if can_mount():
            yield f"a disk of {size} KiB", partial(_on_small_disk, verb, place, size, "out")
            yield f"{size} KiB of temporary files", partial(_on_small_disk, verb, place, size, "tmp")
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size << 10, size << 10))
        yield f"files of {size} KiB", partial(_run, verb, place, faults.command(verb), {0, 6}, limit)
    for size in MEMORY:
        limit = partial(resource.setrlimit, resource.RLIMIT_AS, (size << 20, size << 20))
        yield f"{size} MiB of address space", partial(_run, verb, place, faults.command(verb), {0, 6}, limit)
    for count in OPEN_FILES:
        limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (count, count))
        yield f"{count} open files", partial(_run, verb, place, faults.command(verb), {0, 6}, limit)
    if can_be_another_user():
        for count in PROCESSES:
            yield f"{count} processes", partial(_as_user, verb, place, count)
    if can_mount():
        words = ["unshare", "-m", "bash", "-c", 'mount -t tmpfs none /proc; exec "$@"', "bash", *faults.command(verb)]
        yield "no /proc", partial(_run, verb, place, words, {0}, None)
    for told, words in STREAMS.items():
        line = f'"$@" {words}; exit ${{PIPESTATUS[0]}}'
        codes = {6} if told in ("stdout full", "both full") else {0}
        yield told, partial(_run, verb, place, ["bash", "-c", line, "bash", *faults.command(verb)], codes, None)


def can_mount() -> bool:
    """Return whether this process may create a mount namespace."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


def can_be_another_user() -> bool:
    """Whether this process may run commands as another user that still reads and writes its files."""
    return subprocess.run([*_AS_USER, "true"], capture_output=True, check=False).returncode == 0


def _as_user(verb: str, place: faults.Place, count: int) -> list[str]:
    """Run as a user with this many processes and threads, to whom the files are given."""
    subprocess.run(["chown", "-R", str(USER), str(place.folder)], check=True)
    return _run(verb, place, [*_AS_USER, "prlimit", f"--nproc={count}", *faults.command(verb)], {0, 6}, None)


def _on_small_disk(verb: str, place: faults.Place, size: int, folder: str) -> list[str]:
    """Run with `folder` on a disk with this many KiB left, in a mount namespace; its contents are copied back."""
    held = sum(p.stat().st_size for p in (place.folder / folder).rglob("*")) // 1024
    script = (
        f"set -e; rm -rf kept; cp -a {folder} kept; mount -t tmpfs -o size={size + held}k none {folder}; "
        f"cp -a kept/. {folder}; "
        f'code=0; "$@" || code=$?; rm -rf kept/* kept/.[!.]*; cp -a {folder}/. kept; umount {folder}; '
        f"rm -rf {folder}; mv kept {folder}; exit $code"
    )
    words = ["unshare", "-m", "bash", "-c", script, "bash", *faults.command(verb)]
    return _run(verb, place, words, {0, 6}, None)


def _run(verb: str, place: faults.Place, words: Sequence[str], codes: set[int], prepare: Prepare | None) -> list[str]:
    mark = uuid.uuid4().hex
    try:
        done = subprocess.run(
            words,
            cwd=place.folder,
            env=place.environment(mark),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            preexec_fn=prepare,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ["it went on for two minutes"]
    allowed = codes | ({1} if verb in faults.BATCHES and 6 in codes else set())  # it prints its tasks one by one
    wrong = [] if done.returncode in allowed else [f"exit code {done.returncode}: {done.stderr[-300:]}"]
    if done.returncode and "error:" not in done.stderr and codes != {6} and verb not in faults.BATCHES:
        wrong.append(f"no error is told: {done.stderr[-300:]!r}")
    return wrong + faults.find_faults(verb, place, mark, done.stderr, swept=True)
