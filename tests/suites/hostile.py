"""Run hostile files under strace: nothing may be executed, written elsewhere, connected, lost or left running.

    python -m tests.suites.hostile [--classes pickles,onnx,…] [--verbs inspect,convert,source,target,python,batch]
        [--sample N] [--draw N --seed N] [--match EXPRESSION] [--timeout 15] [--out FILE.jsonl] [--light] [--unchecked]

The makers are in `hostile_files/`, one for each class. Every file goes through every verb: `inspect`, `convert` to
ONNX, `verify` as the source and as the target beside a good model, and `python`, a program that calls
`convert.convert`. Each class goes through one `batch`. Commands run in forks of a process that has imported the
frameworks, and so do their child processes. `strace` follows all of them; without strace this part is left out, with a
message. Counted are

    executed     a program that is not this Python, a library from the folder of the command, or the canary of the file
    wrote        files made, changed, renamed or removed outside of the folder of the command
    connected    a connection or datagram to anywhere but a socket of the file system
    tracebacks   printed tracebacks, Python's own exceptions in messages, and rules that fail with one (exit code 1)
    hangs        commands with a process that used more than 20 s of processor time, or that took 120 s of wall time, in
                 spite of their --timeout of 15 s; a batch may take this long for each model
    memory       processes with more than 2 GiB of their own in spite of --memory 2GB, child processes included
    left         processes that outlive their command
    escapes      control characters or bidirectional overrides in what is printed
    lines        lines that do not begin like ours, which a name with a line break would forge, and lines that are
                 longer than convert prints
    unmade       classes whose maker failed; the files that it made before are tried all the same

`--draw 12` runs twelve commands of each class, drawn by `--seed`: `--sample` alone takes the files of a regular series
at the same place each time.

`--out` is written row by row. Commands whose rows are in it are not run again, and its rows count in the table.

`--unchecked` switches the checks of PyTorch archives and TensorFlow graphs off (`tests/support/unchecked.py`), to test
the sandbox alone: whatever is executed, written, connected or left has escaped it. The other scores are left out,
because a file that passed no check may fail anywhere.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from convert.outcome.text import LONGEST_LINE
from tests.suites import hostile_watch as watch
from tests.suites.hostile_files.adapter_files import adapter_files
from tests.suites.hostile_files.archive_files import archive_files
from tests.suites.hostile_files.asset_files import asset_files
from tests.suites.hostile_files.caffe2_files import caffe2_files
from tests.suites.hostile_files.case import Canary, Case, Maker
from tests.suites.hostile_files.code_files import code_files
from tests.suites.hostile_files.decoder_files import decoder_files
from tests.suites.hostile_files.folder_files import folder_files
from tests.suites.hostile_files.hugging_files import hugging_files
from tests.suites.hostile_files.input_files import input_files
from tests.suites.hostile_files.jax_files import jax_files
from tests.suites.hostile_files.keras_files import keras_files
from tests.suites.hostile_files.lite_files import lite_files
from tests.suites.hostile_files.module_files import module_files
from tests.suites.hostile_files.name_files import name_files
from tests.suites.hostile_files.notes_files import notes_files
from tests.suites.hostile_files.onnx_files import onnx_files
from tests.suites.hostile_files.operator_files import operator_files
from tests.suites.hostile_files.output_files import output_files
from tests.suites.hostile_files.packed_files import packed_files
from tests.suites.hostile_files.payload_files import payload_files
from tests.suites.hostile_files.pickle_files import pickle_files
from tests.suites.hostile_files.pipeline_files import pipeline_files
from tests.suites.hostile_files.place_files import manifest_files, place_files
from tests.suites.hostile_files.program_files import program_files
from tests.suites.hostile_files.safetensors_files import safetensors_files
from tests.suites.hostile_files.swapped_files import swapped_files
from tests.suites.hostile_files.tensorflow_files import tensorflow_files
from tests.suites.hostile_files.torchscript_files import exported_files, torchscript_files, two_faced_files
from tests.suites.hostile_python import convert_from_python
from tests.suites.hostile_rows import HARM, Run, print_rows, rows_of
from tests.support.printed_lines import foreign_line
from tests.support.unchecked import switch_checks_off

MAKERS: dict[str, Maker] = {
    "pickles": pickle_files,
    "modules": module_files,
    "archives": archive_files,
    "torchscript": torchscript_files,
    "exported": exported_files,
    "programs": program_files,
    "faces": two_faced_files,
    "safetensors": safetensors_files,
    "hugging": hugging_files,
    "decoders": decoder_files,
    "packed": packed_files,
    "adapters": adapter_files,
    "pipelines": pipeline_files,
    "onnx": onnx_files,
    "operators": operator_files,
    "notes": notes_files,
    "names": name_files,
    "tensorflow": tensorflow_files,
    "assets": asset_files,
    "keras": keras_files,
    "lite": lite_files,
    "caffe2": caffe2_files,
    "stablehlo": jax_files,
    "payloads": payload_files,
    "places": place_files,
    "manifests": manifest_files,
    "folders": folder_files,
    "code": code_files,
    "inputs": input_files,
    "outputs": output_files,
    "swapped": swapped_files,
}
FRAMEWORKS = {
    **dict.fromkeys(("tensorflow", "assets", "keras", "lite", "payloads"), "savedmodel"), "caffe2": "caffe2",
    **dict.fromkeys(("onnx", "operators", "notes", "names", "places", "manifests"), "onnx"),
    **dict.fromkeys(("folders", "inputs", "outputs"), "onnx"),
}  # fmt: skip
"""The format of the fuzzer that the same frontend reads; `pt` for all others."""
HUGGING = {"hugging", "decoders", "packed", "adapters", "pipelines"}
"""The classes of folders that transformers or diffusers read."""
VERBS = ("inspect", "convert", "source", "target", "python", "batch")
MEMORY = "2GB"
_PROGRAM = "a program"
"""The word in place of a verb if no command is run."""
PROCESSOR_SECONDS, CLOCK_SECONDS, BYTES, ENDING = 20.0, 120.0, 2 << 30, 15.0
_ESCAPES = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that no name may print on a terminal, except the line break, which `foreign_line` checks."""
_DEFECT = re.compile(r"Traceback \(most recent|^error: \w+(Error|Exception)\b.*", re.M)
_UNFORESEEN = re.compile(r"was not foreseen: |rule failed with \w+Error")
"""Messages for unexpected errors. With exit code 5 the file contradicts itself; with 1 it is a defect of convert."""


