"""The target runs as its users run it: it must load, and be right in every way of running and under every setting."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import convert
from convert import api, plugin
from convert.errors import ConvertError, Unsupported
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, PASS
from convert.parity.method import VerifyMethod
from convert.parity.runs.as_used import TargetRuns
from convert.parity.verify import runs_of_every_feed, verify
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source


def difference(a: str = "a", b: str = "b", size: int = 300) -> onnx.ModelProto:
    """y = a - 2b."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", size]) for n in (a, b, "y")]
    nodes = [helper.make_node("Mul", [b, "two"], ["b2"]), helper.make_node("Sub", [a, "b2"], ["y"])]
    two = numpy_helper.from_array(np.float32(2), "two")
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:], [two])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def read(proto: onnx.ModelProto) -> ir.Model:
    return plugin.frontends()["onnx"].read(Source("onnx-object", model=proto), Options(), Report("read"))


# -- the judge ------------------------------------------------------------------------------------------------------


def test_a_way_that_is_run_on_one_feed_need_not_take_the_others() -> None:
    """The first way, whatever its name, runs on all inputs, and has no outputs for inputs that it refuses."""
    one, two = [{"y": np.zeros(1)}], [{"y": np.zeros(1)}, {"y": np.ones(1)}]
    assert runs_of_every_feed({"m": one, "a": one, "z": two, "n": one}) == [one, two]


