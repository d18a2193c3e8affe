"""Options of quantized TensorFlow Lite models: integer inputs and outputs, 16 bits, and operators in floats."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.frontends.tensorflow.lite import runner
from onnx import TensorProto, helper, numpy_helper

import convert
from convert.errors import ParityError, Unsupported, UsageError
from convert.graph.builder import Graph
from convert.outcome.verdict import PASS
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from convert.request.source import Source
from convert.request.storage import REAL_IO
from tests.backends.tensorflow.lite.test_quantized import f32, network, onnxruntime_outputs, operators_of
from tests.support.quantized_models import Quantizing
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

FIXTURES = Path(__file__).parents[4] / "fixtures"
MNIST = FIXTURES / "mnist_cnn.onnx"


def digits(count: int = 40) -> np.ndarray:
    with np.load(FIXTURES / "digits_test.npz") as data:
        return data["images"][:count]


def real(path: Path, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return outputs as real numbers, for inputs that are real numbers."""
    options = Options(extra={REAL_IO: True})
    return list(runner.run(Source("tflite", path), [feed], precision="float32", options=options)[0].values())


def test_ends_of_a_calibrated_model_are_integers(tmp_path: Path) -> None:
    given, found = {"quantize": "int8", "calibrate": {"image": digits()}}, []
    for dtype in ("int8", "uint8"):
        path = encode(graph_of(MNIST), tmp_path / dtype, Options(**given, extra={"io_dtype": dtype}))
        inputs, outputs = runner.tensor_details(runner_of(path))
        assert {np.dtype(t["dtype"]).name for t in (*inputs.values(), *outputs.values())} == {dtype}
        assert not {made for _, _, row in operators_of(path) for made in row} & {"float32"}
        found.append(real(path, {"image": digits(9)})[0])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    floats = real(encode(graph_of(MNIST), tmp_path / "float"), {"image": digits(9)})[0]
    np.testing.assert_array_equal(found[0].argmax(-1), floats.argmax(-1))


def test_ends_of_a_quantized_model_are_integers(tmp_path: Path) -> None:
    proto = network(Quantizing()).model()
    path = encode(graph_of(proto), tmp_path, Options(extra={"io_dtype": "uint8"}))
    assert {n for n, _, made in operators_of(path) if "float32" in made} == set()
    (expected,), (got,) = onnxruntime_outputs(proto, {"x": f32(3, 3, 8, 8)}), real(path, {"x": f32(3, 3, 8, 8)})
    assert np.abs(got - expected).max() <= 1.01 * 0.05


def test_ends_of_real_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no integers for image"):
        encode(graph_of(MNIST), tmp_path, Options(extra={"io_dtype": "int8"}))


def test_16_bits_need_samples(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need their ranges"):
        convert.convert(MNIST, "tflite", tmp_path / "m.tflite", quantize="int16x8")


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["", "nhwc"])
@pytest.mark.parametrize(
    "given",
    [{"quantize": "int8", "io_dtype": "uint8"}, {"quantize": "int8", "io_dtype": "int8"}, {"quantize": "int16x8"}],
)
def test_each_way_with_each_layout_is_verified(tmp_path: Path, layout: str, given: dict[str, str]) -> None:
    images = digits()
    samples = np.moveaxis(images, 1, -1) if layout else images
    path = tmp_path / "m.tflite"
    report = convert.convert(MNIST, "tflite", path, layout=layout, calibrate={"image": samples}, **given)
    assert report.verdict is not None
    assert report.verdict.status == PASS
    inputs, _ = runner.tensor_details(runner_of(path))
    assert np.dtype(inputs["image"]["dtype"]).name == given.get("io_dtype", "float32")
    assert list(inputs["image"]["shape_signature"])[1:] == ([28, 28, 1] if layout else [1, 28, 28])
    if given["quantize"] == "int16x8":
        assert "int16" in {dtype for _, _, made in operators_of(path) for dtype in made}
    assert ("wide-bound" in {note.code for note in report.notes}) == (given["quantize"] == "int16x8")


def runner_of(path: Path) -> object:
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(str(path))


