"""Two artefacts of the user: the pairing of inputs and outputs, and the messages about their weights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

from convert.cli import cli

pytestmark = pytest.mark.not_core  # every test starts programs with children, which takes seconds

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
Ends = Sequence[tuple[str, int, Sequence[int | str]]]


def invoke(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


def verdict(*args: str | Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(invoke("verify", *args, "--json").stdout)
    return told


def weight(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(rows * 100 + columns).standard_normal((rows, columns)) * scale).astype(np.float32)


def save(
    path: Path, nodes: Sequence[onnx.NodeProto], inputs: Ends, outputs: Ends, weights: Mapping[str, np.ndarray]
) -> Path:
    graph = helper.make_graph(
        nodes, "net", *([helper.make_tensor_value_info(*end) for end in ends] for ends in (inputs, outputs)),
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def difference(
    path: Path,
    names: Sequence[str] = ("a", "b", "y"),
    order: Sequence[int] = (0, 1),
    dtype: int = FLOAT,
    batch: int | str = "batch",
    scale: float = 1.0,
) -> Path:
    """Return Tanh(a · w) − b · v, which is another function if a and b are swapped."""
    a, b, y = names
    nodes = [helper.make_node("MatMul", [a, "w"], ["p"]), helper.make_node("Tanh", ["p"], ["q"])]
    given = b if dtype == FLOAT else "wide"
    if dtype != FLOAT:
        nodes.append(helper.make_node("Cast", [b], ["wide"], to=FLOAT))
    nodes += [helper.make_node("MatMul", [given, "v"], ["r"]), helper.make_node("Sub", ["q", "r"], [y])]
    ends = [(a, FLOAT, [batch, 4]), (b, dtype, [batch, 4])]
    return save(
        path, nodes, [ends[i] for i in order], [(y, FLOAT, [batch, 3])],
        {"w": weight(4, 3, scale), "v": weight(4, 3)},
    )  # fmt: skip


def noted(told: dict[str, Any]) -> list[tuple[str, str]]:
    """The codes and texts of a report's notes."""
    return [(note["code"], note["text"]) for note in told["notes"]]


def test_names_are_what_pairs(tmp_path: Path) -> None:
    """Another order means nothing if the names are the same."""
    told = verdict(difference(tmp_path / "one.onnx"), difference(tmp_path / "two.onnx", order=(1, 0)))
    assert (told["verdict"]["status"], told["notes"]) == ("PASS", [])


@pytest.mark.slow
@pytest.mark.parametrize("names", [("A", "b", "Y"), ("serving_default_a:0", "b:0", "y:0")])
def test_names_that_a_format_changed_are_the_same(tmp_path: Path, names: tuple[str, str, str]) -> None:
    told = verdict(difference(tmp_path / "one.onnx"), difference(tmp_path / "two.onnx", names, (1, 0)))
    assert told["verdict"]["status"] == "PASS"
    assert ("paired-otherwise", f"output 'y' is paired with {names[2]!r}") in noted(told)


@pytest.mark.slow
def test_other_names_are_paired_by_place_with_a_note(tmp_path: Path) -> None:
    one, two = difference(tmp_path / "one.onnx"), difference(tmp_path / "two.onnx", ("left", "right", "out"))
    told = verdict(one, two)
    assert told["verdict"]["status"] == "PASS"
    assert any(code == "paired-by-place" and "a = left, b = right" in text for code, text in noted(told))
    assert told["renamed"] == {"inputs": {"a": "left", "b": "right"}, "outputs": {"y": "out"}}
    swapped = difference(tmp_path / "swapped.onnx", ("left", "right", "out"), (1, 0))
    wrong = verdict(one, swapped)
    assert (wrong["verdict"]["status"], wrong["verdict"]["at_fault"]) == ("FAIL", "")
    right = verdict(one, swapped, "--map", "a=left", "--map", "b=right")
    assert right["verdict"]["status"] == "PASS"
    assert not any(code == "paired-by-place" and text.startswith("inputs") for code, text in noted(right))


def test_what_does_not_pair_is_a_question_to_the_user(tmp_path: Path) -> None:
    """The exit code is 2, and the error has both lists and the option."""
    one = difference(tmp_path / "one.onnx")
    three = save(
        tmp_path / "three.onnx", [helper.make_node("Sum", ["p", "q", "r"], ["y"])],
        [(n, FLOAT, ["batch", 3]) for n in "pqr"], [("y", FLOAT, ["batch", 3])], {},
    )  # fmt: skip
    done = invoke("verify", one, three)
    assert done.exit_code == 2
    assert "the inputs cannot be paired" in done.stderr
    assert "a: float32[batch,4], b: float32[batch,4] → y: float32[batch,3]" in done.stderr
    assert "p: float32[batch,3], q: float32[batch,3], r: float32[batch,3]" in done.stderr
    assert "--map left=right" in done.stderr
    for text in ("a=nothing", "nothing=a", "a", "=a"):
        assert invoke("verify", one, one, "--map", text).exit_code == 2
    assert invoke("verify", one, one, one, "--map", "a=b").exit_code == 2


def two_outputs(path: Path, outputs: Sequence[str], columns: Sequence[int] = (3, 5)) -> Path:
    """Return, for each output, x times a matrix with this many columns."""
    nodes = [helper.make_node("MatMul", ["x", f"w{c}"], [o]) for o, c in zip(outputs, columns, strict=True)]
    ends = [(o, FLOAT, ["batch", c]) for o, c in zip(outputs, columns, strict=True)]
    return save(path, nodes, [("x", FLOAT, ["batch", 4])], ends, {f"w{c}": weight(4, c) for c in columns})


