"""The rules of `frontends/tensorflow/ops/quantized/fake_quant.py` against TensorFlow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.rules import tf_op

from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.report import Report
from convert.passes.tidy.fold import fold_constants
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, run, with_batch
from tests.support.cases import Case, case, f32, f64, params

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")


HALVES = (np.arange(-9, 40, dtype=np.float32) / 2 * np.float32(6 / 255)).reshape(7, 7)
"""Halves and wholes of a step of the range from 0 to 6."""
CHANNELS = f32(5, 3, low=-3, high=3)
LOWS = np.array([-1, -0.3, 0], np.float32)
HIGHS = np.array([1.5, 0.9, 0], np.float32)
RANGE = (np.float32(-1.1), np.float32(0.7))

ROWS = [
    case("FakeQuantWithMinMaxArgs", f32(3, 5, low=-8, high=8)),
    case("FakeQuantWithMinMaxArgs", f32(3, 5), min=-1.3, max=0.7, num_bits=4, narrow_range=True).named("narrow"),
    *(
        case("FakeQuantWithMinMaxArgs", HALVES, min=low, max=6.0, num_bits=bits).named(f"halves {bits} {low}")
        for bits in (2, 8, 16)
        for low in (0.0, -1.0)
    ),
    case("FakeQuantWithMinMaxVars", f32(3, 5), -1.0, 1.5),
    case("FakeQuantWithMinMaxVars", HALVES, 0.0, 6.0).named("halves"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), 0.5, 1.5).named("above zero"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), 0.0, 0.0).named("nothing"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), np.float32(-1), np.float32(1.5)).named("run time"),
    case("FakeQuantWithMinMaxVars", HALVES, np.float32(0), np.float32(6), num_bits=7, narrow_range=True).named(
        "run time, narrow"
    ),
    case("FakeQuantWithMinMaxVars", f32(3, 5), np.float32(0), np.float32(0)).named("run time, nothing"),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS, LOWS.tolist(), HIGHS.tolist()),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS, LOWS.tolist(), HIGHS.tolist(), num_bits=12).named("12 bits"),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS[:3], LOWS, HIGHS).named("run time"),
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE),
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE, range_given=True, num_bits=5, narrow_range=True),
    case("QuantizeAndDequantizeV2", f32(3, 5), np.float32(0), np.float32(1.5), range_given=True, signed_input=False),
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE, round_mode="HALF_UP", num_bits=4),
    *(
        case("QuantizeAndDequantizeV2", HALVES, -6.0, 6.0 * 127 / 128, range_given=True, round_mode=mode).named(mode)
        for mode in ("HALF_UP", "HALF_TO_EVEN")
    ),
    case("QuantizeAndDequantizeV2", f32(3, 5), -1.1, 0.7, range_given=True, num_bits=16).named("16 bits"),
    case("QuantizeAndDequantizeV2", f32(3, 5), -1.1, 0.7, range_given=True, num_bits=20).named("20 bits"),
    case("QuantizeAndDequantizeV2", f64(3, 5), f64(5), f64(5), axis=1).named("each column"),
    case("QuantizeAndDequantizeV2", f32(3, 5), f32(5), f32(5), axis=1).named("each column, float32"),
    case("QuantizeAndDequantizeV2", f64(3, 5), np.float64(-1), np.float64(1), range_given=True).named("float64"),
    case("QuantizeAndDequantizeV3", f32(3, 5), *RANGE, 6),
    case("QuantizeAndDequantizeV4", f32(3, 5), *RANGE, range_given=True),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)


RNG = np.random.default_rng(5)


def _read(function: Any, *specs: Any) -> tuple[Any, ir.Model]:
    concrete = tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
    model = frontend.read(Source("tf-function-object", model=concrete), Options(), Report("convert"))
    fold_constants(model)
    return concrete, model


@pytest.mark.parametrize(("bits", "narrow"), [(8, False), (8, True), (4, False), (16, False)])
def test_halves_of_a_step_have_the_level_that_tensorflow_gives_them(bits: int, narrow: bool) -> None:
    """40 ranges with whole and half steps and random numbers, as weights and as data."""
    low, high = -RNG.uniform(0, 3, 40).astype(np.float32), RNG.uniform(0.01, 6, 40).astype(np.float32)
    low[:2], high[:2] = [0, -1], [6, 1]
    step = (high - low) / np.float32(2**bits - 1 - narrow)
    halves = (RNG.integers(-(2**bits), 2**bits, (300, 1)) / 2).astype(np.float32) * step
    x = np.concatenate([halves, RNG.uniform(-4, 7, (300, 40)).astype(np.float32)])
    kind = {"num_bits": bits, "narrow_range": narrow}

    def of(data: Any) -> list[Any]:
        channels = tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel(inputs=data, min=low, max=high, **kind)
        whole = tf.raw_ops.FakeQuantWithMinMaxVars(inputs=data, min=low[2], max=high[2], **kind)
        return [channels, whole, tf.raw_ops.FakeQuantWithMinMaxArgs(inputs=data, min=low[3], max=high[3], **kind)]

    function = lambda data: {f"y{i}": y for i, y in enumerate([*of(data), *of(tf.constant(x))])}  # noqa: E731
    concrete, model = _read(function, tf.TensorSpec(x.shape, tf.float32, "x"))
    expected = concrete(tf.constant(x))
    for name, got in run(model, {"x": x}).items():
        np.testing.assert_array_equal(got, expected[name].numpy())
    assert Counter(n.op_type for n in model.graph)["DequantizeLinear"] == 6


def test_a_quantized_weight_is_stored_as_bytes() -> None:
    """This includes weights of a depthwise convolution, whose channels are reordered."""
    plain, deep = (RNG.uniform(-1, 1, (3, 3, 4, n)).astype(np.float32) for n in (6, 2))
    ends = lambda n: (tf.constant([-1.0] * n), tf.constant(np.linspace(0.5, 1.5, n, dtype=np.float32)))  # noqa: E731

    def function(x: Any) -> Any:
        quantized = tf.quantization.fake_quant_with_min_max_vars_per_channel
        return {
            "y": tf.nn.conv2d(x, quantized(tf.constant(plain), *ends(6)), 1, "SAME"),
            "z": tf.nn.depthwise_conv2d(x, quantized(tf.constant(deep), *ends(2)), [1, 1, 1, 1], "SAME"),
        }

    concrete, model = _read(function, tf.TensorSpec([2, 5, 5, 4], tf.float32, "x"))
    x = RNG.uniform(-1, 1, (2, 5, 5, 4)).astype(np.float32)
    for name, got in run(model, {"x": x}).items():
        np.testing.assert_allclose(got, concrete(tf.constant(x))[name].numpy(), rtol=1e-5, atol=1e-6)
    weights = [n.inputs[1] for n in model.graph if n.op_type == "Conv"]
    assert [w.producer().op_type for w in weights] == ["DequantizeLinear"] * 2
    assert {w.producer().inputs[0].const_value.dtype for w in weights} == {ir.DataType.UINT8}


@pytest.mark.long
def test_a_quantized_network_agrees_in_float64(tmp_path: Any) -> None:
    """Ranges are constants, variables or computed; means of quantized numbers are halves of a step."""
    import convert

    class Network(tf.Module):
        def __init__(self) -> None:
            self.weight = tf.Variable(RNG.uniform(-1, 1, (3, 3, 8, 16)).astype(np.float32))
            self.low, self.high = tf.Variable(-1.1), tf.Variable(5.3)

        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 8], tf.float32, "x")])
        def serve(self, x: Any) -> Any:
            quantized = tf.quantization.fake_quant_with_min_max_vars
            y = tf.nn.conv2d(quantized(x, -3.0, 3.0), quantized(self.weight, -1.0, 1.0, narrow_range=True), 1, "SAME")
            y = quantized(tf.nn.avg_pool2d(quantized(y, self.low, self.high), 2, 2, "VALID"), self.low, self.high)
            y = tf.reduce_mean(y, [1, 2])
            return {"y": quantized(y, tf.reduce_min(y), tf.reduce_max(y), num_bits=16)}

    network = Network()
    tf.saved_model.save(network, str(tmp_path / "network"), signatures=network.serve)
    report = convert.convert(tmp_path / "network", "onnx", tmp_path / "network.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


@pytest.mark.skipif(tf.__version__.startswith("2.20."), reason="TensorFlow 2.20's converter writes no four bits")
def test_integers_of_four_bits_of_tensorflow_lite_end_where_they_end(tmp_path: Path) -> None:
    """Four-bit integers are stored in bytes, whose range is wider."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is the oracle")
    steps = np.arange(-30, 30)[:, None] + [-0.4, 0.0, 0.3]  # no halves, which runtimes round in either direction
    x = (steps.ravel() * 2 / 15).astype(np.float32)
    fake = tf.quantization.fake_quant_with_min_max_args
    function = tf.function(lambda x: fake(x, -1.0, 1.0, num_bits=4), input_signature=[tf.TensorSpec(x.shape)])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    path = tmp_path / "levels.tflite"
    path.write_bytes(converter.convert())
    lite = interpreter.Interpreter(model_path=str(path))
    lite.allocate_tensors()
    lite.set_tensor(lite.get_input_details()[0]["index"], x)
    lite.invoke()
    expected = lite.get_tensor(lite.get_output_details()[0]["index"])
    model = frontend.read(Source("tflite", path=path), Options(), Report("convert"))
    (got,) = run(model, {model.graph.inputs[0].name: x}).values()
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert len(np.unique(got)) == 16


