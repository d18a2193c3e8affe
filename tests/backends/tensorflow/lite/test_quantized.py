"""Quantized models stay quantized: integer kernels with the scales of the model, compared with onnxruntime."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import convert
from convert import api
from convert.outcome.verdict import PASS
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify as run_verify
from convert.request.options import Options
from convert.request.source import Source
from tests.support.quantized_models import Quantizing
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

IMAGE = ("n", 4, 8, 8)
ROWS = ("n", 6, 8)


def network(q: Quantizing) -> Quantizing:
    """A small network of pictures."""
    x = q.steps(q.input("x", ("n", 3, 8, 8)))
    y = q.op("Relu", q.op("Conv", x, q.weight(8, 3, 3, 3), q.constant(f32(8)), pads=[1, 1, 1, 1], strides=[2, 2]))
    y = q.steps(y, 0.03, -128)
    z = q.steps(q.op("Conv", y, q.weight(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]), 0.06, 5)
    y = q.steps(q.op("MaxPool", q.steps(q.op("Add", y, z), 0.07, -20), kernel_shape=[2, 2], strides=[2, 2]), 0.07, -20)
    y = q.steps(q.op("GlobalAveragePool", y), 0.05, -20)
    y = q.op("Flatten", y)
    weight = q.weight(5, 8)
    q.output(q.steps(q.op("Gemm", y, weight, q.constant(f32(5)), transB=1), 0.05, 1), 2)
    return q


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def onnxruntime_outputs(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def operators_of(path: Path) -> list[tuple[str, list[str], list[str]]]:
    """Return each operator with the dtypes of its inputs and outputs."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(str(path), experimental_op_resolver_type=plain)
    dtypes = {t["index"]: np.dtype(t["dtype"]).name for t in interpreter.get_tensor_details()}
    return [
        (o["op_name"], *([dtypes[t] for t in o[side] if t >= 0] for side in ("inputs", "outputs")))
        for o in interpreter._get_ops_details()
    ]  # type: ignore[misc]


def in_floats(path: Path) -> list[str]:
    """Return the operators that compute with real numbers."""
    found = operators_of(path)
    return [name for name, given, made in found if "float32" in made and name != "DEQUANTIZE"]


@pytest.mark.parametrize(
    ("dtype", "weights", "per_channel"),
    [("int8", "int8", True), ("uint8", "int8", False), ("int16", "int8", True)],
)
def test_a_network_is_computed_with_the_integers_of_the_model(
    tmp_path: Path, dtype: str, weights: str, per_channel: bool
) -> None:
    proto = network(Quantizing(dtype, weights, per_channel)).model()
    path = encode(graph_of(proto), tmp_path)
    assert in_floats(path) == []
    names = collections.Counter(name for name, _, _ in operators_of(path))
    assert (names["QUANTIZE"], names["DEQUANTIZE"]) == (1, 1)
    assert path.stat().st_size < 12_000
    feed = {"x": f32(3, 3, 8, 8)}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    step = 0.05 / (256 if dtype == "int16" else 1)
    assert np.abs(got - expected).max() <= 2.01 * step
    if dtype != "int16":  # these kernels scale by multipliers of 15 bits
        assert np.mean(np.abs(got - expected) > 0.5 * step) <= 0.2


def test_weights_with_a_zero_point_are_stored_in_8_bits(tmp_path: Path) -> None:
    """int8 kernels have no zero point for weights, so these convolutions compute with real numbers."""
    proto = network(Quantizing("uint8", "uint8", False)).model()
    path = encode(graph_of(proto), tmp_path)
    found = operators_of(path)
    assert [given[1] for name, given, _ in found if name == "CONV_2D"] == ["float32"]
    assert ("DEQUANTIZE", ["int8"], ["float32"]) in found
    feed = {"x": f32(3, 3, 8, 8)}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    assert np.abs(got - expected).max() <= 1.01 * 0.05