@pytest.mark.slow
def test_outputs_are_told_apart_by_their_shapes(tmp_path: Path) -> None:
    one = two_outputs(tmp_path / "one.onnx", ["logits", "boxes"])
    told = verdict(one, two_outputs(tmp_path / "two.onnx", ["out_0", "out_1"], (5, 3)))
    assert told["verdict"]["status"] == "PASS"
    assert any(code == "paired-by-place" and "logits = out_1, boxes = out_0" in text for code, text in noted(told))


@pytest.mark.slow
def test_an_output_more_is_noted_and_one_less_is_a_question(tmp_path: Path) -> None:
    one = two_outputs(tmp_path / "one.onnx", ["y"], [3])
    two = two_outputs(tmp_path / "two.onnx", ["aux", "y"], [5, 3])
    told = verdict(one, two)
    assert told["verdict"]["status"] == "PASS"
    assert any(code == "not-compared" and text.endswith("two.onnx only: aux") for code, text in noted(told))
    assert invoke("verify", two, one).exit_code == 2
    told = verdict(two, one, "--map", "aux=")
    assert told["verdict"]["status"] == "PASS"
    assert [o["name"] for o in told["verdict"]["outputs"]] == ["y"]


def test_another_dtype_of_an_input_is_given_the_same_numbers(tmp_path: Path) -> None:
    one, two = difference(tmp_path / "one.onnx", dtype=INT64), difference(tmp_path / "two.onnx", dtype=INT32)
    told = verdict(one, two)
    assert told["verdict"]["status"] == "PASS"
    assert any(code == "paired-otherwise" and "'b' is int32" in text for code, text in noted(told))
    done = invoke("verify", one, difference(tmp_path / "three.onnx"))
    assert done.exit_code == 2
    assert "input 'b' differs" in done.stderr


@pytest.mark.slow
def test_another_dtype_of_an_output_is_a_difference(tmp_path: Path) -> None:
    paths = []
    for dtype in (INT64, INT32):
        nodes = [helper.make_node("ArgMax", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=dtype)]
        paths.append(save(tmp_path / f"{dtype}.onnx", nodes, [("x", FLOAT, [9, 4])], [("y", dtype, [1, 4])], {}))
    told = verdict(*paths)["verdict"]
    assert (told["status"], told["at_fault"]) == ("FAIL", "")
    assert "dtype int32 where the source has int64" in told["reason"]


@pytest.mark.parametrize(("theirs", "ours"), [(3, "batch"), ("batch", 3)])
def test_a_size_that_one_side_fixes_is_the_one_that_is_compared(
    tmp_path: Path, theirs: int | str, ours: int | str
) -> None:
    told = verdict(difference(tmp_path / "one.onnx", batch=ours), difference(tmp_path / "two.onnx", batch=theirs))
    assert told["verdict"]["status"] == "PASS"
    found = [text for code, text in noted(told) if code == "limited-sizes"]
    assert any("batch = 3" in text for text in found) == (theirs == 3)


@pytest.mark.slow
def test_weights_that_differ_are_said_first(tmp_path: Path) -> None:
    one = difference(tmp_path / "one.onnx")
    told = verdict(one, difference(tmp_path / "two.onnx", scale=1.05))["verdict"]
    assert told["status"] == "FAIL"
    assert told["reason"].startswith("weights differ: 1 of 2 tensors (w by 0.05 of its size); y: error")
    # Names and order differ. The location of an error that is not in the weights is still named.
    three = save(
        tmp_path / "three.onnx",
        [helper.make_node("Transpose", ["W"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["a", "t"], ["p"]),
         helper.make_node("Sigmoid", ["p"], ["q"]), helper.make_node("MatMul", ["b", "V"], ["r"]),
         helper.make_node("Sub", ["q", "r"], ["y"])],
        [(n, FLOAT, ["batch", 4]) for n in "ab"], [("y", FLOAT, ["batch", 3])],
        {"W": np.ascontiguousarray(weight(4, 3).T), "V": weight(4, 3)},
    )  # fmt: skip
    told = verdict(one, three)["verdict"]
    assert told["status"] == "FAIL"
    assert "weights differ" not in told["reason"]
    assert told["divergence"]["operator"] == "Tanh"


def pool(path: Path, layout: str, channels: int = 3, same: bool = False) -> Path:
    """Return a mean over pixels and sums of channels, for images with channels first or last."""
    shape = ["batch", channels, 8, 8] if layout == "nchw" else ["batch", 8, 8, channels]
    before = [] if layout == "nchw" else [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2])]
    nodes = [*before, helper.make_node("GlobalAveragePool", ["t" if before else "x"], ["g"]),
             helper.make_node("Flatten", ["g"], ["y"])]  # fmt: skip
    return save(path, nodes, [("x", FLOAT, shape)], [("y", FLOAT, ["batch", channels])], {})


def test_another_layout_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    one, two = pool(tmp_path / "one.onnx", "nchw"), pool(tmp_path / "two.onnx", "nhwc")
    done = invoke("verify", one, two)
    assert done.exit_code == 2
    assert "input 'x' has another layout" in done.stderr
    assert "--layout nhwc" in done.stderr
    assert verdict(one, two, "--layout", "nhwc")["verdict"]["status"] == "PASS"
