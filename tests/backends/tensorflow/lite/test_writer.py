"""TensorFlow Lite models: inputs and outputs, refusals, and numbers in fewer bits with their verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.frontends.tensorflow.lite import runner
from onnx import TensorProto, helper

import convert
from convert import api, plugin
from convert.errors import BadInput, Unsupported, UsageError
from convert.outcome.verdict import Verdict
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify as run_verify
from convert.request.options import Options
from convert.request.source import Source
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

FIXTURES = Path(__file__).parents[4] / "fixtures"
MNIST = FIXTURES / "mnist_cnn.onnx"


def network(nodes: list[onnx.NodeProto], inputs: dict[str, tuple], outputs: dict[str, tuple]) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(n, *kind) for n, kind in side.items()] for side in (inputs, outputs)]
    graph = helper.make_graph(nodes, "network", *sides)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(FIXTURES / "digits_test.npz") as data:
        return data["images"], data["labels"]


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory, digits: tuple[np.ndarray, np.ndarray]) -> dict[str, Path]:
    """The fixture in float32, with narrow weights, and with activations calibrated on half of the digits."""
    ways = {
        "": Options(),
        "float16": Options(dtype="float16"),
        "int8 weights": Options(quantize="int8"),
        "int8": Options(quantize="int8", calibrate={"image": digits[0][:180]}),
    }
    folder = tmp_path_factory.mktemp("lite")
    return {name: encode(graph_of(MNIST), folder / str(i), way) for i, (name, way) in enumerate(ways.items())}


def verdict_on(path: Path, method: VerifyMethod, source: Path = MNIST) -> Verdict:
    return run_verify(api.open_source(source), Source("tflite", path), graph_of(source), Options(), method)


# -- the contract ---------------------------------------------------------------------------------------------------


def test_names_order_dtypes_and_dynamic_dims_are_the_models(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    proto = network(
        [
            helper.make_node("Add", ["ids:0", "ids:0"], ["b:1"]),
            helper.make_node("Cast", ["apple"], ["a.2"], to=TensorProto.INT32),
            helper.make_node("Identity", ["zebra ä"], ["c"]),
            helper.make_node("Not", ["flag"], ["Not"]),
        ],
        {
            "zebra ä": (TensorProto.FLOAT, ["n", 3]),
            "ids:0": (TensorProto.INT64, ["n", 2]),
            "apple": (TensorProto.FLOAT, [2]),
            "flag": (TensorProto.BOOL, ["m"]),
            "unused": (TensorProto.FLOAT, []),
        },
        {
            "c": (TensorProto.FLOAT, ["n", 3]),
            "b:1": (TensorProto.INT64, ["n", 2]),
            "a.2": (TensorProto.INT32, [2]),
            "Not": (TensorProto.BOOL, ["m"]),
        },
    )
    path = encode(graph_of(proto), tmp_path)
    inputs, outputs = runner.tensor_details(Interpreter(str(path)))
    assert list(inputs) == ["zebra ä", "ids:0", "apple", "flag", "unused"]
    assert list(outputs) == ["c", "b:1", "a.2", "Not"]
    assert [list(d["shape_signature"]) for d in inputs.values()] == [[-1, 3], [-1, 2], [2], [-1], []]
    for n in (1, 3):
        feed = {
            "zebra ä": np.arange(3 * n, dtype=np.float32).reshape(n, 3),
            "ids:0": np.full((n, 2), 2**40, np.int64),
            "apple": np.array([1.5, -2.5], np.float32),
            "flag": np.array([True, False]),
            "unused": np.array(1, np.float32),
        }
        found = run(path, feed)
        assert [x.dtype.name for x in found.values()] == ["float32", "int64", "int32", "bool"]
        np.testing.assert_array_equal(found["c"], feed["zebra ä"])
        np.testing.assert_array_equal(found["b:1"], np.full((n, 2), 2**41))
        np.testing.assert_array_equal(found["a.2"], [1, -2])
        np.testing.assert_array_equal(found["Not"], [False, True])


@pytest.mark.slow
def test_all_that_has_no_builtin_is_listed_with_its_node(tmp_path: Path) -> None:
    proto = network(
        [
            helper.make_node("Det", ["x"], ["d"], name="/first/det"),
            helper.make_node("Abs", ["x"], ["y"], name="/abs"),
            helper.make_node("Det", ["y"], ["z"], name="/second/det"),
        ],
        {"x": (TensorProto.FLOAT, ["n", 2, 2])},
        {"d": (TensorProto.FLOAT, ["n"]), "z": (TensorProto.FLOAT, ["n"])},
    )
    with pytest.raises(Unsupported) as caught:
        encode(graph_of(proto), tmp_path)
    assert caught.value.exit_code == 4
    assert {(p.at.operator, p.at.node) for p in caught.value.problems} == {
        ("Det", "/first/det"),
        ("Det", "/second/det"),
    }
    assert "--to tf" in caught.value.hint
    backend = plugin.backend_for("tflite")
    with pytest.raises(Unsupported, match="/second/det"):
        backend.check(graph_of(proto), "tflite", Options())


def test_what_is_made_of_builtins_is_as_good_as_float32(tmp_path: Path) -> None:
    """Compared with SciPy in float64, near 0 and far from it; float32 cannot represent values below 2e-38."""
    special = pytest.importorskip("scipy.special")
    functions = {
        "Tan": np.tan, "Atan": np.arctan, "Asin": np.arcsin, "Acos": np.arccos, "Sinh": np.sinh, "Cosh": np.cosh,
        "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh, "Erf": special.erf,
    }  # fmt: skip
    names = list(functions)
    proto = network(
        [helper.make_node(name, [f"x_{name}"], [name]) for name in names],
        {f"x_{name}": (TensorProto.FLOAT, ["n"]) for name in names},
        {name: (TensorProto.FLOAT, ["n"]) for name in names},
    )
    small = np.concatenate([np.linspace(-0.99, 0.99, 400), [1e-30, -1e-7, 1e-4, 0.0]]).astype(np.float32)
    wide = np.concatenate([np.linspace(-20, 20, 400), [1e-30, -1e-7, 1e-4, 0.0]]).astype(np.float32)
    feed = {f"x_{n}": small if n in ("Asin", "Acos", "Atanh", "Tan") else wide for n in names}
    feed["x_Acosh"] = 1 + np.abs(wide)
    found = run(encode(graph_of(proto), tmp_path), feed)
    for name, function in functions.items():
        want = function(feed[f"x_{name}"].astype(np.float64))
        # Sinh and Cosh square an exponential; its rounded argument gives an error of that many roundings.
        roundings = 4 + (np.abs(feed[f"x_{name}"]) if name in ("Sinh", "Cosh") else 0)
        error = np.abs(found[name] - want) / np.maximum(np.abs(want), 2e-38)
        assert (error <= roundings * 2.0**-23).all(), (name, error.max())


def test_what_keeps_operators_apart_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    """Also in a branch, whose graph is a function, and for two unknown dims, where no Reshape could replace the
    operators.
    """
    from tensorflow.lite.python.schema_py_generated import BuiltinOperator, ModelT

    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * 3) for n in ("low", "high")]
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], [end.name], axes=[2])], op, [], [end])
        for op, end in zip(("ReduceMin", "ReduceMax"), ends, strict=True)
    ]
    proto = network(
        [
            helper.make_node("If", ["which"], ["y"], then_branch=branches[0], else_branch=branches[1]),
            helper.make_node("ArgMax", ["x"], ["z"], axis=1, keepdims=0),
        ],
        {"x": (TensorProto.FLOAT, ["n", 5, "m"]), "which": (TensorProto.BOOL, [])},
        {"y": (TensorProto.FLOAT, ["n", 5, 1]), "z": (TensorProto.INT64, ["n", "m"])},
    )
    proto.opset_import[0].version = 17
    codes = {
        c.builtinCode for c in ModelT.InitFromPackedBuf(encode(graph_of(proto), tmp_path).read_bytes()).operatorCodes
    }
    names = ("IF", "REDUCE_MIN", "REDUCE_MAX", "ARG_MAX")
    assert codes == {getattr(BuiltinOperator, name) for name in names}


def test_infinite_constants_stay_infinite(tmp_path: Path) -> None:
    proto = network(
        [
            helper.make_node("Constant", [], ["top"], value_float=float("inf")),
            helper.make_node("Min", ["x", "top"], ["y"]),
            helper.make_node("IsInf", ["x"], ["z"]),
        ],
        {"x": (TensorProto.FLOAT, ["n"])},
        {"y": (TensorProto.FLOAT, ["n"]), "z": (TensorProto.BOOL, ["n"])},
    )
    found = run(encode(graph_of(proto), tmp_path), {"x": np.array([np.inf, -np.inf, 1], np.float32)})
    np.testing.assert_array_equal(found["y"], [np.inf, -np.inf, 1])
    np.testing.assert_array_equal(found["z"], [True, True, False])


@pytest.mark.slow
def test_the_runner_refuses_what_it_cannot_do(tmp_path: Path, mnist: dict[str, Path]) -> None:
    source, x = Source("tflite", mnist[""]), np.zeros((1, 1, 28, 28), np.float32)
    with pytest.raises(Unsupported, match="precision"):
        runner.run(source, [{"image": x}], precision="float64", options=Options())
    with pytest.raises(UsageError, match="other"):
        runner.run(source, [{"other": x}], precision="float32", options=Options())
    with pytest.raises(UsageError, match="signature"):
        runner.run(source, [{"image": x}], precision="float32", options=Options(signature="nope"))
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(mnist[""].read_bytes()[:200])
    with pytest.raises(BadInput):
        runner.run(Source("tflite", broken), [{"image": x}], precision="float32", options=Options())
    with pytest.raises(BadInput):
        runner.stored(Source("tflite", broken))


# -- fewer bits -----------------------------------------------------------------------------------------------------


def test_a_file_tells_how_it_stores_numbers(mnist: dict[str, Path]) -> None:
    assert {name: runner.stored(Source("tflite", path)) for name, path in mnist.items()} == {n: n for n in mnist}
    sizes = {name: path.stat().st_size for name, path in mnist.items()}
    assert sizes["float16"] < 0.6 * sizes[""]
    assert max(sizes["int8"], sizes["int8 weights"]) < 0.4 * sizes[""]


@pytest.mark.parametrize(("stored", "share"), [("", 1.0), ("float16", 1.0), ("int8 weights", 1.0), ("int8", 0.99)])
def test_digits_are_recognized_as_before(
    stored: str, share: float, mnist: dict[str, Path], digits: tuple[np.ndarray, np.ndarray]
) -> None:
    import onnxruntime

    images, labels = digits[0][180:], digits[1][180:]  # these inputs are not the calibration data
    (theirs,) = onnxruntime.InferenceSession(MNIST, providers=["CPUExecutionProvider"]).run(None, {"image": images})
    (ours,) = run(mnist[stored], {"image": images}).values()
    assert ours.dtype == np.float32
    assert np.mean(ours.argmax(1) == theirs.argmax(1)) >= share
    assert np.mean(ours.argmax(1) == labels) >= np.mean(theirs.argmax(1) == labels) - (1 - share)


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["float16", "int8 weights", "int8"])
def test_the_floor_of_a_narrow_artefact_is_what_narrowing_does_to_the_graph(
    stored: str, mnist: dict[str, Path], digits: tuple[np.ndarray, np.ndarray]
) -> None:
    method = VerifyMethod(arrays={"image": digits[0][180:212]})
    good = verdict_on(mnist[stored], method)
    assert (good.status, good.stored) == ("PASS", stored)
    (row,) = good.outputs
    assert row.twin is not None
    assert row.twin < 1e-9
    # A simulation that is far too coarse would accept anything.
    assert 0.5 < row.error / row.floor < 2
    assert row.agreement == 1.0
    # The verdict on a float32 artefact uses rounding errors alone.
    assert verdict_on(mnist[""], method).outputs[0].floor < 1e-6 < row.floor


@pytest.mark.slow
@pytest.mark.parametrize(("stored", "planted"), [("float16", 0.01), ("int8 weights", 0.1), ("int8", 5.0)])
def test_a_defect_beyond_the_floor_fails(
    stored: str, planted: float, mnist: dict[str, Path], digits: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """The source's first filter differs from the converted one."""
    proto = onnx.load(MNIST)
    first = next(i for i in proto.graph.initializer if list(i.dims)[1:] == [1, 3, 3])
    array = onnx.numpy_helper.to_array(first).copy()
    array[0] += planted * np.abs(array).max()
    first.CopyFrom(onnx.numpy_helper.from_array(array, first.name))
    onnx.save(proto, tmp_path / "other.onnx")
    verdict = verdict_on(mnist[stored], VerifyMethod(arrays={"image": digits[0][180:212]}), tmp_path / "other.onnx")
    assert (verdict.status, verdict.at_fault) == ("FAIL", "backend")


