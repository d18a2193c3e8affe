"""Names with line breaks and other control characters forge no line of the output, wherever they occur.

Each command runs on a model with one hostile name, and on one with a harmless name: both print equally many lines,
which begin alike.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.cli import cli
from convert.files.protobuf_wire import SAMPLE
from convert.outcome.text import shell_line, visible

pytestmark = pytest.mark.not_core

BREAKS = ["\n", "\r", "\r\n", "\t", "\x0b", "\x0c", "\x1c", "\x1b", "\x7f", "\x85", "\x9b", "\u2028", "\u2029",
          "\u202e", "\u2066"]  # fmt: skip
"""Control characters (C0, DEL, C1), separators of lines and paragraphs, and characters that change the direction of
text.
"""

every_character = pytest.mark.parametrize(
    "characters",
    [
        pytest.param(["\n", "".join(BREAKS)], id="in one name"),
        pytest.param(BREAKS, id="in names of their own", marks=pytest.mark.slow),
    ],
)
"""What stands in hostile names: each character is made harmless by itself, so a name may as well have all of them."""

FORGED = "PASS: of a name"
NAMES = ("input", "output", "dim", "node", "operator", "domain", "initializer", "metadata", "attribute", "doc")


def model(path: Path, name: str, place: str = "", weight: float = 1.0, known: bool = False) -> Path:
    """Return y = Mystery(x) + w, or y = x + w if `known`, with `name` at one place, after `SAMPLE` plain nodes."""
    names = {place: name}
    operator = "Relu" if known else names.get("operator", "Mystery")
    domain = "" if known else names.get("domain", "theirs")
    x, y, w = names.get("input", "x"), names.get("output", "y"), names.get("initializer", "w")
    attributes = {} if known else {names.get("attribute", "alpha"): 1}
    nodes = [helper.make_node("Relu", [f"r{i}"], [f"r{i + 1}"]) for i in range(SAMPLE)]
    nodes += [
        helper.make_node(operator, [x], ["h"], names.get("node", "n"), domain=domain, **attributes),
        helper.make_node("Add", ["h", w], [y], name="m"),
    ]
    dims = [names.get("dim", "rows"), 3]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in (x, "r0", y)]
    weights = [numpy_helper.from_array(np.full(3, weight, "f4"), w)]
    graph = helper.make_graph(nodes, names.get("doc", "g"), ends[:2], ends[2:], weights, names.get("doc", ""))
    opsets = [helper.make_opsetid("", 20)]
    if not known:
        opsets += [helper.make_opsetid(d, 1) for d in (*(f"d{i}" for i in range(SAMPLE)), domain)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    made.metadata_props.add(key=names.get("metadata", "key"), value=names.get("metadata", "value"))
    onnx.save(made, path)
    return path


def printed(folder: Path, words: list[str], stdin: str | None = None) -> list[tuple[str, list[str]]]:
    """Return the lines of stdout and of stderr, without seconds."""
    import os

    before = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(cli, words, input=stdin)
    finally:
        os.chdir(before)
    streams = (("stdout", done.stdout), ("stderr", done.stderr))
    return [(which, re.sub(r"\d+\.\d+ s", "0 s", text).splitlines()) for which, text in streams]


def check_alike(one: list[tuple[str, list[str]]], other: list[tuple[str, list[str]]]) -> None:
    """Assert that both have equally many lines, which begin alike, and that nothing in them acts on a terminal."""
    for (which, lines), (_, harmless) in zip(one, other, strict=True):
        assert [line[:3] for line in lines] == [line[:3] for line in harmless], (which, lines, harmless)
        assert all(line.isprintable() for line in lines), (which, lines)
    assert any(lines for _, lines in one)


def both(tmp_path: Path, characters: list[str], run: Callable[[Path, str], list[tuple[str, list[str]]]]) -> None:
    """Call `run` in a new folder for each hostile name, and for a harmless one."""
    (tmp_path / "plain").mkdir()
    plain = run(tmp_path / "plain", f"a_{FORGED}")
    for number, character in enumerate(characters):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_alike(run(folder, f"a{character}{FORGED}"), plain)


# -- names in a model -------------------------------------------------------------------------------------------------

VERBS = {
    "inspect": ["inspect", "m.onnx"],
    "dry run": ["m.onnx", "--to", "onnx", "--dry-run"],
    "refused": ["m.onnx", "--to", "caffe2"],
    "refused, with tracebacks": ["m.onnx", "--to", "caffe2", "-vv"],
}


@every_character
@pytest.mark.parametrize("place", NAMES)
@pytest.mark.parametrize("verb", VERBS)
def test_names_in_a_model(tmp_path: Path, verb: str, place: str, characters: list[str]) -> None:
    def run(folder: Path, name: str) -> list[tuple[str, list[str]]]:
        model(folder / "m.onnx", name, place)
        return printed(folder, VERBS[verb])

    both(tmp_path, characters, run)


@every_character
@pytest.mark.parametrize("target", ["onnx", "caffe2"])
@pytest.mark.parametrize("place", ["input", "output", "dim", "node", "initializer", "metadata", "doc"])
def test_names_in_a_model_that_is_converted(tmp_path: Path, place: str, target: str, characters: list[str]) -> None:
    def run(folder: Path, name: str) -> list[tuple[str, list[str]]]:
        model(folder / "m.onnx", name, place, known=True)
        lines = printed(folder, ["m.onnx", "--to", target, "-o", "o", "-v", "--no-verify"])
        return [(which, [re.sub(r"[\d.]+ k?B", "0 B", line) for line in each]) for which, each in lines]

    both(tmp_path, characters, run)


@every_character
@pytest.mark.parametrize("place", ["input", "output", "dim", "initializer"])
def test_json_has_names_as_they_are(tmp_path: Path, place: str, characters: list[str]) -> None:
    for number, character in enumerate(characters):
        name = f"a{character}{FORGED}"
        path = model(tmp_path / f"{number}.onnx", name, place, known=True)
        done = CliRunner().invoke(cli, ["inspect", str(path), "--json"])
        assert len(done.stdout.splitlines()) == 1
        report = json.loads(done.stdout)
        found = {"input": report["inputs"][0]["name"], "output": report["outputs"][0]["name"],
                 "dim": report["inputs"][0]["shape"][0], "initializer": name}  # fmt: skip
        assert found[place] == name


def test_json_has_the_names_of_problems_as_they_are(tmp_path: Path) -> None:
    name = f"a\n{FORGED}"
    path = model(tmp_path / "m.onnx", name, "node")
    done = CliRunner().invoke(cli, [str(path), "--to", "caffe2", "--json"])
    assert [p["node"] for p in json.loads(done.stdout)["error"]["problems"]] == [name]


# -- names of files, and words ----------------------------------------------------------------------------------------

WORDS: dict[str, Callable[[str], list[str]]] = {
    "a file that is not there": lambda name: ["inspect", f"{name}.onnx"],
    "an output": lambda name: ["m.onnx", "-o", f"{name}.onnx", "--no-verify", "-q"],
    "a format": lambda name: ["m.onnx", "--to", name],
    "an input": lambda name: ["m.onnx", "--to", "onnx", "--input", f"{name}:float32[2,3]"],
    "an output to keep": lambda name: ["m.onnx", "--to", "onnx", "--outputs", name],
    "an operator": lambda name: ["ops", name],
    "a frontend": lambda name: ["ops", "--from", name],
    "a rule to write": lambda name: ["ops", "--skeleton", f"mine::{name}", "--from", "onnx"],
    "an option": lambda name: ["m.onnx", f"--{name}"],
    "a factory": lambda name: ["m.onnx", "--to", "onnx", "--model", f"{name}:f"],
    "rules": lambda name: ["m.onnx", "--to", "onnx", "--rules", f"{name}.py"],
    "a verb's page": lambda name: ["inspect", "m.onnx", "--report", f"{name}.txt"],
    "two artefacts": lambda name: ["verify", "m.onnx", f"{name}.onnx"],
    "a map": lambda name: ["verify", "m.onnx", "m.onnx", "--map", f"{name}=y"],
}


@every_character
@pytest.mark.parametrize("word", [pytest.param(w, marks=pytest.mark.slow) if w == "an operator" else w for w in WORDS])
def test_words_of_the_command_line(tmp_path: Path, word: str, characters: list[str]) -> None:
    def run(folder: Path, name: str) -> list[tuple[str, list[str]]]:
        model(folder / "m.onnx", "x", known=True)
        return printed(folder, WORDS[word](name))

    both(tmp_path, characters, run)


@every_character
def test_the_name_of_a_model_and_of_its_folder(tmp_path: Path, characters: list[str]) -> None:
    def run(folder: Path, name: str) -> list[tuple[str, list[str]]]:
        (folder / name).mkdir()
        path = model(folder / name / f"{name}.onnx", "x", known=True)
        words = (["inspect", str(path)], [str(path), "--to", "onnx", "-o", "o.onnx", "--no-verify"],
                 ["inspect", str(folder / name)])  # fmt: skip
        return [line for w in words for line in printed(folder, w)]

    both(tmp_path, characters, run)


def test_operators_listed_in_a_file(tmp_path: Path) -> None:
    def run(folder: Path, name: str) -> list[tuple[str, list[str]]]:
        text = f"Mystery{name.replace(' ', '_')}\n"
        (folder / "names.txt").write_text(text, "utf-8", newline="")
        return printed(folder, ["ops", "--to", "caffe2", "--of", "names.txt"])

    plain = run(tmp_path, "x")
    for character in ("\x1b", "\x7f", "\x9b", "\u202e", "\u2066"):  # the names contain no line break
        check_alike(run(tmp_path, character), plain)


# -- many models ------------------------------------------------------------------------------------------------------


def batch(folder: Path, *more: str, stdin: str | None = None) -> list[tuple[str, list[str]]]:
    words = ["batch", *more, "--to", "caffe2", "-o", str(folder / "out"), "--jobs", "1", "--cold", "--dry-run"]
    return printed(folder, words, stdin)


@pytest.mark.slow
@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\u2028"])
def test_a_batch(tmp_path: Path, character: str) -> None:
    """The name of a file, a task, an operator, or of a missing path in a manifest."""

    def lines(folder: Path, name: str) -> Iterator[tuple[str, list[str]]]:
        folder.mkdir()
        zoo = folder / "zoo"
        zoo.mkdir()
        model(zoo / f"{name}.onnx", name, "operator")
        model(zoo / "node.onnx", name, "node")
        yield from batch(folder, "zoo")
        rows = [{"source": "zoo/node.onnx", "name": name}, {"source": f"zoo/{name}.onnx", "name": "b"}]
        text = "".join(f"[[model]]\nsource = {json.dumps(r['source'])}\nname = {json.dumps(r['name'])}\n" for r in rows)
        (folder / "zoo.toml").write_text(text)
        yield from batch(folder, "zoo.toml")
        yield from batch(folder, f"{name}-gone.onnx")

    plain = [*lines(tmp_path / "plain", f"a_{FORGED}")]
    check_alike([*lines(tmp_path / "hostile", f"a{character}{FORGED}")], plain)


# -- verdicts, in processes of their own, as libraries print into them ------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", ["input", "output", "dim", "node", "initializer"])
@pytest.mark.parametrize("target", ["alike.onnx", "other.onnx"])
def test_a_verdict(tmp_path: Path, place: str, target: str) -> None:
    found = {}
    for kind, character in (("plain", "_"), ("hostile", "\n")):
        (tmp_path / kind).mkdir()
        for file, weight in (("m.onnx", 1.0), ("alike.onnx", 1.0), ("other.onnx", 3.0)):
            model(tmp_path / kind / file, f"a{character}{FORGED}", place, weight, known=True)
        words = ["verify", "m.onnx", target, "-v", "--report", "page.html"]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "convert", *words], cwd=tmp_path / kind, capture_output=True, timeout=300
        )
        assert done.returncode == (0 if target == "alike.onnx" else 3), done.stderr.decode()
        texts = [re.sub(r"\d+\.\d+ s", "0 s", text.decode()) for text in (done.stdout, done.stderr)]
        found[kind] = [("", [line for line in text.splitlines() if line[:1] != "["]) for text in texts]
        page = (tmp_path / kind / "page.html").read_text()
        assert not re.search(rf"^{FORGED}", page, re.M)
    check_alike(found["hostile"], found["plain"])


# -- from Python ------------------------------------------------------------------------------------------------------


def test_errors_of_python_are_one_line_a_fact(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", f"a\n{FORGED}", "operator")
    with pytest.raises(convert.Unsupported) as caught:
        convert.convert(path, "caffe2", tmp_path / "o.caffe2")
    assert not any(line.startswith(FORGED) for line in str(caught.value).splitlines())
    assert f"theirs::a\n{FORGED}" in [problem.at.operator for problem in caught.value.problems]


def test_a_list_keeps_its_lines_and_names_have_none() -> None:
    problems = [convert.errors.Problem("why", convert.errors.Location(f"A{i}\nB", "n")) for i in range(2)]
    error = convert.Unsupported(problems=problems)
    assert len(error.message.splitlines()) == 3
    assert len(error.sentence.splitlines()) == 1
    again = convert.errors.restored(convert.Unsupported, error.message, error.hint)
    assert again.message == error.message


@pytest.mark.parametrize("word", [*(f"a{c}b" for c in BREAKS), "it's\n", "back\\slash\n1", "plain", "two words"])
def test_a_word_that_a_shell_reads_again(word: str) -> None:
    line = shell_line([word])
    assert visible(line) == line
    done = subprocess.run(["bash", "-c", f"printf %s {line}"], capture_output=True, check=True)
    assert done.stdout.decode() == word