def arguments(case: Case, verb: str, timeout: float) -> list[str]:
    """Return the words of a command line."""
    limit, path = ["--timeout", f"{timeout:g}", "--memory", MEMORY], str(case.path)
    match verb:
        case "inspect":
            return ["inspect", *([] if case.here else case.arguments), *limit, "--", path]
        case "convert":
            return ["--to", "onnx", "-o", "model.onnx", *case.arguments, *limit, "--", path]
        case "source":
            return ["verify", *([] if case.here else case.arguments), *limit, "--", path, str(case.good)]
        case "target":
            return ["verify", *limit, "--", str(case.good), path]
        case "python":
            return [_PROGRAM, path]
    return ["batch", path, "--to", "onnx", "-o", "out", "--jobs", "1", *limit]


# -- one command ------------------------------------------------------------------------------------------------------


def run_command(
    case: Case, kind: str, verb: str, words: list[str], folder: Path, canary: Canary, helper: watch.Helper | None = None
) -> Run:
    """Run a command in a fork with a folder of its own, and watch it while it runs."""
    if case.here is None:
        folder.mkdir()
    else:
        subprocess.run(["cp", "-a", str(case.here), str(folder)], check=True)  # keeps pipes and links
    kept = {name: (folder / name).read_bytes() for name in case.kept}
    swap = watch.start_swapping(*case.swap) if case.swap is not None else None
    run = Run(kind, case.name, verb, time.time())
    pid = os.fork()
    if not pid:
        _become(words, folder)
    memory = watch.Memory(pid, helper)
    models = len(words) - words.index("--") - 1 if verb == "batch" and "--" in words else 1
    while run.code is None:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            run.code = os.waitstatus_to_exitcode(status)
            break
        memory.look()
        run.seconds = memory.seconds
        if memory.longest > models * PROCESSOR_SECONDS or time.time() - run.began > models * CLOCK_SECONDS:
            run.scores["hangs"] = f"{memory.seconds:.0f} s of processor, {time.time() - run.began:.0f} s of the clock"
            break
        time.sleep(0.02)
    left = watch.group(pid)
    forks = {} if helper is None else helper.forks(10.0 if run.code is not None else 0.0)
    left += [status[-1] for status in forks.values()]
    if left and run.code is not None:
        run.scores["left"] = " | ".join(left)[:300]
    watch.end(pid)
    if run.code is None:
        os.waitpid(pid, 0)
    if lost := [name for name, data in kept.items() if not _holds(folder / name, data)]:
        run.scores["wrote"] = f"over {lost[0]}"
    run.ended, run.bytes = time.time(), memory.most
    if swap is not None and case.swap is not None:
        watch.stop_swapping(swap, case.swap[0])
    run.told = (folder / "told").read_text(errors="surrogateescape")
    judge(run, canary)
    return run


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def judge(run: Run, canary: Canary) -> None:
    """Add the scores of what a command used, printed and executed to its row."""
    if run.bytes > BYTES:
        run.scores["memory"] = f"{run.bytes / 1e9:.1f} GB"
    unforeseen = run.code == 1 and _UNFORESEEN.search(run.told)
    if unforeseen or _DEFECT.search(run.told) or (run.code is not None and run.code not in (0, 1, 2, 3, 4, 5, 6, 7)):
        run.scores["tracebacks"] = f"exit {run.code}"
    if found := _ESCAPES.search(run.told):
        run.scores["escapes"] = ascii(run.told[max(0, found.start() - 40) : found.end() + 20])
    if (line := foreign_line(run.told)) is not None and "tracebacks" not in run.scores:
        run.scores["lines"] = ascii(line[:200])
    # A program prints the whole text of an exception.
    if run.verb != "python" and (longest := max(map(len, run.told.splitlines()), default=0)) > LONGEST_LINE + 100:
        run.scores["lines"] = f"a line of {longest:,} characters"
    if canary.marker.exists():
        run.scores["executed"] = "the canary is there"
        canary.marker.unlink()


