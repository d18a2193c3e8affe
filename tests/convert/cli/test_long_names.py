"""Names of 100 kB do not flood the output, wherever they occur; JSON has them as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from convert.cli import cli
from convert.outcome.text import LONGEST_LINE
from tests.convert.cli.test_forged_lines import NAMES, VERBS, WORDS, model, printed

pytestmark = pytest.mark.not_core

LONG = {"one word": "n" * 100_000, "many words": "n " * 50_000 + "n"}
SHOWN = {
    **VERBS,
    "nodes": ["inspect", "m.onnx", "--nodes", "*"],
    "converted": ["m.onnx", "--to", "onnx", "-o", "o.onnx", "-v", "--no-verify"],
}
KNOWN = ("nodes", "converted")
"""Verbs that read a model with known operators only."""

long_names = pytest.mark.parametrize("kind", ["one word", pytest.param("many words", marks=pytest.mark.slow)])


def check_short(lines: list[tuple[str, list[str]]]) -> None:
    """Assert that no line is longer than the bound, with the styled text before it, and that there are lines."""
    longest = max(len(line) for _, each in lines for line in each)
    assert 0 < longest <= LONGEST_LINE + 40
    assert sum(len(line) for _, each in lines for line in each) <= 10 * LONGEST_LINE


@long_names
@pytest.mark.parametrize("place", NAMES)
@pytest.mark.parametrize("verb", SHOWN)
def test_names_in_a_model(tmp_path: Path, verb: str, place: str, kind: str) -> None:
    model(tmp_path / "m.onnx", LONG[kind], place, known=verb in KNOWN)
    check_short(printed(tmp_path, SHOWN[verb]))


@long_names
@pytest.mark.parametrize("word", [pytest.param(w, marks=pytest.mark.slow) if w == "an operator" else w for w in WORDS])
def test_words_of_the_command_line(tmp_path: Path, word: str, kind: str) -> None:
    model(tmp_path / "m.onnx", "x", known=True)
    check_short(printed(tmp_path, WORDS[word](LONG[kind])))


def weights(path: Path, name: str) -> Path:
    """Return a file of safetensors with one weight."""
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    return path


@pytest.mark.slow
@long_names
def test_names_in_a_file_of_weights(tmp_path: Path, kind: str) -> None:
    weights(tmp_path / "w.safetensors", LONG[kind])
    check_short(printed(tmp_path, ["inspect", "w.safetensors"]))
    report = json.loads(CliRunner().invoke(cli, ["inspect", str(tmp_path / "w.safetensors"), "--json"]).stdout)
    assert [tensor["name"] for tensor in report["weights"]] == [LONG[kind]]


@pytest.mark.slow
@long_names
@pytest.mark.parametrize("place", ["input", "output", "dim", "node", "initializer"])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_a_verdict(tmp_path: Path, weight: float, place: str, kind: str) -> None:
    """In a process of its own, as libraries print into it."""
    for file, number in (("m.onnx", 1.0), ("other.onnx", weight)):
        model(tmp_path / file, LONG[kind], place, number, known=True)
    command = [sys.executable, "-P", "-m", "convert", "verify", "m.onnx", "other.onnx", "-v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
    texts = [text.decode() for text in (done.stdout, done.stderr)]
    assert done.returncode == (0 if weight == 1 else 3), texts[1][:1000]
    check_short([("", text.splitlines()) for text in texts])


@long_names
@pytest.mark.parametrize("place", ["input", "output", "dim"])
def test_json_has_the_whole_name(tmp_path: Path, place: str, kind: str) -> None:
    path = model(tmp_path / "m.onnx", LONG[kind], place, known=True)
    report = json.loads(CliRunner().invoke(cli, ["inspect", str(path), "--json"]).stdout)
    found = {"input": report["inputs"][0]["name"], "output": report["outputs"][0]["name"],
             "dim": report["inputs"][0]["shape"][0]}  # fmt: skip
    assert found[place] == LONG[kind]


@long_names
def test_json_has_the_whole_message(tmp_path: Path, kind: str) -> None:
    model(tmp_path / "m.onnx", LONG[kind], "node")
    done = CliRunner().invoke(cli, [str(tmp_path / "m.onnx"), "--to", "caffe2", "--json"])
    error = json.loads(done.stdout)["error"]
    assert [problem["node"] for problem in error["problems"]] == [LONG[kind]]
    assert LONG[kind] in error["message"]