@pytest.mark.parametrize(("signed", "bits"), [(True, 0), (True, 62), (False, 63), (True, 2**31 - 1)])
def test_bits_that_tensorflow_refuses(signed: bool, bits: int) -> None:
    """The levels of a billion bits would fill the memory."""
    options = {"signed_input": signed, "range_given": True, "narrow_range": False, "axis": -1}
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_bits"):
        tf.raw_ops.QuantizeAndDequantizeV3(input=[1.0], input_min=-1.0, input_max=2.0, num_bits=bits, **options)
    g = Graph()
    given = [g.input("x", ir.DataType.FLOAT, (1,)), g.const(-1.0), g.const(2.0), g.const(bits, ir.DataType.INT32)]
    with pytest.raises(Unsupported, match="which TensorFlow refuses"):
        tf_op.apply(g, "QuantizeAndDequantizeV3", given, options)


@pytest.mark.parametrize("bits", [1, 17, 2**31 - 1])
def test_bits_of_fake_quantization_that_tensorflow_refuses(bits: int) -> None:
    options = {"min": -1.0, "max": 2.0, "narrow_range": False, "num_bits": bits}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        tf.raw_ops.FakeQuantWithMinMaxArgs(inputs=[1.0], **options)
    g = Graph()
    with pytest.raises(Unsupported, match="which TensorFlow refuses"):
        tf_op.apply(g, "FakeQuantWithMinMaxArgs", [g.input("x", ir.DataType.FLOAT, (1,))], options)