def _become(words: list[str], folder: Path) -> None:
    """Turn the fork into the command: give it a session of its own, its folder, and the command line."""
    os.setsid()
    os.chdir(folder)
    (folder / "tmp").mkdir(exist_ok=True)
    os.environ.update(TMPDIR=str(folder / "tmp"), HOME=str(folder), TMP=str(folder / "tmp"))
    tempfile.tempdir = None
    null, told = os.open(os.devnull, os.O_RDONLY), os.open("told", os.O_WRONLY | os.O_CREAT, 0o600)
    for number, target in ((null, 0), (told, 1), (told, 2)):
        os.dup2(number, target)
    sys.argv = ["convert", *words]
    code = 1
    try:
        if words[0] == _PROGRAM:
            convert_from_python(words[1])
        else:
            from convert.cli import main

            main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# -- all of them ------------------------------------------------------------------------------------------------------


def made(kind: str, place: Path, canary: Canary) -> tuple[list[Case], str]:
    """Make the files of a class in a process of its own, because libraries that write them start threads.

    If the maker fails, return the files that it made before, and its error.
    """
    folder = place / kind
    folder.mkdir()
    with tempfile.TemporaryFile("w+") as pipe:
        pid = os.fork()
        if not pid:
            failure = ""
            try:
                for case in MAKERS[kind](folder, canary):
                    pipe.write(json.dumps(asdict(case), default=str) + "\n")
                    pipe.flush()
            except BaseException:
                failure = traceback.format_exc()
            finally:
                pipe.write(json.dumps(failure) + "\n")
                pipe.flush()
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        pipe.seek(0)
        rows = [json.loads(line) for line in pipe if line.endswith("\n")]
    failure = f"its process ended with {code}" if code else rows.pop()
    return [*map(_case_of, rows)], failure


def _case_of(row: dict[str, Any]) -> Case:
    """Return a case that was sent to another process."""
    paths = {name: Path(row[name]) for name in ("path", "good", "here") if row[name] is not None}
    words = {name: tuple(row[name]) for name in ("arguments", "verbs", "kept")}
    swap = None if row["swap"] is None else tuple(map(Path, row["swap"]))
    return Case(**row | words | paths | {"swap": swap})


def commands(kind: str, cases: list[Case], verbs: list[str], timeout: float) -> Iterator[tuple[Case, str, list[str]]]:
    """Yield every case with every verb, and a batch for each class, of its folder or of each manifest."""
    for verb in verbs:
        if verb != "batch":
            meant = [c for c in cases if not c.batch and verb in (c.verbs or VERBS)]
            meant = [c for c in meant if verb != "python" or not (c.arguments or c.here)]
            yield from ((c, verb, arguments(c, verb, timeout)) for c in meant)
        else:
            yield from ((c, verb, arguments(c, verb, timeout)) for c in cases if c.batch)
    cases = [case for case in cases if not case.batch and "batch" in (case.verbs or VERBS)]
    if "batch" in verbs and cases:
        # Each case with a hostile working directory gets a batch of its own; of the other cases, only the first folder
        # gets one.
        folders = dict.fromkeys(c.path.parent for c in cases if c.here or c.path.parent == cases[0].path.parent)
        for folder in folders:
            found = [c for c in cases if c.path.parent == folder][:40]
            here, target = found[0].here, "tf" if found[0].here else "onnx"
            words = ["batch", "--to", target, "-o", "out", "--jobs", "1", "--no-verify", "--timeout", f"{timeout:g}"]
            name = f"a batch in {folder.name}" if here else "a batch of forty"
            yield Case(name, folder, here=here), "batch", [*words, "--", *(str(c.path) for c in found)]