def boxes_beside_probabilities() -> onnx.ModelProto:
    """Return a model with one output that joins numbers in the hundreds with numbers below 1."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["features"], name="features", pads=[1] * 4),
        helper.make_node("Mul", ["features", "large"], ["boxes"], name="boxes"),
        helper.make_node("Sigmoid", ["features"], ["sure"], name="sure"),
        helper.make_node("Concat", ["boxes", "sure"], ["y"], name="joined", axis=1),
    ]
    constants = {"w": f32(4, 3, 3, 3) / 4, "large": np.float32(300)}
    graph = helper.make_graph(
        nodes,
        "head",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 8, 8])],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("extra", "steps"),
    [
        ({"io_dtype": "int8"}, 1),
        ({}, 100),
        *(({"keep_float": keep}, 100) for keep in ("Concat", "join*", "y")),
    ],
)
def test_joined_parts_keep_their_scales_if_they_are_joined_in_floats(
    tmp_path: Path, extra: dict[str, str], steps: int
) -> None:
    proto = boxes_beside_probabilities()
    samples = f32(20, 3, 8, 8)
    given = Options(quantize="int8", calibrate={"x": samples}, extra=extra)
    (got,) = real(encode(graph_of(proto), tmp_path, given), {"x": samples})
    (expected,) = onnxruntime_outputs(proto, {"x": samples})
    assert len(np.unique(got[:, 4:])) >= steps
    assert (np.abs(got[:, 4:] - expected[:, 4:]).max() < 0.03) == (steps > 1)
    assert np.abs(got[:, :4] - expected[:, :4]).max() < 0.02 * np.abs(expected[:, :4]).max()


def test_what_reads_floats_stays_in_eight_bits(tmp_path: Path) -> None:
    """A layer behind a normalization in floats has a range for its input, so that its weights are integers."""
    g, rng = Graph(), np.random.default_rng(5)
    x = g.input("x", ir.DataType.FLOAT, ("n", 6, 32))
    weights = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(3)]
    y = g.MatMul(x, weights[0])
    y = g.LayerNormalization(y, np.ones(32, np.float32), f32(32), axis=-1)
    g.output(g.MatMul(g.Relu(g.MatMul(y, weights[1])), weights[2]), "y")
    samples = f32(20, 6, 32)
    (expected,) = onnxruntime_outputs(ir.to_proto(g.model()), {"x": samples})
    given = Options(quantize="int8", calibrate={"x": samples}, extra={"keep_float": "LayerNormalization"})
    path = encode(g.model(), tmp_path, given)
    layers = [made for name, _, made in operators_of(path) if name == "FULLY_CONNECTED"]
    assert layers == [["int8"]] * 3
    assert "float32" in {dtype for name, _, made in operators_of(path) if name == "RSQRT" for dtype in made}
    (got,) = run(path, {"x": samples}).values()
    assert np.sqrt(np.mean((got - expected) ** 2)) < 0.03 * expected.std()


def test_a_float_that_is_also_moved_and_shared_is_read_in_eight_bits(tmp_path: Path) -> None:
    """One product reads a normalization behind a reshape, and a sum in floats reads the normalization itself."""
    g, rng = Graph(), np.random.default_rng(5)
    x = g.input("x", ir.DataType.FLOAT, (1, 6, 32))
    weights = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(2)]
    y = g.LayerNormalization(g.MatMul(x, weights[0]), np.ones(32, np.float32), f32(32), axis=-1)
    z = g.Reshape(g.MatMul(g.Reshape(y, [6, 1, 32]), weights[1]), [1, 6, 32])
    g.output(g.Add(y, z), "y")
    samples = f32(20, 6, 32)
    (expected,) = onnxruntime_outputs(ir.to_proto(g.model()), {"x": samples[:1]})
    given = Options(quantize="int8", calibrate={"x": samples}, extra={"keep_float": "LayerNormalization,Add"})
    path = encode(g.model(), tmp_path, given)
    made = [(name, made) for name, _, made in operators_of(path)]
    assert [dtypes for name, dtypes in made if name == "FULLY_CONNECTED"] == [["int8"]] * 2
    assert made[-1] == ("ADD", ["float32"])
    assert "LEAKY_RELU" not in dict(made)
    (got,) = run(path, {"x": samples[:1]}).values()
    assert np.sqrt(np.mean((got - expected) ** 2)) < 0.03 * expected.std()


def test_a_mean_over_two_axes_is_rounded_once(tmp_path: Path) -> None:
    g, weight = Graph(), f32(6, 3, 3, 3) / 4
    g.output(g.ReduceMean(g.Conv(g.input("x", ir.DataType.FLOAT, ("n", 3, 8, 8)), weight), [2, 3], keepdims=0), "y")
    samples = f32(20, 3, 8, 8)
    (expected,) = onnxruntime_outputs(ir.to_proto(g.model()), {"x": samples})
    path = encode(g.model(), tmp_path, Options(quantize="int8", calibrate={"x": samples}))
    assert [made for name, _, made in operators_of(path) if name == "MEAN"] == [["int8"]]
    (got,) = run(path, {"x": samples}).values()
    assert np.abs(got - expected).max() < 0.02 * np.abs(expected).max()


def test_what_no_node_is_called_is_refused(tmp_path: Path) -> None:
    given = Options(quantize="int8", calibrate={"x": f32(4, 3, 8, 8)}, extra={"keep_float": "Softmax"})
    with pytest.raises(UsageError, match="no node or operator is called so"):
        encode(graph_of(boxes_beside_probabilities()), tmp_path, given)


def test_floats_beside_nothing_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without ranges"):
        encode(graph_of(MNIST), tmp_path, Options(extra={"keep_float": "Conv"}))


def test_a_classifier_of_two_classes_passes(tmp_path: Path) -> None:
    """One sample gives two numbers, too few for a noise floor: all samples have one together."""
    rng, g = np.random.default_rng(3), Graph()
    weights = [rng.standard_normal(shape).astype(np.float32) / 4 for shape in ((16, 16), (16, 2))]
    hidden = g.Relu(g.Gemm(g.input("x", ir.DataType.FLOAT, (1, 16)), weights[0]))
    g.output(g.Gemm(hidden, weights[1]), "y")
    onnx.save(ir.to_proto(g.model()), tmp_path / "m.onnx")
    samples = rng.standard_normal((12, 16)).astype(np.float32)
    report = convert.convert(
        tmp_path / "m.onnx", "tflite", tmp_path / "m.tflite", quantize="int8", calibrate={"x": samples}
    )
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
    assert report.verdict.sets.startswith("3 input sets")


@pytest.mark.slow
def test_a_failure_in_eight_bits_names_the_layer_that_loses_most(tmp_path: Path) -> None:
    onnx.save(boxes_beside_probabilities(), tmp_path / "m.onnx")
    with pytest.raises(ParityError) as refused:
        convert.convert(
            tmp_path / "m.onnx",
            "tflite",
            tmp_path / "m.tflite",
            quantize="int8",
            calibrate={"x": f32(4, 3, 8, 8)},
            method=VerifyMethod(rtol=1e-6, atol=0),
        )
    assert "loses most in 8 bits" in refused.value.hint
    assert re.search(r"--keep-float (Conv|Concat|Sigmoid|Mul)\)", refused.value.hint)
