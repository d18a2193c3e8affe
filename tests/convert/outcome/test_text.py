"""Names that move the cursor, reverse the line or colour it are made visible on the terminal, in JSON and on pages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from convert.outcome.text import LONGEST_LINE, LONGEST_WORD, escape, printed, visible, visible_json

HOSTILE = ["\x1b[2J\x1b[32mPASS", "\x9b31m", "a\u202eb", "\u2066x\u2069", "\u061c", "\ufeff", "a\u2028b", "\x7f",
           "\x07", "a\rb", "\ud800", "\U000e0041"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_acts_is_left(text: str) -> None:
    for shown in (visible(text), escape(text), visible_json(json.dumps(text, ensure_ascii=False))):
        assert shown.isprintable()
        assert "\\" in shown
    assert json.loads(visible_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("text", ["plain", "größer 0.5×", "模型", "نموذج", "कि\u200dक", "≥4 → …"])
def test_words_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


def test_pages_escape_markup_too() -> None:
    assert escape('<b a="1">&\x1b') == "&lt;b a=&quot;1&quot;&gt;&amp;\\x1b"


@pytest.mark.parametrize("unit", ["n", "模", "\x1b", "n ", "\n", "\u202e "])
@pytest.mark.parametrize("count", [1, LONGEST_WORD, 2 * LONGEST_LINE])
def test_printed_text_has_bounds(unit: str, count: int) -> None:
    text = f"before {unit * count} behind"
    shown = printed(text)
    assert shown.startswith("before ")
    assert shown.endswith(" behind")
    assert len(shown) <= LONGEST_LINE
    assert max(map(len, shown.split(" "))) <= LONGEST_WORD


def test_the_longest_path_stays_whole() -> None:
    path = "/".join(["directory"] * 409)
    assert len(path) > 4000
    assert printed(f"error: there is no file '{path}'") == f"error: there is no file '{path}'"


def test_the_characters_left_out_are_counted() -> None:
    shown = printed("a" * 50_000 + "b" * 50_000)
    start, count, end = shown.replace("…[", "|").replace(" characters]…", "|").split("|")
    assert set(start) == {"a"}
    assert set(end) == {"b"}
    assert len(start) + int(count.replace(",", "")) + len(end) == 100_000


def hostile_model(path: Path) -> Path:
    name = "x\x1b[2J\u202e\x9b31m"
    ends = [helper.make_tensor_value_info(n, 1, [2, 3]) for n in (name, "y\u2066")]
    node = helper.make_node("Mystery\u202e", [name], ["y\u2066"], name="n\x9b", domain="their.domain")
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("their.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("verb", [["inspect"], ["inspect", "--json"], ["--to", "tf"], ["--to", "tf", "--json"],
                                  ["batch", "--to", "onnx", "-o", "out"]], ids=" ".join)  # fmt: skip
def test_the_command_line_prints_nothing_that_acts(tmp_path: Path, verb: list[str]) -> None:
    path = hostile_model(tmp_path / "m\u202e.onnx")
    command = [sys.executable, "-m", "convert", *verb, str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    shown = (done.stdout + done.stderr).decode()
    assert done.returncode in (0, 1, 4, 5), shown
    assert shown
    assert all(c.isprintable() for line in shown.splitlines() for c in line), shown
