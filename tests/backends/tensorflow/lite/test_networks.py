"""Networks as TensorFlow Lite models: recurrent layers of any length, and whole networks in fewer bits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from convert.frontends.tensorflow.lite import runner
from onnx import TensorProto, helper, numpy_helper

import convert
from convert import api
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify as run_verify
from convert.request.options import Options
from convert.request.source import Source
from tests.support.marks import slow
from tests.support.tensorflow_lite_helper import encode, graph_of, run
from tests.support.tensorflow_networks import Net

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(time: int | str, hidden: int = 6) -> onnx.ModelProto:
    """Three layers over x [time, batch, 5]: bidirectional with lengths, backward, and forward from a state."""
    draw, nodes, weights = np.random.default_rng(0), [], []
    layers = {"LSTM": ("bidirectional", ["n"]), "GRU": ("reverse", []), "RNN": ("forward", ["", "h"])}
    for operator, (direction, more) in layers.items():
        ways, rows = 1 + (direction == "bidirectional"), GATES[operator] * hidden
        names = [f"{operator}_{part}" for part in "wrb"]
        for name, shape in zip(names, [(ways, rows, 5), (ways, rows, hidden), (ways, 2 * rows)], strict=True):
            weights.append(numpy_helper.from_array(draw.normal(0, 0.4, shape).astype(np.float32), name))
        outputs = [operator, f"{operator}_h", *(["LSTM_c"] if operator == "LSTM" else [])]
        attributes = {"hidden_size": hidden, "direction": direction}
        nodes.append(helper.make_node(operator, ["x", *names, *more], outputs, name=f"/{operator}", **attributes))
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [time, "batch", 5]),
        helper.make_tensor_value_info("n", TensorProto.INT32, ["batch"]),
        helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, "batch", hidden]),
    ]
    outputs = [onnx.ValueInfoProto(name=name) for node in nodes for name in node.output]
    graph = helper.make_graph(nodes, "recurrent", inputs, outputs, weights)
    opset = helper.make_opsetid("", 20)
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[opset], ir_version=10))


@pytest.mark.parametrize("time", slow(["time", 7], "time"), ids=["any length", "seven steps"])
def test_recurrent_layers_are_of_builtins(time: int | str, tmp_path: Path) -> None:
    import onnxruntime

    proto, draw = recurrent(time), np.random.default_rng(1)
    path = encode(graph_of(proto), tmp_path)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for steps, batch in ((7, 3), (7, 1), *([(1, 2)] if time == "time" else [])):
        feed = {
            "x": draw.standard_normal((steps, batch, 5), np.float32),
            "n": draw.integers(1, steps + 1, batch, np.int32),
            "h": draw.standard_normal((1, batch, 6), np.float32),
        }
        found = run(path, feed)
        for output, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
            np.testing.assert_allclose(found[output.name], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize("stored", ["float16", "int8 weights", "int8"])
def test_recurrent_layers_in_fewer_bits_are_at_the_floor_of_their_simulation(stored: str, tmp_path: Path) -> None:
    from convert.reference.quantized import simulate

    hidden = 40
    proto, draw = recurrent(7, hidden), np.random.default_rng(1)
    samples = {
        "x": draw.standard_normal((24, 7, 1, 5), np.float32),
        "n": draw.integers(1, 8, (24, 1), np.int32),
        "h": draw.uniform(-1, 1, (24, 1, 1, hidden)).astype(np.float32),
    }
    ways = {
        "float16": Options(dtype="float16"),
        "int8 weights": Options(quantize="int8"),
        "int8": Options(quantize="int8", calibrate=samples),
    }
    path = encode(graph_of(proto), tmp_path, ways[stored])
    assert runner.stored(Source("tflite", path)) == stored
    feed = {
        "x": samples["x"][:, :, 0].swapaxes(0, 1),
        "n": samples["n"][:, 0],
        "h": samples["h"][:, :, 0].swapaxes(0, 1),
    }
    found, simulated = run(path, feed), simulate(graph_of(proto), [feed], stored)
    for name, exact in simulated.exact[0].items():
        floor, error = (np.sqrt(np.mean((x - exact) ** 2)) for x in (simulated.rounded[0][name], found[name]))
        assert 0.5 < error / floor < 2, (name, error, floor)


@pytest.mark.slow
def test_calibrated_loops_of_fixed_sizes_are_written_out(tmp_path: Path) -> None:
    """TensorFlow's calibrator ends the process at a loop of fixed sizes that reads a row by its counter."""
    proto, draw = recurrent(7), np.random.default_rng(1)
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "batch":
                dim.dim_value = 1
    del proto.graph.value_info[:]
    samples = {
        "x": draw.standard_normal((24, 7, 1, 5), np.float32),
        "n": draw.integers(1, 8, (24, 1), np.int32),
        "h": draw.uniform(-1, 1, (24, 1, 1, 6)).astype(np.float32),
    }
    path = encode(graph_of(proto), tmp_path, Options(quantize="int8", calibrate=samples))
    assert runner.stored(Source("tflite", path)) == "int8"
    target, method = Source("tflite", path), VerifyMethod(arrays={name: array[0] for name, array in samples.items()})
    verdict = run_verify(api.open_source(proto), target, graph_of(proto), Options(), method)
    assert verdict.status == "PASS", verdict.reason


