"""Test input and output names that some framework does not accept, through every backend and by its users' API.

Every input has its own value and its own weight, so that two exchanged inputs are noticed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import convert
from convert import plugin
from convert.outcome.report import Report
from tests.support.caffe2_support import needs_caffe2
from tests.support.marks import slow
from tests.support.run_targets import SUFFIXES, run_target

PAIRS = [
    ("x.1", "x_0"),  # TensorFlow sorts the names before it replaces the dot
    ("a b", "a-b"),
    ("a;b", "a@b"),
    ("a.b", "a_b"),
    ("a:0", "a"),
    ("a/b", "a"),
    ("/a", "a"),
    ("a//b", "a/b"),
    ("a/", "a"),
    ("9x", "n9x"),
    ("x", "X"),
    ("a", "A_1"),
    ("self", "inputs"),
    ("class", "def"),
    ("None", "none"),
    ("training", "args"),
    ("kwargs", "name"),
    ("_x", "x"),
    ("é", "e"),
    ("入力", "入 力"),
    ("input_1", "input_0"),
    ("x10", "x9"),
    ("x\\y", "x|y"),
    ("x>y", "x,y"),
    ("#x", "%x"),
    ("x" * 300, "x" * 299 + "y"),
    ("serving_default_x", "x"),
    ("output_0", "model"),
]
"""Pairs of input names; a framework often turns one into the other."""

HOSTILE = list(dict.fromkeys(name for pair in PAIRS for name in pair))


def model(inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    """Return a model whose output i is input i times -2, plus the next input."""
    nodes = [helper.make_node("Constant", [], ["two!c"], value_float=-2.0)]
    for i, name in enumerate(inputs):
        nodes.append(helper.make_node("Mul", [name, "two!c"], [f"!{i}"]))
        nodes.append(helper.make_node("Add", [f"!{i}", inputs[(i + 1) % len(inputs)]], [outputs[i]]))
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in side] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def check(inputs: list[str], form: str, folder: Path, *, verify: bool) -> Report:
    """Convert to a format, run with the names in the report, and assert every output."""
    if form == "caffe2" and (reason := needs_caffe2()):
        pytest.skip(reason)
    outputs = [f"{name}_next" if len(name) < 200 else f"y{i}" for i, name in enumerate(inputs)]
    onnx.save(model(inputs, outputs), folder / "source.onnx")
    path = folder / f"m.{SUFFIXES[form]}"
    report = convert.convert(folder / "source.onnx", form, path, verify=verify)
    called = {side: {n: report.renamed[side].get(n, n) for n in names}
              for side, names in (("inputs", inputs), ("outputs", outputs))}  # fmt: skip
    for side, names in called.items():
        assert len(set(names.values())) == len(inputs)
        for old, new in names.items():
            assert (old == new) != any(f"{old!r} is called {new!r}" in note for note in report.notes), (side, old)
    generator = np.random.default_rng(0)
    arrays = {n: generator.standard_normal((2, 3)).astype(np.float32) for n in inputs}
    (found,) = run_target(form, path, [{called["inputs"][n]: a for n, a in arrays.items()}])
    for i, name in enumerate(outputs):
        want = arrays[inputs[i]] * np.float32(-2) + arrays[inputs[(i + 1) % len(inputs)]]
        np.testing.assert_allclose(found[called["outputs"][name]], want, rtol=1e-6, err_msg=repr(name))
    return report


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(SUFFIXES))
def test_all_at_once(form: str, tmp_path: Path) -> None:
    """Convert a model with all names at once. Legal names stay, and the verification maps changed names back."""
    report = check(HOSTILE, form, tmp_path, verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert bool(report.renamed["inputs"]) == (form not in ("onnx", "caffe2"))
    for name in ("input_1", "input_0", "x10", "x9", "training", "model"):
        assert name not in report.renamed["inputs"]


@pytest.mark.long
@pytest.mark.parametrize("form", sorted(SUFFIXES))
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0][:9]!r} {pair[1][:9]!r}")
def test_pair(pair: tuple[str, str], form: str, tmp_path: Path) -> None:
    check(list(pair), form, tmp_path, verify=False)


@pytest.mark.parametrize("form", slow(sorted(SUFFIXES), "tflite"))
def test_an_input_that_is_an_output(form: str, tmp_path: Path) -> None:
    """A format with one list of names gives the name to one of the two values only."""
    if form == "caffe2" and (reason := needs_caffe2()):
        pytest.skip(reason)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a.b", "a.b", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["a.b"], ["y"])], "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(proto, tmp_path / "source.onnx")
    path = tmp_path / f"m.{SUFFIXES[form]}"
    report = convert.convert(tmp_path / "source.onnx", form, path, verify=False)
    value = np.array([1, -2], np.float32)
    (found,) = run_target(form, path, [{report.renamed["inputs"].get("a.b", "a.b"): value}])
    np.testing.assert_array_equal(found[report.renamed["outputs"].get("a.b", "a.b")], value)
    np.testing.assert_array_equal(found["y"], -value)


def test_every_format_says_what_it_takes() -> None:
    """Every format states which names it accepts; a legal name stays unchanged."""
    for form in plugin.formats().values():
        once = form.names.of(HOSTILE, ["y"])
        again = form.names.of(list(once.inputs.values()), ["y"])
        assert all(k == v for k, v in again.inputs.items()), form.name
