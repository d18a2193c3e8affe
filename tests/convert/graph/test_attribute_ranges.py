"""Attributes with an invalid element type, or a count beyond any runtime, are reported before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert import limits
from convert.errors import BadInput, ConvertError, ResourceLimit, Unsupported
from convert.graph import attribute_ranges
from tests.support.marks import slow

HELD = {"w": np.ones((4, 4, 3, 3), "f4"), "s": np.ones(4, "f4"), "k": np.array(4), "r": np.ones((1, 4), "f4"),
        "n": np.zeros(1, np.int64), "q": np.ones((4, 4), np.int8), "t": np.ones((1, 4), "f4")}  # fmt: skip

OPERATORS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "Cast": (["x"], {}, "to"),
    "Bernoulli": (["x"], {}, "dtype"),
    "RandomNormalLike": (["x"], {}, "dtype"),
    "HannWindow": (["k"], {}, "output_datatype"),
    "LayerNormalization": (["x", "s"], {"axis": 1}, "stash_type"),
    "LRN": (["x"], {}, "size"),
    "Conv": (["x", "w"], {}, "group"),
    "ConvTranspose": (["x", "w"], {}, "group"),
    "DepthToSpace": (["x"], {}, "blocksize"),
    "SpaceToDepth": (["x"], {}, "blocksize"),
    "GroupNormalization": (["x", "s", "s"], {}, "num_groups"),
    "LpPool": (["x"], {"kernel_shape": [2, 2]}, "p"),
    "LpNormalization": (["x"], {}, "p"),
    "RoiAlign": (["x", "r", "n"], {}, "output_height"),
    "DequantizeLinear": (["q", "t"], {"axis": 0}, "block_size"),
}
LISTS = {
    "Conv": (["x", "w"], ("strides", "dilations", "kernel_shape")),
    "MaxPool": (["x"], ("strides", "dilations", "kernel_shape")),
    "AveragePool": (["x"], ("strides", "kernel_shape")),
}
NUMBERS = (-1, 1 << 31, 1 << 40, (1 << 63) - 1)
ENUMS = ("to", "dtype", "output_datatype", "stash_type")


def _model(path: Path, operator: str, names: list[str], attributes: dict[str, Any], channels: int = 4) -> Path:
    node = helper.make_node(operator, names, ["y"], **attributes)
    held = [numpy_helper.from_array(HELD[name], name) for name in dict.fromkeys(names) if name in HELD]
    kind = TensorProto.FLOAT
    ends = (
        [helper.make_tensor_value_info("x", kind, [1, channels, 8, 8])],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    graph = helper.make_graph([node], "g", *ends, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def _cases() -> list[tuple[str, list[str], dict[str, Any]]]:
    found = []
    for operator, (names, attributes, name) in OPERATORS.items():
        for number in (*NUMBERS, *((99,) if name in ENUMS else ())):
            found.append((operator, names, {**attributes, name: number}))
    for operator, (names, lists) in LISTS.items():
        usual = {} if operator == "Conv" else {"kernel_shape": [2, 2]}
        for name in lists:
            found += [(operator, names, {**usual, name: [number, 1]}) for number in NUMBERS]
    return found


def _refusal(path: Path, target: str, folder: Path) -> ConvertError | None:
    """Return why the model cannot be converted; None if it can."""
    try:
        convert.convert(path, target, folder / ("out.keras" if target == "keras" else "out"), verify=False, force=True)
    except ConvertError as error:
        return error
    return None


@pytest.mark.parametrize("target", ["onnx", "caffe2"])
def test_numbers_out_of_range(target: str, tmp_path: Path) -> None:
    """The error blames the file, whether ONNX's inference or our check finds it first."""
    for operator, names, attributes in _cases():
        error = _refusal(_model(tmp_path / "m.onnx", operator, names, attributes), target, tmp_path)
        assert isinstance(error, (BadInput, ResourceLimit)), (operator, attributes, error)
        assert operator in error.message, (operator, attributes, error)


@pytest.mark.parametrize("axis", [4, -5, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Concat", "Flatten", "ArgMax", "Split"])
@pytest.mark.parametrize("target", slow(("caffe2", "tf-frozen", "keras", "torch"), "tf-frozen", "keras", "torch"))
def test_an_axis_that_there_is_not(operator: str, axis: int, target: str, tmp_path: Path) -> None:
    more = {"num_outputs": 1} if operator == "Split" else {}
    path = _model(tmp_path / "m.onnx", operator, ["x"], {"axis": axis, **more})
    error = _refusal(path, target, tmp_path)
    if operator == "Flatten" and axis == 4:
        assert error is None
    elif error is not None:  # one remaining dim, or one input, needs no axis
        assert isinstance(error, (BadInput, Unsupported)), error
        assert "rule failed" not in error.message


@pytest.mark.not_core
@pytest.mark.parametrize("size", [1, 3, 9, 33])
@pytest.mark.parametrize("target", slow(("torch", "tf-frozen", "keras"), "tf-frozen", "keras"))
def test_a_window_wider_than_the_channels(size: int, target: str, tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", "LRN", ["x"], {"size": size, "alpha": 0.5}, channels=5)
    suffix = {"torch": "m.pt2", "tf-frozen": "m.pb", "keras": "m.keras"}[target]
    verdict = convert.convert(path, target, tmp_path / suffix).verdict
    assert verdict is not None
    assert verdict.status == "PASS"


@pytest.mark.not_core
@pytest.mark.parametrize("target", ["torch-code", "tf-frozen", "keras"])
def test_a_window_without_end_is_no_wider_than_the_channels(target: str, tmp_path: Path) -> None:
    path = _model(tmp_path / "m.onnx", "LRN", ["x"], {"size": (1 << 31) - 1}, channels=5)
    name = {"torch-code": "m", "tf-frozen": "m.pb", "keras": "m.keras"}[target]
    convert.convert(path, target, tmp_path / name, verify=False)


def test_a_window_over_many_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _model(tmp_path / "m.onnx", "LRN", ["x"], {"size": 101}, channels=100)
    monkeypatch.setattr(limits, "LRN_CHANNELS", 100)
    with pytest.raises(ResourceLimit, match="LRN: a window of 101 channels, and 100 is the limit"):
        convert.convert(path, "onnx", tmp_path / "out.onnx", verify=False)


@pytest.mark.not_core
def test_indices_of_maxima_in_wide_windows(tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[30_000, 30_000])
    ends = [helper.make_tensor_value_info("x", 1, ["n", 1, "h", "w"])]
    outputs = [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("i", 7, None)]
    onnx.save(
        helper.make_model(
            helper.make_graph([node], "g", ends, outputs), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
        ),
        tmp_path / "m.onnx",
    )
    with pytest.raises(ResourceLimit, match="windows of 900,000,000 elements"):
        convert.convert(tmp_path / "m.onnx", "tf-frozen", tmp_path / "m.pb", verify=False)


def test_every_count_of_the_standard_is_known() -> None:
    """Every attribute that is an element type or a count has a range."""
    known = {*attribute_ranges._ELEMENT_TYPES, *attribute_ranges._COUNTS}
    names = {name for schema in onnx.defs.get_all_schemas() if not schema.domain for name in schema.attributes}
    no_counts = {"type", "left_window_size", "right_window_size"}  # a text, and positions in a mask
    assert {name for name in names if "type" in name or name.endswith("size")} <= known | no_counts
    assert {name for name in names if name.startswith(("num_", "max_", "min_"))} <= known