def test_padded_pools_do_not_stretch_the_range_of_activations(tmp_path: Path) -> None:
    """One pool follows negative numbers, the other a Relu. Padding with −∞ would make one quantization step cover all
    numbers.
    """
    net = Net()
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    y = net.add("MaxPool", net.conv("x", 3, 8, activation=""), **pool)
    y = net.add("MaxPool", net.conv(y, 8, 8), **pool)
    y = net.add("MatMul", net.add("Flatten", net.add("GlobalAveragePool", y)), net.weight(8, 5))
    graph = helper.make_graph(
        net.nodes,
        "pools",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["n", 5])],
        net.weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    samples = {"x": np.random.default_rng(0).standard_normal((32, 3, 16, 16)).astype(np.float32)}
    path = encode(graph_of(proto), tmp_path, Options(quantize="int8", calibrate=samples))
    target = Source("tflite", path)
    verdict = run_verify(api.open_source(proto), target, graph_of(proto), Options(), VerifyMethod(arrays=samples))
    assert (verdict.status, verdict.stored) == ("PASS", "int8"), verdict.reason
    assert verdict.outputs[0].error < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2_100", "efficientnet_b0", "vit_tiny_patch16_224"])
@pytest.mark.parametrize("dtype", ["", "float16"], ids=["float32", "float16"])
def test_networks(name: str, dtype: str, tmp_path: Path) -> None:
    from tests.support import timm_helper

    size = 224 if name.startswith("vit") else 64
    module = timm_helper.create(name, size)
    output = tmp_path / "net.tflite"
    spec = f"x:float32[batch,3,{size},{size}]"
    report = convert.convert(
        module, "tflite", output, inputs=spec, verify=True, method=VerifyMethod(seeds=2), dtype=dtype
    )
    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.stored) == ("PASS", dtype)
    assert report.inputs[0].shape == ("batch", 3, size, size)
    shutil.rmtree(tmp_path)


def encoder() -> Any:
    """Two layers of a transformer over 12 steps of 16 numbers, and a classifier of their mean."""
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
            self.first, self.layers, self.last = nn.Linear(16, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.layers(self.first(x)).mean(1))

    torch.manual_seed(0)
    return Encoder().eval()


def mobilenet() -> Any:
    from tests.support import timm_helper

    return timm_helper.create("mobilenetv2_100", 96)


QUANTIZED: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[str, str]]] = {
    "encoder": (encoder, (12, 16), {"float16": "PASS", "int8 weights": "PASS", "int8": "PASS"}),
    # With random weights, the error of 8 bits grows from layer to layer, to 30 % of the output.
    "mobilenetv2_100": (
        mobilenet,
        (3, 96, 96),
        {"float16": "PASS", "int8 weights": "INCONCLUSIVE", "int8": "INCONCLUSIVE"},
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", QUANTIZED)
@pytest.mark.parametrize("stored", ["float16", "int8 weights", "int8"])
def test_networks_in_fewer_bits(name: str, stored: str, tmp_path: Path) -> None:
    """The distance to the source in float64 is what the simulation predicts, which is right to a factor of two."""
    build, shape, expected = QUANTIZED[name]
    samples = {"x": np.random.default_rng(0).standard_normal((24, *shape), np.float32)}
    way = {
        "float16": {"dtype": "float16"},
        "int8 weights": {"quantize": "int8"},
        "int8": {"quantize": "int8", "calibrate": samples},
    }[stored]
    spec = f"x:float32[batch,{','.join(map(str, shape))}]"
    report = convert.convert(build(), "tflite", tmp_path / "net.tflite", inputs=spec, verify=True,
                             method=VerifyMethod(seeds=2), **way)  # fmt: skip
    verdict = report.verdict
    assert verdict is not None
    assert (verdict.status, verdict.stored) == (expected[stored], stored), verdict.reason
    assert verdict.reference == "the source in float64"
    (row,) = verdict.outputs
    assert 0.5 < row.error / row.floor < 2
    assert row.agreement == 1.0
    assert row.twin is not None
    assert row.twin < 1e-9