def main() -> None:
    """Make, run, judge and print the table; return 1 if a score is not 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", default=",".join(MAKERS))
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--sample", type=int, default=1, help="one of N commands")
    parser.add_argument("--draw", type=int, help="this many commands of each class, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of --draw")
    parser.add_argument("--match", default="", help="an expression that the name of a case holds")
    parser.add_argument("--timeout", type=float, default=15.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--progress", action="store_true", help="print each command when it has ended")
    parser.add_argument("--unchecked", action="store_true", help="switch the checks off, so that the sandbox is alone")
    parser.add_argument("--light", action="store_true", help="import no framework beforehand")
    given = parser.parse_args()
    if given.log is None:
        sys.exit(_under_strace())
    runs = rows_of(given.out)
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        for run in _run_all(given, Path(place), {(run.kind, run.verb, run.case) for run in runs}):
            runs.append(run)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(asdict(run)) + "\n")
    print_rows(runs)
    sys.exit(int(any(run.scores for run in runs)))


def _under_strace() -> int:
    """Start this program again under strace, if it is installed."""
    with tempfile.TemporaryDirectory(prefix="hostile-log-") as place:
        log = Path(place, "strace")
        command = [sys.executable, "-m", "tests.suites.hostile", *sys.argv[1:], "--log", str(log)]
        if shutil.which("strace") is None:
            print("strace is not here: what is written, connected and started is not watched")
            return subprocess.run(command, check=False).returncode
        return subprocess.run([*watch.strace(log), *command], check=False).returncode


def _run_all(given: argparse.Namespace, place: Path, known: set[tuple[str, str, str]]) -> Iterator[Run]:
    from tests.suites.fuzz import preload

    preload(["onnx"] if given.light else sorted({FRAMEWORKS.get(kind, "pt") for kind in given.classes.split(",")}))
    hugging = bool(HUGGING & {*given.classes.split(",")}) and not given.light
    if hugging:
        from tests.support.timm_helper import declare_torchvision_operators

        declare_torchvision_operators()
        import transformers.models.bert.modeling_bert  # noqa: F401
    verifies = {"convert", "source", "target"} & set(given.verbs.split(","))
    if given.unchecked:
        switch_checks_off()
    first = "import tests.support.unchecked as u; u.switch_checks_off()" if given.unchecked else ""
    first = watch.HUGGING if hugging else first
    helper = watch.start_helper(place, first) if verifies and not given.light else None
    gc.freeze()  # otherwise a garbage collection in a fork copies every page
    log, number = watch.Log(given.log), 0
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        canary = Canary(place / "canary" / "marker", listener.getsockname()[1])
        canary.marker.parent.mkdir()
        for kind in given.classes.split(","):
            found, failure = made(kind, place, canary)
            cases, done = [case for case in found if re.search(given.match, case.name)], 0
            log.calls()  # those that the makers wrote
            if failure:
                yield Run(kind, "the maker", "", time.time(), time.time(), scores={"unmade": failure})
                print(f"{kind}: its maker failed after {len(found)} files\n{failure}", flush=True)
            asked = [*commands(kind, cases, given.verbs.split(","), given.timeout)]
            if given.draw is not None:
                asked = random.Random(f"{given.seed} {kind}").sample(asked, min(given.draw, len(asked)))
            for case, verb, words in asked:
                number += 1
                if number % given.sample or (kind, verb, case.name) in known:
                    continue
                done, folder = done + 1, place / "runs" / str(number)
                folder.parent.mkdir(exist_ok=True)
                for told in (words, arguments(case, verb, ENDING)):  # where it does not end, with that --timeout
                    run = run_command(case, kind, verb, told, folder, canary, helper)
                    watch.score(run, log, place)
                    run.scores = {s: why for s, why in run.scores.items() if s in HARM or not given.unchecked}
                    shutil.rmtree(folder, ignore_errors=True)
                    if "hangs" not in run.scores or verb in ("python", "batch"):
                        break
                if given.progress:
                    print(f"{kind} {verb} {run.code} {run.seconds:.0f} {case.name!a}", flush=True)
                yield run
            print(f"{kind}: {len(cases)} files, {done} commands", flush=True)
    if helper is not None:
        helper.kill()


if __name__ == "__main__":
    main()
