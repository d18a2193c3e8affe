"""TensorFlow Lite files as sources: whole networks in every form of quantization, names, dims, and damaged files."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.lite import runner
from convert.frontends.tensorflow.lite.file import LiteModel, Signature, Subgraph
from convert.frontends.tensorflow.lite.reader import select_signature

import convert
from convert.errors import BadInput, ConvertError, Unsupported, UsageError
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from convert.runtimes import onnx as reference
from tests.frontends.tensorflow.ops.tf_support import run
from tests.suites.hostile_files.lite_operators import lite_operator, operator_files, signature
from tests.support.cases import f32
from tests.support.tensorflow_helper import rms, shapes

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")
Interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is the oracle").Interpreter
import keras  # noqa: E402  (after the choice of its backend)
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice  # noqa: E402

from tests.frontends.tensorflow.lite.ops.lite_files import Result, constant, handmade, opened, packed, schema  # noqa: E402

FIXTURES = Path(__file__).parents[4] / "fixtures"
DIGITS = np.load(FIXTURES / "digits_test.npz")
FORMS = ["float32", "float16", "weights", "int8", "uint8"]


def read(path: Path, **options: Any) -> Any:
    return frontend.read(Source("tflite", path), Options(**options), Report("convert"))


def as_deployed(path: Path, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return runner.run(Source("tflite", path), [feed], precision="float32", options=Options())[0]


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The fixture's network in every form that the converter writes."""
    model = keras.models.load_model(FIXTURES / "mnist_cnn.keras")
    folder = tmp_path_factory.mktemp("lite")
    for form in FORMS:
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if form != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if form == "float16":
            converter.target_spec.supported_types = [tf.float16]
        if form in ("int8", "uint8"):
            converter.representative_dataset = lambda: ([_pictures()[i : i + 1]] for i in range(40))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.as_dtype(form)
        (folder / f"{form}.tflite").write_bytes(converter.convert())
    return {form: folder / f"{form}.tflite" for form in FORMS}


def _pictures() -> np.ndarray:
    found = next(a for a in DIGITS.values() if a.ndim >= 3)
    scale = 255.0 if found.dtype == np.uint8 else 1.0
    return (found.reshape(-1, 28, 28, 1) / scale).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["float32", "float16"])
def test_float_networks(mnist: dict[str, Path], form: str) -> None:
    """Graph and interpreter evaluate one function in float32, so both are close to the float64 result."""
    model, feed = read(mnist[form]), {"image": _pictures()[:3]}
    assert shapes(model) == {"image": ["batch", 28, 28, 1], "output_0": ["batch", 10]}
    assert Counter(n.op_type for n in model.graph) == {
        "Transpose": 6, "Conv": 2, "Relu": 3, "MaxPool": 1, "Reshape": 1, "Gemm": 2, "LogSoftmax": 1,
    }  # fmt: skip
    (exact,) = reference.run(Source("onnx-object", model=model), [feed], precision="float64", options=Options())
    for found in (run(model, feed)["output_0"], as_deployed(mnist[form], feed)["output_0"]):
        assert found.dtype == np.float32
        assert rms(found - exact["output_0"]) < 16 * 2.0**-24 * rms(exact["output_0"])


@pytest.mark.parametrize("form", ["int8", "uint8"])
def test_quantized_networks(mnist: dict[str, Path], form: str) -> None:
    """Scales and zero points are the file's, so no number is off by more than one step, and few are off at all."""
    model = read(mnist[form])
    low = 128 if form == "int8" else 0
    feed = {"image": (np.round(_pictures()[:40] * 255) - low).astype(form)}
    got, expected = run(model, feed)["output_0"], as_deployed(mnist[form], feed)["output_0"]
    assert got.dtype == expected.dtype == np.dtype(form)
    assert len(np.unique(expected)) > 50
    off = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    assert off.max() <= 2
    assert (off > 0).mean() < 0.02
    weights = [v for v in model.graph.initializers.values() if v.const_value.size > 1000]
    assert [w.dtype.name for w in weights] == ["INT8"] * len(weights)  # no weight has become wide


def test_weights_in_8_bits_stay_so(mnist: dict[str, Path]) -> None:
    """The graph computes with the file's weights; the interpreter rounds activations as well, which is reported."""
    report = Report("convert")
    model = frontend.read(Source("tflite", mnist["weights"]), Options(), report)
    assert any(note.code == "float-activations" for note in report.notes)
    assert {v.dtype.name for v in model.graph.initializers.values() if v.const_value.size > 1000} == {"INT8"}
    feed = {"image": _pictures()[:8]}
    got, expected = run(model, feed)["output_0"], as_deployed(mnist["weights"], feed)["output_0"]
    exact = run(read(mnist["float32"]), feed)["output_0"]
    assert rms(got - expected) < 2 * rms(expected - exact)
    np.testing.assert_array_equal(got.argmax(1), expected.argmax(1))


