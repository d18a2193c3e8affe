"""Half-precision models as TensorFlow Lite models: stored in float16, computed in float32."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import Unsupported
from convert.outcome.verdict import PASS
from tests.backends.tensorflow.lite.test_quantized import f32, operators_of
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

WEIGHT = (f32(8, 3, 3, 3) / 4).astype(np.float16)


def model(kind: int, weight: np.ndarray, *, inner: int = 0) -> onnx.ModelProto:
    """Return a convolution and later operators in a dtype; `inner`: the dtype is used only between casts."""
    values = ("a", "b") if inner else ("x", "y")
    nodes = [
        helper.make_node("Conv", [values[0], "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Mul", ["r", "r"], [values[1]], name="square"),
    ]
    if inner:
        nodes = [
            helper.make_node("Cast", ["x"], ["a"], to=inner, name="before"),
            *nodes,
            helper.make_node("Cast", ["b"], ["y"], to=kind, name="behind"),
        ]
    graph = helper.make_graph(
        nodes,
        "halves",
        [helper.make_tensor_value_info("x", kind, ["n", 3, 6, 6])],
        [helper.make_tensor_value_info("y", kind, ["n", 8, 6, 6])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def expected(x: np.ndarray) -> np.ndarray:
    import onnxruntime

    proto = model(TensorProto.FLOAT, WEIGHT.astype(np.float32))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_float16_is_stored_and_given_as_such(tmp_path: Path) -> None:
    path = encode(graph_of(model(TensorProto.FLOAT16, WEIGHT)), tmp_path)
    x = f32(2, 3, 6, 6).astype(np.float16)
    (got,) = run(path, {"x": x}).values()
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, expected(x.astype(np.float32)), rtol=1e-3, atol=1e-3)
    assert ("DEQUANTIZE", ["float16"], ["float32"]) in operators_of(path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_computed_in_halves_inside_is_in_float32(tmp_path: Path, dtype: str) -> None:
    kind, weight = getattr(TensorProto, dtype.upper()), WEIGHT.astype(getattr(ml_dtypes, dtype, np.float16))
    path = encode(graph_of(model(TensorProto.FLOAT, weight, inner=kind)), tmp_path)
    x = f32(2, 3, 6, 6)
    (got,) = run(path, {"x": x}).values()
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected(x), rtol=2e-2, atol=2e-2)


def test_ends_of_bfloat16_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no inputs and outputs of bfloat16: x, y"):
        encode(graph_of(model(TensorProto.BFLOAT16, WEIGHT.astype(ml_dtypes.bfloat16))), tmp_path)


@pytest.mark.slow
def test_a_model_in_float16_is_verified_with_a_note(tmp_path: Path) -> None:
    onnx.save(model(TensorProto.FLOAT16, WEIGHT), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "tflite", tmp_path / "m.tflite")
    assert report.verdict is not None
    assert report.verdict.status == PASS
    assert "float16 of the source becomes float32" in " ".join(map(str, report.notes))
