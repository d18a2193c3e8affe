"""Inputs with one fixed value: their syntax, and the models that take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import convert
from convert.errors import UsageError
from convert.request.given_inputs import make_options, parse_fixed_value
from tests.support.onnx_support import info, model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sr=16000", ("sr", 16000)),
        ("scale = 0.5", ("scale", 0.5)),
        ("scale=-1e-3", ("scale", -1e-3)),
        ("flag=true", ("flag", True)),
        ("flag=False", ("flag", False)),
        ("mask=none", ("mask", None)),
        ("mode=bilinear", ("mode", "bilinear")),
        ("mode='16'", ("mode", "16")),
        ("size=[224, 256]", ("size", [224, 256])),
        ("x:float32[n=1..8]", None),
        ("float32[n=1..8,3]", None),
        ("1,3,224,224", None),
    ],
)
def test_text_is_read(text: str, expected: tuple[str, Any] | None) -> None:
    found = parse_fixed_value(text)
    assert found == expected
    assert found is None or expected is None or type(found[1]) is type(expected[1])


@pytest.mark.parametrize("text", ["n=1..8", "n=", "n=..4"])
def test_bounds_are_no_value(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        parse_fixed_value(text)


def test_a_dtype_with_dims_is_no_value() -> None:
    with pytest.raises(UsageError, match="fixes x to a text") as caught:
        parse_fixed_value("x=float32[2,n]")
    assert "x:float32[2,n]" in str(caught.value.hint)


def test_python_gives_values_by_name_and_by_place() -> None:
    array = np.ones((2, 3))
    named = make_options({"x": array, "sr": 8, "mode": "fast", "size": (2, 3), "mask": None}, {}, fixing=True)
    assert named.fixed == {"sr": 8, "mode": "fast", "size": (2, 3), "mask": None}
    assert list(named.examples) == ["x"]
    assert make_options({"mode": "=float32"}, {}, fixing=True).fixed == {"mode": "float32"}
    assert make_options({"x": "float32[2,3]"}, {}, fixing=True).inputs[0].name == "x"
    with pytest.raises(UsageError, match="not a dtype"):
        make_options({"x": "float23"}, {}, fixing=True)
    placed = make_options([3, array, "mode=fast"], {}, fixing=True)
    assert placed.fixed == {0: 3, "mode": "fast"}
    assert list(placed.examples) == [0]


def test_numbers_are_arrays_where_values_cannot_be_fixed() -> None:
    options = make_options({"x": np.ones(2), "rate": 1.0}, {})
    assert sorted(options.examples) == ["rate", "x"]
    with pytest.raises(UsageError, match="fixed value"):
        make_options(["rate=1.0"], {})


def test_an_input_of_an_onnx_model_becomes_a_constant(tmp_path: Path) -> None:
    cast, mul = helper.make_node("Cast", ["sr"], ["c"], to=1), helper.make_node("Mul", ["x", "c"], ["y"])
    onnx.save(model([cast, mul], [info("x", ["n", 2]), info("sr", [1], 7)], [info("y", ["n", 2])]), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "onnx", tmp_path / "out.onnx", inputs=["sr=16000"])
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert [str(i) for i in report.inputs] == ["x: float32[n,2]"]
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
    np.testing.assert_array_equal(session.run(None, {"x": np.ones((3, 2), np.float32)})[0], np.full((3, 2), 16000.0))
    for wrong, said in (("sr=0.5", "tensor of int64"), ("sr=[1,2]", "not"), ("rate=3", "no input 'rate'")):
        with pytest.raises(UsageError, match=said):
            convert.inspect(tmp_path / "m.onnx", inputs=[wrong])