_HALVES = np.arange(-60, 60, dtype=np.float32) / 8
_ALL = np.arange(-128, 128).astype(np.int8)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((_HALVES, ()), ("int8", 0.25, 3)),
        ((_HALVES, ()), ("uint8", 0.25, 120)),
        ((_HALVES, ()), ("int16", 0.25, 0)),
        ((_ALL, (0.5, 1)), ("int8", 1.0, -2)),
        ((_ALL, (0.75, -7)), ("uint8", 0.5, 130)),
        ((_ALL, (0.5, 0)), ("int16", 1.0, 0)),
        ((_ALL.view(np.uint8), (0.1, 128)), ("int8", 0.2, 0)),
    ],
)
def test_halves_of_a_step(given: Any, wanted: Any, tmp_path: Path) -> None:
    """Real numbers go to the even step, integers of another scale to the upper one."""
    (x, scale), (kind, step, zero) = given, wanted
    source = Result(x.shape, x.dtype.name, scale=scale[:1], zero=scale[1:]) if scale else x
    result = Result(x.shape, kind, scale=[step], zero=[zero])
    (tmp_path / "m.tflite").write_bytes(handmade("QUANTIZE", [source], [result], ("Quantize", {}))())
    (expected,) = as_deployed(tmp_path / "m.tflite", {"x0": x}).values()
    (got,) = run(read(tmp_path / "m.tflite"), {"x0": x}).values()
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


def test_convert_with_the_verdict(mnist: dict[str, Path], tmp_path: Path) -> None:
    report = convert.convert(mnist["float32"], "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_dims_that_are_open_take_the_users_word(mnist: dict[str, Path]) -> None:
    fixed = read(mnist["float32"], inputs=[parse_input("image:float32[2,28,28,1]")])
    assert shapes(fixed) == {"image": [2, 28, 28, 1], "output_0": [2, 10]}
    with pytest.raises(UsageError, match="dim 1"):
        read(mnist["float32"], inputs=[parse_input("image:float32[2,27,28,1]")])


def test_selu_is_one_operator_again(tmp_path: Path) -> None:
    specs = [tf.TensorSpec([2, 3], name="x")]
    concrete = tf.function(tf.nn.selu, input_signature=specs, autograph=False).get_concrete_function()
    (tmp_path / "m.tflite").write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert())
    assert [n.op_type for n in read(tmp_path / "m.tflite").graph] == ["Selu"]


def test_updates_of_unknown_sizes(tmp_path: Path) -> None:
    """Loops of unknown length write their rows in this way, with a batch of unknown size."""
    specs = [tf.TensorSpec([None, None, 3]), tf.TensorSpec([1, None, 2]), tf.TensorSpec([3], tf.int32)]
    concrete = tf.function(
        dynamic_update_slice,
        input_signature=[tf.TensorSpec(s.shape, s.dtype, n) for s, n in zip(specs, ("x", "row", "at"), strict=True)],
        autograph=False,
    ).get_concrete_function()
    (tmp_path / "m.tflite").write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert())
    model = read(tmp_path / "m.tflite")
    for steps, batch, wide, place in ((4, 3, 3, 1), (1, 2, 2, 0), (5, 4, 2, 9), (3, 1, 1, -2)):
        feed = {"x": f32(steps, batch, 3), "row": f32(1, wide, 2) + 9, "at": np.int32([place, 1, place])}
        (expected,) = as_deployed(tmp_path / "m.tflite", feed).values()
        (got,) = run(model, feed).values()
        np.testing.assert_array_equal(got, expected)


# -- signatures ---------------------------------------------------------------------------------------------------


class Two(tf.Module):  # type: ignore[misc]
    """Two signatures with names in another order than the tensors."""

    @tf.function(input_signature=[tf.TensorSpec([3, 2], name="zebra"), tf.TensorSpec([2], name="apple")])
    def first(self, zebra: Any, apple: Any) -> Any:
        return {"sum": zebra + apple, "difference": zebra - apple}

    @tf.function(input_signature=[tf.TensorSpec([3], name="only")])
    def second(self, only: Any) -> Any:
        return {"twice": 2.0 * only}


@pytest.mark.slow
def test_signatures(tmp_path: Path) -> None:
    module = Two()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"first": module.first, "second": module.second})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m"), signature_keys=["first", "second"])
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    feeds = {"first": {"zebra": f32(3, 2), "apple": f32(2)}, "second": {"only": f32(3)}}
    for key, feed in feeds.items():
        model = read(tmp_path / "m.tflite", signature=key)
        expected = Interpreter(str(tmp_path / "m.tflite")).get_signature_runner(key)(**feed)
        got = run(model, feed)
        assert sorted(got) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(got[name], value)
        report = convert.convert(tmp_path / "m.tflite", "onnx", tmp_path / f"{key}.onnx", signature=key)
        assert report.verdict is not None
        assert report.verdict.status == "PASS", report.verdict.reason
    with pytest.raises(UsageError, match="third"):
        read(tmp_path / "m.tflite", signature="third")


