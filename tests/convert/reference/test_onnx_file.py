"""ONNX files evaluated in float64 by this project, independently of the frontend that is compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from convert import plugin
from convert.errors import Unsupported
from convert.reference.onnx_file import evaluate_file
from tests.frontends.onnx.test_function_attributes import CASES, X
from tests.support.onnx_support import array, info, model, run_ort


def close(got: Any, wanted: Any) -> None:
    """The float64 result against onnxruntime's float32."""
    assert got.dtype == (np.float64 if wanted.dtype == np.float32 else wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_functions_are_called_with_their_attributes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "frontend_for", None)  # the evaluator that judges the frontend must not use it
    (found,) = evaluate_file(CASES[name], [{"x": X}])
    for got, wanted in zip(found.values(), run_ort(CASES[name], {"x": X}), strict=True):
        close(got, wanted)


def node(operator: str, *more: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, ["x", *more], ["y"], **attributes)


CONSTANTS = [array("s", [1.0, 2.0, 0.5]), array("v", [0.5, 1.5, 2.0]), array("two", 2.0), array("axes", [1], np.int64)]
ROW = [array("w", np.random.default_rng(1).normal(size=(5, 3, 2, 2)))]

# Operators that have changed since, at an earlier opset.
OLD: list[tuple[onnx.NodeProto, int]] = [
    (node("Softmax"), 11),
    (node("Softmax", axis=2), 12),
    (node("LogSoftmax", axis=0), 9),
    (node("Softmax", axis=1), 13),
    (node("Hardmax"), 11),
    (node("Hardmax", axis=0), 9),
    (node("BatchNormalization", "s", "s", "s", "v", epsilon=1e-3), 7),
    (node("BatchNormalization", "s", "s", "s", "v"), 9),
    (node("BatchNormalization", "s", "s", "s", "v"), 14),
    (node("Clip", min=-0.5, max=0.25), 10),
    (node("Slice", starts=[1], ends=[3], axes=[1]), 9),
    (node("Pad", pads=[0, 0, 1, 0, 0, 0, 0, 2], mode="reflect"), 10),
    (node("ReduceMean", axes=[1, 2], keepdims=0), 13),
    (node("ReduceSum", axes=[1]), 11),
    (node("ReduceSum", "axes"), 13),
    (node("ReduceLogSumExp", axes=[3]), 11),
    (node("Unsqueeze", axes=[0]), 11),
    (node("Split", axis=1, split=[3]), 11),
    (node("Dropout", ratio=0.25), 10),
    (node("AveragePool", kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1), 7),
    (node("MaxPool", kernel_shape=[3, 2], strides=[2, 1]), 8),
    (node("Conv", "w", pads=[1, 0, 0, 1]), 9),
    (node("HardSigmoid", alpha=0.3), 6),
    (node("Mul", "two"), 7),
    (node("ArgMax", axis=3), 11),
    (node("Mod", "two", fmod=1), 10),
    (node("Elu", alpha=0.4), 6),
]


@pytest.mark.parametrize(("made", "opset"), OLD, ids=lambda v: getattr(v, "op_type", v))
def test_operators_mean_what_they_did_at_their_opset(made: onnx.NodeProto, opset: int) -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 4, 5)).astype(np.float32)
    kind = onnx.TensorProto.INT64 if made.op_type == "ArgMax" else onnx.TensorProto.FLOAT
    weights = [w for w in (*CONSTANTS, *ROW) if w.name in made.input]
    proto = model([made], [info("x", x.shape)], [info("y", None, kind)], weights, opset=opset, ir_version=7)
    (found,) = evaluate_file(proto, [{"x": x}])
    close(found["y"], run_ort(proto, {"x": x})[0])


@pytest.mark.parametrize(
    ("made", "opset", "weights"),
    [
        (node("Upsample", "scales"), 9, [array("scales", [1.0, 1.0, 2.0, 2.0])]),
        (node("Add", "s", broadcast=1, axis=1), 6, [CONSTANTS[0]]),
        (node("PRelu", "s"), 6, [CONSTANTS[0]]),
        (node("Gelu"), 19, []),
    ],
    ids=["Upsample", "Add", "PRelu", "Gelu"],
)
def test_what_the_evaluator_would_take_for_something_else_is_refused(
    made: onnx.NodeProto, opset: int, weights: Sequence[onnx.TensorProto]
) -> None:
    proto = model([made], [info("x", [2, 3, 4, 5])], [info("y", None)], weights, opset=opset)
    with pytest.raises(Unsupported, match=made.op_type if opset < 19 else "no such operator"):
        evaluate_file(proto, [{"x": np.zeros((2, 3, 4, 5), np.float32)}])


def test_outputs_end_at_the_first_feed_that_cannot_be_evaluated() -> None:
    proto = model([node("MatMul", "w")], [info("x", ["n", "k"])], [info("y", ["n", 2])], [array("w", np.ones((3, 2)))])
    good, bad = ({"x": np.ones((1, size), np.float32)} for size in (3, 4))
    assert len(evaluate_file(proto, [good, bad, good])) == 1
    with pytest.raises(Unsupported):
        evaluate_file(proto, [bad, good])


def test_inputs_with_default_values_and_constants_are_what_the_file_says(tmp_path: Path) -> None:
    """This includes weights beside the file, dtypes given by name, and a domain spelled out."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value_float=0.1),
        helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT, domain="ai.onnx"),
        helper.make_node("Add", ["x", "c"], ["h"]),
        helper.make_node("Mul", ["h", "f"], ["m"]),
        helper.make_node("Add", ["m", "w"], ["y"]),
    ]
    weights = [array("w", np.random.default_rng(0).normal(size=(2, 600)))]
    inputs = [info("x", [2, 600]), info("i", [600], onnx.TensorProto.INT64), info("w", [2, 600])]
    proto = model(nodes, inputs, [info("y", [2, 600])], weights, opset=13)
    feeds = {"x": np.ones((2, 600), np.float32), "i": np.arange(600)}
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0)
    exact = (1 + np.float64(np.float32(0.1))) * feeds["i"] + onnx.numpy_helper.to_array(weights[0]).astype(np.float64)
    (found,) = evaluate_file(path, [feeds])
    np.testing.assert_allclose(found["y"], exact, rtol=1e-15)