def test_ends_that_are_integers_stay_so(tmp_path: Path) -> None:
    for dtype, kind in (("uint8", TensorProto.UINT8), ("int8", TensorProto.INT8)):
        q = Quantizing(dtype)
        zero = q.constant(np.array(130 if dtype == "uint8" else 2, dtype))
        scale = q.constant(np.array(0.02, np.float32))
        x = q.op("DequantizeLinear", q.input("x", (1, 4, 8, 8), kind), scale, zero)
        y = q.op("Conv", x, q.weight(4, 4, 3, 3))
        q.output(q.steps(y, 0.1, 4, real=False), 4, kind)
        proto = q.model()
        path = encode(graph_of(proto), tmp_path / dtype)
        assert in_floats(path) == []
        assert "DEQUANTIZE" not in [name for name, _, _ in operators_of(path)]
        limits = np.iinfo(dtype)
        feed = {"x": np.random.default_rng(0).integers(limits.min, limits.max, (1, 4, 8, 8)).astype(dtype)}
        (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
        assert got.dtype == expected.dtype == np.dtype(dtype)
        assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


def test_weights_alone_stay_in_8_bits(tmp_path: Path) -> None:
    q = Quantizing()
    y = q.op("Relu", q.op("Conv", q.input("x", IMAGE), q.weight(32, 4, 3, 3)))
    q.output(y, 4)
    proto = q.model()
    path = encode(graph_of(proto), tmp_path)
    assert ("DEQUANTIZE", ["int8"], ["float32"]) in operators_of(path)
    feed = {"x": f32(2, 4, 8, 8)}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_relu_of_integers_is_one(tmp_path: Path) -> None:
    """PyTorch's eager mode does not quantize the result of a Relu, which keeps the scale of its input."""
    q = Quantizing()
    y = q.op("Relu", q.steps(q.input("x", IMAGE)))
    q.output(q.steps(q.op("Conv", y, q.weight(6, 4, 3, 3)), 0.1), 4)
    proto = q.model()
    path = encode(graph_of(proto), tmp_path)
    assert in_floats(path) == []
    feed = {"x": f32(2, 4, 8, 8)}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    assert np.abs(got - expected).max() <= 0.101


def one(operator: str, *shapes: tuple, zero: int = 3, scale: float = 0.02, **attributes: object) -> Callable:
    def build(q: Quantizing) -> None:
        inputs = [q.steps(q.input(f"x{i}", shape), 0.02 + 0.01 * i, 3 - 5 * i) for i, shape in enumerate(shapes)]
        q.output(q.steps(q.op(operator, *inputs, **attributes), scale, zero), len(shapes[0]))

    return build


def weighted(operator: str, *weight: int, axis: int = 0, **attributes: object) -> Callable:
    def build(q: Quantizing) -> None:
        x = q.steps(q.input("x0", IMAGE if operator.startswith("Conv") else ROWS))
        q.output(q.steps(q.op(operator, x, q.weight(*weight, axis=axis), **attributes), 0.1), 4)

    return build


def with_constants(operator: str, shape: tuple, *constants: np.ndarray, steps: tuple = (0.02, 3), **attributes: object):
    def build(q: Quantizing) -> None:
        x = q.steps(q.input("x0", shape), *steps)
        y = q.op(operator, x, *(q.constant(c) if c.size else "" for c in constants), **attributes)
        q.output(q.steps(y, *steps), len(shape))

    return build


PADS = np.array([0, 0, 1, 2, 0, 0, 0, 1])
NONE = np.zeros(0, np.float32)
NEAREST = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
KERNELS: dict[str, tuple[str, Callable]] = {
    "Conv": ("CONV_2D", weighted("Conv", 6, 4, 3, 3)),
    "Conv, dilated": ("CONV_2D", weighted("Conv", 6, 4, 2, 2, dilations=[2, 2])),
    "Conv, one filter a channel": ("DEPTHWISE_CONV_2D", weighted("Conv", 4, 1, 3, 3, group=4)),
    "ConvTranspose": ("TRANSPOSE_CONV", weighted("ConvTranspose", 4, 5, 2, 2, axis=1, strides=[2, 2])),
    "MatMul": ("FULLY_CONNECTED", weighted("MatMul", 8, 5, axis=1)),
    "Add": ("ADD", one("Add", IMAGE, IMAGE)),
    "Sub": ("SUB", one("Sub", IMAGE, IMAGE)),
    "Mul": ("MUL", one("Mul", IMAGE, IMAGE)),
    "Concat": ("CONCATENATION", one("Concat", IMAGE, IMAGE, axis=1)),
    "Sigmoid": ("LOGISTIC", one("Sigmoid", IMAGE, scale=1 / 256, zero=-128)),
    "Tanh": ("TANH", one("Tanh", IMAGE, scale=1 / 128, zero=0)),
    "Softmax": ("SOFTMAX", one("Softmax", ROWS, scale=1 / 256, zero=-128, axis=-1)),
    "Relu": ("RELU", one("Relu", IMAGE, zero=-128)),
    "LeakyRelu": ("LEAKY_RELU", one("LeakyRelu", IMAGE, alpha=0.2)),
    "GlobalAveragePool": ("MEAN", one("GlobalAveragePool", IMAGE)),
    "AveragePool": ("AVERAGE_POOL_2D", one("AveragePool", IMAGE, kernel_shape=[2, 2], strides=[2, 2])),
    "MaxPool": ("MAX_POOL_2D", one("MaxPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2])),
    "Transpose": ("TRANSPOSE", one("Transpose", ROWS, perm=[0, 2, 1])),
    "Pad": ("PADV2", with_constants("Pad", IMAGE, PADS)),
    "Pad of a number": ("PADV2", with_constants("Pad", IMAGE, PADS, np.array(0.5, np.float32))),
    "Reshape": ("RESHAPE", with_constants("Reshape", ROWS, np.array([-1, 48]))),
    "Slice": ("STRIDED_SLICE", with_constants("Slice", ROWS, np.array([1]), np.array([4]), np.array([1]))),
    "Clip": ("RELU6", with_constants("Clip", IMAGE, np.array(0, np.float32), np.array(6, np.float32), steps=(0.05, 0))),
    "Resize to the nearest": (
        "RESIZE_NEAREST_NEIGHBOR",
        with_constants("Resize", IMAGE, NONE, np.array([1, 1, 2, 2], np.float32), **NEAREST),
    ),
    "Resize to the nearest, no image": (
        "GATHER",
        with_constants("Resize", ROWS, NONE, np.array([1, 2, 2], np.float32), **NEAREST),
    ),
    "Resize between neighbours": (
        "RESIZE_BILINEAR",
        with_constants("Resize", IMAGE, NONE, np.array([1, 1, 2, 2], np.float32), mode="linear"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", KERNELS)
def test_an_operator_has_its_kernel_on_integers(tmp_path: Path, name: str, dtype: str) -> None:
    kernel, build = KERNELS[name]
    q = Quantizing(dtype)
    build(q)
    proto = q.model()
    path = encode(graph_of(proto), tmp_path)
    assert in_floats(path) == []
    assert kernel in [n for n, _, _ in operators_of(path)]
    feed = {v.name: f32(*(2 if isinstance(d, str) else d for d in dims(v))) for v in proto.graph.input}
    (expected,), (got,) = onnxruntime_outputs(proto, feed), run(path, feed).values()
    step = np.diff(np.unique(expected)).min()
    assert np.abs(got - expected).max() <= 1.01 * step
    assert np.mean(np.abs(got - expected) > 0.5 * step) <= 0.3


def dims(value: onnx.ValueInfoProto) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.slow
def test_a_product_whose_second_zero_point_is_lost_elsewhere_is_in_floats(tmp_path: Path) -> None:
    """XNNPACK of TensorFlow 2.21 treats the second zero point as 0: with a zero point of 40, all elements are wrong."""
    for zero, expected in ((-4, ["BATCH_MATMUL"]), (0, [])):
        q = Quantizing()
        a, b = q.steps(q.input("a", (2, 6, 8))), q.steps(q.input("b", (2, 8, 5)), 0.02, zero)
        q.output(q.steps(q.op("MatMul", a, b), 0.1), 3)
        assert in_floats(encode(graph_of(q.model()), tmp_path / str(zero))) == expected


# -- the verdict ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("quantized")
    onnx.save(network(Quantizing()).model(), folder / "net.onnx")
    return folder / "net.onnx", encode(graph_of(folder / "net.onnx"), folder / "lite")


def verdict_on(source: Path, target: Path) -> str:
    method = VerifyMethod(seeds=2)
    return run_verify(api.open_source(source), Source("tflite", target), graph_of(source), Options(), method).status


@pytest.mark.slow
def test_steps_that_kernels_round_otherwise_pass(written: tuple[Path, Path]) -> None:
    assert verdict_on(*written) == PASS


@pytest.mark.slow
@pytest.mark.parametrize("defect", ["zero point", "scale", "channels", "bias"])
def test_a_defect_of_a_quantization_does_not_pass(written: tuple[Path, Path], tmp_path: Path, defect: str) -> None:
    from convert.backends.tensorflow.lite.file_objects import LiteFile

    file = LiteFile(written[1].read_bytes())
    (graph,) = file.model.subgraphs
    convolution = next(o for o in graph.operators if file.name(o) == "CONV_2D")
    weight, bias = (graph.tensors[t] for t in convolution.inputs[1:3])
    if defect == "zero point":
        last = graph.tensors[graph.operators[-1].inputs[0]]
        last.quantization.zeroPoint = last.quantization.zeroPoint + 1
    elif defect == "scale":
        weight.quantization.scale = weight.quantization.scale * np.float32(1.1)
    elif defect == "channels":
        weight.quantization.scale = weight.quantization.scale[::-1].copy()
    else:
        data = file.model.buffers[bias.buffer].data.view(np.int32)
        file.model.buffers[bias.buffer].data = np.roll(data, 1).view(np.uint8)
    path = tmp_path / "defect.tflite"
    path.write_bytes(file.packed())
    assert verdict_on(written[0], path) != PASS


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["float32", "int8", "uint8"])
def test_8_bits_of_tensorflow_lite_come_back(tmp_path: Path, ends: str) -> None:
    """From TensorFlow Lite to ONNX and back, the kernels, the scales, and the dtypes of inputs and outputs stay."""
    given = Options(extra={"io_dtype": ends})
    first = encode(graph_of(network(Quantizing()).model()), tmp_path / "first", given)
    convert.convert(first, "onnx", tmp_path / "net.onnx", verify=False)
    second = encode(graph_of(tmp_path / "net.onnx"), tmp_path / "second")
    assert in_floats(second) == []
    kernels = [{name for name, _, _ in operators_of(path)} for path in (first, second)]
    assert kernels[0] - {"TRANSPOSE", "PAD"} <= kernels[1]
    x = f32(3, 3, 8, 8)
    feed = {"x": x if ends == "float32" else np.clip(np.round(x / 0.02), -99, 99).astype(np.int8).astype(ends)}
    (expected,), (got,) = run(first, feed).values(), run(second, feed).values()
    assert got.dtype == expected.dtype == np.dtype(ends)
    assert np.abs(got.astype(float) - expected.astype(float)).max() <= (0.051 if ends == "float32" else 1)