@pytest.mark.slow
def test_signatures_of_tensorflow_two_six(tmp_path: Path) -> None:
    """Its converter writes subgraph 0 for every signature, so that today's interpreter refuses the second."""
    module, path, feed = Two(), tmp_path / "m.tflite", f32(3)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"first": module.first, "second": module.second})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m"), signature_keys=["first", "second"])
    made = opened(converter.convert())
    for graph, written in zip(made.subgraphs, made.signatureDefs, strict=True):
        graph.name, written.subgraphIndex = written.signatureKey, 0
    path.write_bytes(packed(made))
    (got,) = run(read(path, signature="second"), {"only": feed}).values()
    np.testing.assert_array_equal(got, 2 * feed)
    report = convert.convert(path, "onnx", tmp_path / "m.onnx", signature="second")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


@pytest.mark.parametrize(
    ("keys", "chosen"), [(["a"], "a"), (["a", "serving_default"], "serving_default"), (["a", "b"], "")]
)
def test_one_of_several_signatures_is_not_chosen_silently(keys: list[str], chosen: str) -> None:
    graph = Subgraph("main", [], [], [], [])
    model = LiteModel([graph], [Signature(key, 0, {}, {}) for key in keys])
    if chosen:
        assert select_signature(model, "").key == chosen
    else:
        with pytest.raises(UsageError, match="several signatures") as found:
            select_signature(model, "")
        assert "--signature: a, b" in str(found.value)


# -- what is not handled ------------------------------------------------------------------------------------------


def test_all_unsupported_operators_are_listed(tmp_path: Path) -> None:
    model = opened(handmade("ABS", [f32(2)], [Result((2,))])())
    for i, name in enumerate(("MyOperator", "", "Other")):
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        if not name:
            code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.SKIP_GRAM
        code.customCode = name or None
        model.operatorCodes.append(code)
        node = schema.OperatorT()
        node.opcodeIndex, node.inputs, node.outputs = i + 1, [0], [1]
        model.subgraphs[0].operators.append(node)
    (tmp_path / "m.tflite").write_bytes(packed(model))
    with pytest.raises(Unsupported) as caught:
        read(tmp_path / "m.tflite")
    assert {p.at.operator for p in caught.value.problems} == {"custom MyOperator", "custom Other", "SKIP_GRAM"}
    assert caught.value.exit_code == 4


# -- damaged and hostile files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> bytes:
    weights = constant(np.arange(12, dtype=np.int8).reshape(3, 4), scale=[0.1, 0.2, 0.3], axis=0)
    options = ("FullyConnected", {"fusedActivationFunction": 1})
    return handmade("FULLY_CONNECTED", [f32(2, 4), weights, constant(f32(3))], [Result((2, 3))], options)()


def test_truncated_files(small: bytes, tmp_path: Path) -> None:
    for length in range(8, len(small), 7):
        (tmp_path / "m.tflite").write_bytes(small[:length])
        with pytest.raises(BadInput):
            read(tmp_path / "m.tflite")


