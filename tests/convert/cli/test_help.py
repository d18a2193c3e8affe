"""Help in groups, completion, and the time that both take."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from convert import plugin
from convert.cli import cli
from convert.cli.verb_command import COMMON, SECTIONS, VerbCommand

VERBS = sorted(cli.commands)
FRAMEWORKS = ("torch", "tensorflow", "keras", "onnx", "onnxruntime", "numpy", "rich", "scipy")
WORK = ("convert.outcome.report", "convert.cli.render", "convert.files.output", "convert.rules.table", "json", "email")
"""Modules that a verb needs when it works, and its help does not; together they take longer than click."""


def shown(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_all_of_its_options_once_and_an_example(verb: str) -> None:
    command = cli.commands[verb]
    assert isinstance(command, VerbCommand)
    text = shown(*([] if command.hidden else [verb]))
    assert re.search(r"^Examples?:\n  (ls \*\.onnx \| )?convert ", text, re.MULTILINE)
    for parameter in command.get_params(click.Context(command)):
        if isinstance(parameter, click.Option):
            word = max(parameter.opts, key=len)
            assert len(re.findall(rf"^  (-\w, )?{word}\b[^-]", text, re.MULTILINE)) == 1, word


@pytest.mark.parametrize("verb", ["model", "verify", "batch", "inspect"])
def test_what_is_used_most_comes_first_and_the_rest_in_groups(verb: str) -> None:
    command = cli.commands[verb]
    assert isinstance(command, VerbCommand)
    text = shown(*([] if command.hidden else [verb]))
    titles = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert titles[0] == COMMON
    assert [t for t in titles if t in SECTIONS] == [s for s in SECTIONS if s in titles]
    assert len(command.common) == 5
    assert {"Input", "Verification", "Safety", "Advanced"} <= {*titles, "Verification"}


def completed(*words: str) -> list[tuple[str, str]]:
    """Return the completions of the last word, as type and text."""
    found = ShellComplete(cli, {}, "convert", "_CONVERT_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [(item.type, item.value) for item in found]


def test_completion_of_verbs_formats_files_and_options() -> None:
    assert ("plain", "verify") in completed("ve")
    assert ("file", "mod") in completed("mod")
    assert [value for _, value in completed("model.pt", "--to", "tf")] == ["tf", "tf-frozen", "tflite"]
    assert ("plain", "--opset") in completed("model.pt", "--op")
    assert ("plain", "--opset") in completed("--op")
    assert completed("model.pt", "") == [*(("plain", f) for f in plugin.formats()), ("file", "")]
    assert ("file", "a") in completed("model.pt", "-o", "a")
    assert ("plain", "--seeds") in completed("verify", "a.onnx", "b.onnx", "--se")
    assert ("plain", "nhwc") in completed("model.pt", "--layout", "nh")
    assert ("plain", "pytorch") in completed("ops", "--from", "py")
    assert ("plain", "keras") in completed("batch", "zoo", "--to", "ke")
    assert ("file", "a") in completed("verify", "m.pt", "a")
    assert ("file", "zo") in completed("batch", "zo")


def loaded(words: tuple[str, ...], wanted: tuple[str, ...], folder: Path, before: str = "sys") -> str:
    """Return the last line of a command: which of the `wanted` modules it has imported, besides those of `before`."""
    code = (
        f"import sys, {before}; before = set(sys.modules); sys.argv = ['convert', *{words!r}]\n"
        "from convert.cli import main\n"
        "try: main()\n"
        f"finally: print('loaded', [m for m in {wanted!r} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("help", "verify"), ("m.onnx", "--to", "gguf"), ("vrify",), ("explain", "renamed")],
)
def test_help_and_wrong_usage_import_no_framework(words: tuple[str, ...], tmp_path: Path) -> None:
    """Neither numpy nor terminal libraries are imported, because all of these need names only."""
    assert loaded(words, FRAMEWORKS, tmp_path) == "loaded []"


@pytest.mark.parametrize("words", [("--help",), ("verify", "--help"), ("--version",)])
def test_help_imports_only_what_declares_options(words: tuple[str, ...], tmp_path: Path) -> None:
    assert loaded(words, WORK, tmp_path, before="click") == "loaded []"