class Child:
    """A stand-in for a child process with given results."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def results(self) -> Any:
        if isinstance(self.told, ConvertError):
            raise self.told
        return self.told

    def stop(self) -> None: ...


def test_a_setting_that_does_not_run_is_named() -> None:
    runs = TargetRuns([("with A=1", Child({"x": [], "z": []})), ("with A=0", Child({"x": []}))])  # type: ignore[list-item]
    found = runs.results()
    assert isinstance(found, dict)
    assert list(found) == ["x, with A=1", "z, with A=1", "x, with A=0"]
    runs.children[1] = ("with A=0", Child(ConvertError("it died")))  # type: ignore[assignment]
    found = runs.results()
    assert isinstance(found, ConvertError)
    assert found.message == "with A=0: it died (the target of the comparison)"
    both = [(name, Child(Unsupported("no kernel"))) for name in ("with A=1", "with A=0")]
    found = TargetRuns(both).results()  # type: ignore[arg-type]
    assert isinstance(found, Unsupported)
    assert found.message == "no kernel (the target of the comparison)"


@pytest.mark.parametrize(
    ("children", "told"),
    [
        ([("", {"x": Unsupported("no kernel")})], "no kernel"),
        ([("", {"x": [], "z": Unsupported("no kernel")})], "no kernel"),
        ([("with A=1", {"x": [], "z": Unsupported("no z")}), ("with A=0", {"x": []})], "with A=1: no z"),
        ([("with A=1", {"x": []}), ("with A=0", {"x": Unsupported("no x"), "z": []})], "with A=0: no x"),
        # If two ways have the same settings, the setting that fails is named once; if each has one setting, none is
        # named.
        ([("with A=1", {"x": Unsupported("one"), "z": Unsupported("two")}), ("with A=0", {})], "with A=1: one"),
        ([("with A=1", {"x": Unsupported("one")}), ("with A=0", {"z": Unsupported("two")})], "one"),
        ([("", ConvertError("it died"))], "it died"),
    ],
)
def test_a_way_that_does_not_go_is_told(children: list[tuple[str, Any]], told: str) -> None:
    found = TargetRuns([(setting, Child(what)) for setting, what in children]).results()  # type: ignore[misc]
    assert isinstance(found, ConvertError)
    assert found.message == f"{told} (the target of the comparison)"


def test_another_runtime_that_does_not_take_the_target_is_a_note() -> None:
    child = Child({"its tensors": [], "tf.lite.Interpreter": Unsupported("TensorFlow lacks it")})
    runs = TargetRuns([("", child)], "tflite")  # type: ignore[list-item]
    assert (runs.results(), runs.notes) == ({"its tensors": []}, ["TensorFlow lacks it"])
    lone = TargetRuns([("", Child({"its tensors": Unsupported("no kernel")}))], "tflite").results()  # type: ignore[list-item]
    assert isinstance(lone, Unsupported), "its own runtime has to take it"


# -- artefacts --------------------------------------------------------------------------------------------------------


def renamed(proto: onnx.ModelProto, names: dict[str, str], folder: Path) -> tuple[Source, Source, ir.Model]:
    """Return a source, and its SavedModel with the names of its signature swapped without regard to their meaning."""
    from convert.backends.tensorflow.writer.signature import rename_signature

    onnx.save(proto, folder / "m.onnx")
    convert.convert(folder / "m.onnx", "tf", folder / "m.savedmodel", verify=False)
    rename_signature(folder / "m.savedmodel", list(names.items()), [])
    source = api.open_source(folder / "m.onnx")
    return source, api.open_source(folder / "m.savedmodel"), read(proto)


@pytest.mark.slow
@pytest.mark.not_core
def test_a_saved_model_that_does_not_load_fails(tmp_path: Path) -> None:
    """A session still runs it."""
    source, target, graph = renamed(difference(), {"a": "a b", "b": "a-b"}, tmp_path)
    names = Names({"a": "a b", "b": "a-b"}, {})
    verdict = verify(source, target, graph, Options(), VerifyMethod(names=names))
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert "the target does not run: loaded by tf.saved_model.load: ValueError: duplicate parameter" in verdict.reason


@pytest.mark.slow
@pytest.mark.not_core
def test_inputs_that_are_swapped_when_they_are_called_by_name_fail(tmp_path: Path) -> None:
    """TensorFlow sorts `x.1` before `x_0`, and `x_1` after it."""
    source, target, graph = renamed(difference(), {"a": "x.1", "b": "x_0"}, tmp_path)
    verdict = verify(source, target, graph, Options(), VerifyMethod(names=Names({"a": "x.1", "b": "x_0"}, {})))
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")


@pytest.mark.slow
@pytest.mark.not_core
def test_what_is_called_otherwise_is_found_again(tmp_path: Path) -> None:
    """The names are found by the naming rule and not by order: here both orders would be possible."""
    onnx.save(difference("x.1", "x_0"), tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "tf", tmp_path / "m.savedmodel", verify=False)
    assert report.renamed["inputs"] == {"x.1": "x_1"}
    again = convert.verify(tmp_path / "m.onnx", tmp_path / "m.savedmodel")
    assert again.verdict is not None
    assert again.verdict.status == PASS


@pytest.mark.slow
@pytest.mark.not_core
def test_wrong_numbers_under_one_setting_fail_and_name_it(tmp_path: Path) -> None:
    """oneDNN fuses a Pad, a Conv3D without bias and a LeakyRelu, and uses a slope of 1, on every processor."""
    import tensorflow as tf

    generator = np.random.default_rng(0)
    weight = generator.standard_normal((3, 3, 3, 2, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1] * 6, kernel_shape=[3] * 3),
        helper.make_node("LeakyRelu", ["h"], ["y"], alpha=0.2),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 6, 6, 6]) for n, c in (("x", 2), ("y", 4))]
    turned = numpy_helper.from_array(np.ascontiguousarray(weight.transpose(4, 3, 0, 1, 2)), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [turned])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "m.onnx")

    @tf.function(input_signature=[tf.TensorSpec([1, 6, 6, 6, 2], tf.float32, name="x")])
    def layers(x: Any) -> dict[str, Any]:
        h = tf.nn.conv3d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [1, 1], [0, 0]]), weight, [1] * 5, "VALID")
        return {"y": tf.nn.leaky_relu(h, 0.2)}

    tf.saved_model.save(tf.Module(), str(tmp_path / "m.savedmodel"), signatures=layers)
    source, target = (api.open_source(tmp_path / name) for name in ("m.onnx", "m.savedmodel"))
    graph_read = read(onnx.load(tmp_path / "m.onnx"))
    verdict = verify(source, target, graph_read, replace(Options(), layout="nhwc"), VerifyMethod(seeds=1))
    assert verdict.status == FAIL
    assert "with TF_ENABLE_ONEDNN_OPTS=1: error" in verdict.reason
