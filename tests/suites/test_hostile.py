"""Hostile files under strace: a sample of those that need no framework by default, the others behind `long`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner

from convert.processes.sandbox import CALLS, FILES, available_measures
from tests.suites import hostile as suite
from tests.suites import hostile_watch as watch
from tests.suites.hostile import MAKERS
from tests.suites.hostile_files.case import Canary, Case
from tests.support.printed_lines import foreign_line

pytestmark = [
    pytest.mark.not_core,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which watches the system calls, is not here"),
]

ROOT = Path(__file__).resolve().parents[2]


def hostile(*words: str) -> str:
    """Run the suite in a process of its own; the test fails if a score is not 0."""
    command = [sys.executable, "-m", "tests.suites.hostile", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_some_files_do_no_harm_when_they_are_inspected() -> None:
    told = hostile("--classes", "caffe2,places", "--verbs", "inspect", "--draw", "11", "--light")
    assert "caffe2: 95 files, 11 commands" in told


confined = pytest.mark.skipif(
    not {FILES, CALLS} <= set(available_measures()),
    reason="the kernel has no Landlock or no seccomp, and so no sandbox that could hold what no check has refused",
)
UNCHECKED = ("torchscript", "faces", "exported", "tensorflow")
"""The classes whose files can do anything if the checks of PyTorch's archives and TensorFlow's graphs are off."""


@confined
@pytest.mark.slow
def test_some_files_that_no_check_has_refused_do_no_harm_in_the_sandbox() -> None:
    pytest.importorskip("torch", reason="PyTorch makes and reads the files")
    pytest.importorskip("tensorflow", reason="the list of its operators is switched off too")
    words = ("--unchecked", "--match", "aten.save|from_file", "--timeout", "4")
    told = hostile("--classes", "torchscript", "--verbs", "inspect,target", *words)
    assert "torchscript: 4 files, 8 commands" in told
    assert "'5'" not in told, "a check that is not switched off has refused one"


@confined
@pytest.mark.long
@pytest.mark.parametrize("kind", UNCHECKED)
def test_no_file_that_no_check_has_refused_does_harm_in_the_sandbox(kind: str) -> None:
    """Run every file of these classes when it is read, and when it runs as a source and as a target."""
    pytest.importorskip("torch", reason="some of the files are PyTorch's")
    pytest.importorskip("tensorflow", reason="some of the files are TensorFlow's")
    hostile("--classes", kind, "--unchecked", "--verbs", "inspect,convert,target,python", "--timeout", "4")


@pytest.mark.parametrize(("end", "told"), [(ZeroDivisionError, "ZeroDivisionError"), (None, "ended with -6")])
def test_files_made_before_their_maker_failed_are_tried(
    end: type[Exception] | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maker(folder: Path, canary: Canary) -> Iterator[Case]:
        yield Case("first", folder / "first.onnx", kept=("a",), swap=(folder / "a", folder / "b"))
        if end is None:
            os.abort()
        raise end

    monkeypatch.setitem(suite.MAKERS, "odd", maker)
    (case,), failure = suite.made("odd", tmp_path, Canary(tmp_path / "marker", 1))
    assert case == Case(
        "first", tmp_path / "odd" / "first.onnx", kept=("a",), swap=(tmp_path / "odd" / "a", tmp_path / "odd" / "b")
    )
    assert told in failure


def test_what_a_command_did_is_read_from_a_log_that_grows(tmp_path: Path) -> None:
    """A call that began before the log was read counts once it has ended; a call before the command never counts."""
    log = watch.Log(tmp_path / "strace")

    def grow(text: str) -> None:
        with log.path.open("a") as file:
            file.write(
                text + f'9 4.0 openat(AT_FDCWD</tmp>, "{log.path}-mark-{log.marks + 1}", O_RDONLY) = -1 ENOENT\n'
            )

    first, second = (suite.Run("odd", name, "convert", at, at + 1) for name, at in (("first", 1.0), ("second", 2.0)))
    grow('7 0.5 mkdir("/etc/before", 0777) = 0\n7 1.5 mkdir("/etc/no", 0777 <unfinished ...>\n')
    watch.score(first, log, tmp_path)
    grow("7 2.5 <... mkdir resumed>) = 0\n7 2.6 connect(3, {sa_family=AF_INET, sin_port=htons(53)}, 16) = 0\n")
    watch.score(second, log, tmp_path)
    assert first.scores == {}
    assert {kind: told.split("(")[0].split(",")[0] for kind, told in second.scores.items()} == {
        "wrote": "mkdir /etc/no",
        "connected": "3",
    }


def test_lines_of_a_batch_with_all_its_files_are_known(tmp_path: Path) -> None:
    """The page, the results for CI and the changes since another batch are named on lines of their own."""
    from convert.cli import cli

    told = ""
    for name, more in (("a", []), ("b", ["--compare-with", "old", "--junit", "j.xml", "--report", "p.html"])):
        shutil.copy(ROOT / "fixtures" / "mnist_cnn.onnx", tmp_path / f"{name}.onnx")
        words = ["batch", str(tmp_path / f"{name}.onnx"), "--to", "onnx", "--no-verify", "--jobs", "1"]
        with contextlib.chdir(tmp_path):
            done = CliRunner().invoke(cli, [*words, "-o", "new" if more else "old", *more])
        assert done.exit_code == 0, done.output
        told = done.output
    assert {"new: 1", "gone: 1", "junit: j.xml", "report: p.html"} <= {*told.splitlines()}
    assert foreign_line(told) is None
    assert foreign_line("forged") == "forged"


@pytest.mark.parametrize(("verb", "scores"), [("convert", ["lines"]), ("python", [])])
def test_a_long_line_of_the_command_line_counts(verb: str, scores: list[str], tmp_path: Path) -> None:
    run = suite.Run("odd", "a", verb, 1.0, code=5, told=f"error: there is no {'n' * 100_000}\n")
    suite.judge(run, Canary(tmp_path / "marker", 1))
    assert [*run.scores] == scores


def test_the_table_of_promises_names_every_class_and_only_tests_that_exist() -> None:
    table = (ROOT / "convert" / "files" / "tests.md").read_text()
    named = set(re.findall(r"`(tests/[\w/]+\.py)", table))
    assert [name for name in named if not (ROOT / name).is_file()] == []
    classes = [words.split(",") for words in re.findall(r"--classes ([a-z0-9,]+)", table)]
    assert {name for words in classes for name in words} == set(MAKERS)


def test_rows_of_before_are_kept_and_a_cut_one_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    runs = [suite.Run("odd", "a", "convert", 1.0, code=5), suite.Run("odd", "", "", 1.0, scores={"unmade": "why"})]
    out.write_text("".join(json.dumps(asdict(run)) + "\n" for run in runs) + '{"kind": "odd", "ca')
    assert suite.rows_of(out) == runs[:1]
    assert out.read_text().endswith("}\n")
    assert suite.rows_of(tmp_path / "none") == []


@pytest.mark.long
@pytest.mark.parametrize("kind", MAKERS)
def test_files_do_no_harm(kind: str) -> None:
    pytest.importorskip("torch", reason="some of the files are PyTorch's")
    pytest.importorskip("tensorflow", reason="some of the files are TensorFlow's")
    hostile("--classes", kind, "--sample", "5")
