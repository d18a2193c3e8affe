"""Rule files are loaded once in a process, and refused if they are missing, fail or have changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import convert
from convert.errors import BadInput, UsageError
from convert.reference.table import kernel
from convert.rules.user_files import load_code, load_rules

RULES = """
from convert.reference import kernel

@kernel("test_user_rules::Half")
def half(outputs, x, *, shift=0.0):
    return x / 2 + shift
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file with a kernel, and restore its table after the test."""
    monkeypatch.setattr(kernel, "entries", dict(kernel.entries))
    (tmp_path / "rules.py").write_text(RULES)
    return tmp_path / "rules.py"


def test_a_file_is_loaded_once(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_rules([rules]) == (str(rules),)
    monkeypatch.chdir(rules.parent)
    assert load_rules(["rules.py", rules]) == (str(rules), str(rules))
    assert "test_user_rules::Half" in kernel


def test_a_file_that_has_changed_is_refused(rules: Path) -> None:
    load_rules([rules])
    os.utime(rules, ns=(1, 1))
    with pytest.raises(UsageError, match=r"rules\.py:\d+ registers .* for test_user_rules::Half, and .* has one"):
        load_rules([rules])


@pytest.mark.parametrize(("text", "why"), [(None, "there is no rules file"), ("1 / 0", "ZeroDivisionError")])
def test_what_is_missing_or_fails_is_bad_input(text: str | None, why: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "rules.py").write_text(text)
    with pytest.raises(BadInput, match=why):
        convert.inspect(Path(__file__).parents[3] / "fixtures" / "mnist_cnn.onnx", rules=[tmp_path / "rules.py"])


@pytest.mark.slow
@pytest.mark.not_core
def test_both_sides_of_a_verification_have_them(rules: Path, tmp_path: Path) -> None:
    """Source and target are run in processes of their own, which know the operator only from the file."""

    def model(path: Path, shift: float) -> Path:
        nodes = [helper.make_node("Half", ["x"], ["h"], domain="test_user_rules", shift=shift),
                 helper.make_node("Tanh", ["h"], ["y"])]  # fmt: skip
        ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 4])] for n in ("x", "y")]
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test_user_rules", 1)]
        graph = helper.make_graph(nodes, "net", *ends)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
        return path

    right, wrong = model(tmp_path / "right.onnx", 0.25), model(tmp_path / "wrong.onnx", 0.2501)
    same = convert.verify(right, right, rules=[rules]).verdict
    other = convert.verify(right, wrong, rules=[rules]).verdict
    assert same is not None
    assert other is not None
    assert (same.status, other.status) == ("PASS", "FAIL")
    assert same.outputs[0].twin == 0
    assert np.isfinite(other.outputs[0].error)


# -- files of code ----------------------------------------------------------------------------------------------------


def test_a_file_of_code_is_a_module_of_its_stem(tmp_path: Path) -> None:
    """A module next to a file of rules is found too, and a changed file is run again."""
    (tmp_path / "beside_own_nets.py").write_text("WIDTH = 3\n")
    file = tmp_path / "own_nets.py"
    file.write_text("from beside_own_nets import WIDTH\nclass Net: pass\n")
    assert load_code([file]) == (str(file),)
    try:
        assert sys.modules["own_nets"].WIDTH == 3
        assert sys.modules["own_nets"].Net.__module__ == "own_nets"
        file.write_text("WIDTH = 41\n")
        os.utime(file, ns=(1, 1))
        load_code([file])
        assert sys.modules["own_nets"].WIDTH == 41
    finally:
        del sys.modules["own_nets"], sys.modules["beside_own_nets"]
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize("name", ["json.py", "numpy.py", "convert.py"])
def test_a_file_of_code_hides_no_installed_module(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    before = sys.modules.get(name.removesuffix(".py"))
    with pytest.raises(UsageError, match="would hide the module") as error:
        load_code([tmp_path / name])
    assert "another name" in error.value.hint
    assert sys.modules.get(name.removesuffix(".py")) is before


def test_a_file_of_code_that_fails_leaves_no_module(tmp_path: Path) -> None:
    (tmp_path / "own_broken.py").write_text("x = 1\nraise ValueError('on purpose')\n")
    with pytest.raises(BadInput, match=r"file of code .*own_broken\.py, line 2, failed: ValueError: on purpose"):
        load_code([tmp_path / "own_broken.py"])
    assert "own_broken" not in sys.modules
    with pytest.raises(BadInput, match="there is no file of code") as error:
        load_code([tmp_path / "own_brokn.py"])
    assert error.value.hint == f"did you mean --code {tmp_path / 'own_broken.py'}?"