def test_activations_in_8_bits_are_not_judged_on_random_inputs(mnist: dict[str, Path]) -> None:
    verdict = verdict_on(mnist["int8"], VerifyMethod())
    assert (verdict.status, verdict.exit_code) == ("INCONCLUSIVE", 7)
    assert "--inputs" in verdict.reason


@pytest.mark.slow
def test_conversion_verifies_on_the_calibration_data(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    report = convert.convert(
        MNIST, "tflite", tmp_path / "m.tflite", verify=True, quantize="int8", calibrate={"image": digits[0][:40]}
    )
    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.stored) == ("PASS", "int8")
    assert report.inputs[0].dtype == "float32"


@pytest.mark.parametrize(
    ("to", "options", "told"),
    [
        ("keras", {"dtype": "float16"}, "keras cannot store float16"),
        ("tf", {"quantize": "int8"}, "tf cannot store int8"),
        ("tflite", {"quantize": "int4"}, "tflite cannot store int4"),
        ("tflite", {"dtype": "float16", "quantize": "int8"}, "contradict"),
        ("tflite", {"calibrate": {"image": np.zeros((1, 1, 28, 28), np.float32)}}, "without a quantization"),
        ("tflite", {"quantize": "int8", "calibrate": {"x": np.zeros((1, 1, 28, 28), np.float32)}}, "inputs are image"),
        ("tflite", {"quantize": "int8", "calibrate": {"image": np.zeros((4, 3), np.float32)}}, "has shape"),
    ],
)
def test_what_cannot_be_asked_for(to: str, options: dict, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        convert.convert(MNIST, to, tmp_path / f"out{plugin.formats()[to].suffix}", verify=False, **options)
    assert list(tmp_path.iterdir()) == []


def test_calibration_data_comes_with_or_without_a_batch() -> None:
    from convert.backends.tensorflow.lite.writer import calibration_samples

    images = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    model = graph_of(MNIST)
    for given in (images, images[:, None]):
        found = list(calibration_samples(model, {"image": given}))
        assert [s["image"].shape for s in found] == [(1, 1, 28, 28)] * 3
        np.testing.assert_array_equal(np.concatenate([s["image"] for s in found]), images)


def test_steps_are_those_of_fake_quantization() -> None:
    torch = pytest.importorskip("torch")
    from convert.reference.quantization_steps import round_symmetric, round_to_float16, round_to_steps

    x = np.random.default_rng(0).standard_normal((4, 5, 6))
    low, high = -1.5, 2.25
    scale = (high - low) / 255
    want = torch.fake_quantize_per_tensor_affine(torch.tensor(x), scale, round(-low / scale), 0, 255)
    np.testing.assert_allclose(round_to_steps(x, low, high), want.numpy(), atol=1e-12)
    scales = torch.tensor(np.abs(x).max((0, 2)) / 127)
    zeros = torch.zeros(5, dtype=torch.int32)
    want = torch.fake_quantize_per_channel_affine(torch.tensor(x), scales.float(), zeros, 1, -127, 127)
    np.testing.assert_allclose(round_symmetric(x, 1), want.numpy(), atol=1e-6)
    np.testing.assert_array_equal(round_to_float16(x), torch.tensor(x).half().double().numpy())