def test_any_word_may_lie(small: bytes, tmp_path: Path) -> None:
    """Every 4 bytes in turn are replaced by large, negative and small numbers: bad input, unsupported, or a graph."""
    refused = []
    for at in range(0, len(small) - 4, 4):
        for word in (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x01\x00\x00\x00"):
            if at == 4:
                continue
            (tmp_path / "m.tflite").write_bytes(small[:at] + word + small[at + 4 :])
            try:
                read(tmp_path / "m.tflite")
            except ConvertError as error:
                refused.append(error)
    assert len(refused) > 100
    assert {e.exit_code for e in refused} <= {4, 5}


def _with(edit: Any) -> bytes:
    model = opened(handmade("ABS", [f32(2)], [Result((2,))])())
    edit(model)
    return packed(model)


def _calls_itself(model: Any) -> None:
    node = model.subgraphs[0].operators[0]
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = schema.BuiltinOperator.CALL
    node.builtinOptions, node.builtinOptionsType = schema.CallOptionsT(), schema.BuiltinOptions.CallOptions


def _too_large(model: Any) -> None:
    buffer = schema.BufferT()
    buffer.data = np.zeros(8, np.uint8)
    model.buffers.append(buffer)
    model.subgraphs[0].tensors[0].buffer = 1
    model.subgraphs[0].tensors[0].shape = [1 << 30, 1 << 30]


def _points_outside(model: Any) -> None:
    model.subgraphs[0].operators[0].inputs = [77]


def _before_it_is_made(model: Any) -> None:
    model.subgraphs[0].inputs = []


@pytest.mark.parametrize("edit", [_calls_itself, _too_large, _points_outside, _before_it_is_made])
def test_lies(edit: Any, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(_with(edit))
    with pytest.raises(BadInput):
        read(tmp_path / "m.tflite")


# -- files that contradict themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "options", "number"),
    [("ADD", "AddOptions", 4), ("MUL", "MulOptions", 4), ("CONCATENATION", "ConcatenationOptions", 1)],
)
def test_activations_that_kernels_pass_over(operator: str, options: str, number: int, tmp_path: Path) -> None:
    """LiteRT ignores a Tanh fused with a sum.

    One of its concatenation kernels ignores any activation, the other refuses it.
    """
    path, other = tmp_path / "m.tflite", {} if options != "ConcatenationOptions" else {"axis": 0}
    content = [f32(2, 3)]
    path.write_bytes(lite_operator(operator, options, {"fusedActivationFunction": number, **other}, content, (2, 3)))
    with pytest.raises(Unsupported, match=f"{operator}, .*the fused activation function {number}, which LiteRT"):
        read(path)
    path.write_bytes(lite_operator(operator, options, {"fusedActivationFunction": 0, **other}, content, (2, 3)))
    plain = as_deployed(path, {"x": f32(2, 3)})
    path.write_bytes(lite_operator(operator, options, {"fusedActivationFunction": number, **other}, content, (2, 3)))
    np.testing.assert_array_equal(as_deployed(path, {"x": f32(2, 3)})["y"], plain["y"])


@pytest.mark.parametrize("named", [False, True])
def test_ends_of_one_name_are_all_there(named: bool, tmp_path: Path) -> None:
    """Tensors of one TensorFlow operator differ only after the colon, and a signature may give both one name."""
    change = signature(outputs=[("x", 2), ("x_1", 3)]) if named else None
    axis = [np.array(1, np.int32)]
    (tmp_path / "m.tflite").write_bytes(
        lite_operator("SPLIT", "SplitOptions", {"numSplits": 2}, axis, (2, 4), change, ("x:0", "x:1"))
    )
    feed = {"x": f32(2, 4)}
    found = as_deployed(tmp_path / "m.tflite", feed)
    assert list(found) == ["x_output", "x_1"]
    whole = runner.run_as_used(Source("tflite", tmp_path / "m.tflite"), [feed], Options())
    ways = ["its tensors", "its signature, called by name", "without XNNPACK", "tf.lite.Interpreter"]
    assert list(whole) == [way for way in ways if named or "signature" not in way]
    assert all(list(each) == list(found) for results in whole.values() for each in results)
    for name, values in run(read(tmp_path / "m.tflite"), feed).items():
        np.testing.assert_array_equal(values, found[name])


def test_what_the_interpreter_of_tensorflow_does_not_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.tflite").write_bytes(lite_operator("NEG", "NegOptions", {}, [], (2, 4)))

    def allocate(self: Any) -> None:
        raise RuntimeError("Didn't find op for builtin opcode 'NEG' version '9'")

    monkeypatch.setattr(tf.lite.Interpreter, "allocate_tensors", allocate)
    found = runner.run_as_used(Source("tflite", tmp_path / "m.tflite"), [{"x": f32(2, 4)}], Options())
    told = found["tf.lite.Interpreter"]
    assert isinstance(told, Unsupported)
    assert "interpreter does not run it, ai-edge-litert does: " in told.sentence
    assert isinstance(found["its tensors"], list)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_constant_without_elements_has_no_buffer(dtype: str, tmp_path: Path) -> None:
    """Examples are the shape of a scalar and a part of a Concat, which LiteRT reads as intended."""
    nothing = constant(np.zeros((0,) if dtype == "int32" else (2, 0), dtype))
    x = f32(1, 1) if dtype == "int32" else f32(2, 3)
    if dtype == "int32":
        content = handmade("RESHAPE", [x, nothing], [Result(())], ("Reshape", {}))()
    else:
        content = handmade("CONCATENATION", [nothing, x], [Result((2, 3))], ("Concatenation", {"axis": 1}))()
    (path := tmp_path / "m.tflite").write_bytes(content)
    verdict = convert.convert(path, "onnx", tmp_path / "m.onnx").verdict
    assert verdict is not None
    assert verdict.status == "PASS", verdict.reason


@pytest.mark.parametrize("name", [name for name in operator_files() if "sparse" in name or "segments" in name])
def test_sparse_weights_are_no_larger_than_their_numbers_say(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(operator_files()[name]())
    tracemalloc.start()
    try:
        with pytest.raises(BadInput):
            read(tmp_path / "m.tflite")
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()
