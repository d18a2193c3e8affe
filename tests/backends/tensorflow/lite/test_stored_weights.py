"""Constants that stay in 8 bits next to operators that compute in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.backends.tensorflow.lite.test_quantized import f32, onnxruntime_outputs, operators_of
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(0)


def dynamic(weight: np.ndarray, zero: np.ndarray) -> onnx.ModelProto:
    """Return a product as onnxruntime's dynamic quantization writes it."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "q_zero", "w_zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["q_scale", "w_scale"], ["scale"]),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
    ]
    constants = {"w": weight, "w_zero": zero, "w_scale": np.float32(0.01)}
    graph = helper.make_graph(
        nodes,
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 48])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 100)])
def test_a_dynamically_quantized_weight_stays_in_8_bits(tmp_path: Path, dtype: type, zero: int) -> None:
    # A quarter of the range, so that onnxruntime's 16-bit sums do not overflow on processors without VNNI.
    weight: np.ndarray = (zero + RNG.integers(-32, 32, (64, 48))).astype(dtype)
    proto = dynamic(weight, np.array(zero, dtype))
    path = encode(graph_of(proto), tmp_path)
    assert [given for name, given, _ in operators_of(path) if name == "DEQUANTIZE"] == [["int8"]]
    x = f32(5, 64)
    (got,) = run(path, {"x": x}).values()
    np.testing.assert_allclose(got, onnxruntime_outputs(proto, {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_a_weight_of_all_256_numbers_stays_in_8_bits(tmp_path: Path) -> None:
    weight = RNG.integers(0, 256, (64, 48)).astype(np.uint8)
    weight[0, :2] = 0, 255
    path = encode(graph_of(dynamic(weight, np.array(0, np.uint8))), tmp_path)
    assert [given for name, given, _ in operators_of(path) if name == "DEQUANTIZE"] == [["int8"]]
    x = f32(5, 64)
    (got,) = run(path, {"x": x}).values()
    rounded = dynamic_by_hand(x, weight.astype(np.float64)) * 0.01
    np.testing.assert_allclose(got, rounded, rtol=1e-4, atol=1e-4)


def dynamic_by_hand(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return DynamicQuantizeLinear computed by ONNX's text, and the product of its results."""
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = np.float32(high - low) / np.float32(255)
    zero = np.clip(np.round(-low / scale), 0, 255)
    return (np.clip(np.round(x / scale) + zero, 0, 255) - zero).astype(np.float64) @ weight * scale


@pytest.mark.slow
def test_a_quantized_model_of_keras_keeps_its_weights_in_8_bits(tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(48, activation="relu"), keras.layers.Dense(40)]
    model = keras.Sequential([keras.Input((64,), name="x"), *layers])
    model.quantize("int8")
    model.save(tmp_path / "m.keras")
    path = encode(graph_of(tmp_path / "m.keras"), tmp_path / "lite")
    assert [given for name, given, _ in operators_of(path) if name == "DEQUANTIZE"] == [["int8"], ["int8"]]
    x = f32(5, 64)
    (got,) = run(path, {"x": x}).values()
    np.testing.assert_allclose(got, model.predict(x, verbose=0), rtol=1e-5, atol=1e-5)
