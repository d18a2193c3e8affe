"""The error of a user's rule names the file, the line, and the call."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from convert.errors import BadInput, ConvertError, Unsupported
from convert.reference.kernels.nn import matmul
from convert.rules import Argument, Rules, Schema
from convert.rules.rule_errors import last_line
from convert.rules.user_files import load_rules


def rule_of(text: str, tmp_path: Path) -> Rules:
    """A table with the function `rule` of a user's file."""
    (tmp_path / "my_rules.py").write_text(text)
    schema = Schema((Argument("x"), Argument("y")), (Argument("scale", 1.0),))
    table = Rules("Test", schema=lambda operator: schema)
    table("mine::op")(runpy.run_path(str(tmp_path / "my_rules.py"), run_name="convert_rules_my")["rule"])
    return table


def test_the_line_that_failed_and_the_arguments(tmp_path: Path) -> None:
    table = rule_of(
        "def helper(x):\n    return x.nope\n\ndef rule(g, x, y, *, scale=1.0):\n    return helper(x)\n", tmp_path
    )
    with pytest.raises(ConvertError) as caught:
        table.apply("graph", "mine::op", [np.zeros((2, 3), np.float32), [1, 2]], {"scale": 0.5})
    told = caught.value.message
    assert f"{tmp_path / 'my_rules.py'}:2" in told
    assert "AttributeError" in told
    assert "it was called as rule(g, x=float32[2,3], y=[1, 2], scale=0.5)" in told
    assert "defect" not in caught.value.hint


@pytest.mark.parametrize("runs_framework", [False, True])
@pytest.mark.parametrize("columns", [0, 2])
def test_only_a_framework_may_refuse_what_has_no_elements(runs_framework: bool, columns: int) -> None:
    """In all other tables a rule that fails on it is a defect, above all in the kernels that a verdict relies on."""
    schema = Schema((Argument("a"), Argument("b")))
    table = Rules("Test", schema=lambda operator: schema, runs_framework=runs_framework)
    table("MatMul")(matmul)
    with pytest.raises(ConvertError) as caught:
        table.apply(1, "MatMul", [np.zeros((2, columns)), np.zeros((3, 4))])
    refused = runs_framework and columns == 0
    assert isinstance(caught.value, Unsupported) == refused
    assert ("defect" in caught.value.hint) != refused
    assert ("an input without elements (ValueError: " in str(caught.value)) == refused


def test_a_rule_that_does_not_take_what_comes(tmp_path: Path) -> None:
    table = rule_of("\n\ndef rule(g, x, y, extra, *, scale):\n    return x\n", tmp_path)
    with pytest.raises(ConvertError) as caught:
        table.apply("graph", "mine::op", [1, 2])
    assert "my_rules.py:3" in caught.value.message
    assert "rule(g, x=1, y=2, scale=1.0)" in caught.value.message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = c\n", 2),
        ("def f(:\n    pass\n", 1),
        ("x = 1\n\n\nraise ValueError('mine')\n", 4),
        ("import no_such\n", 1),
    ],
)
def test_the_line_of_a_file_that_does_not_load(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "broken_rules.py"
    path.write_text(text)
    with pytest.raises(BadInput, match=rf"broken_rules\.py, line {line}, failed: "):
        load_rules([path])


def test_a_line_that_is_no_python_is_found_by_its_file_s_name() -> None:
    error = SyntaxError("invalid", ("".join(["rules", ".py"]), 7, 1, "def"))
    assert last_line(error, "".join(["rules.", "py"])) == 7
    assert last_line(error, "others.py") == 0
