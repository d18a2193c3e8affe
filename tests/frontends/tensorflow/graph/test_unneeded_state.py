"""Variables that change without effect on an output (seeds, counters, metrics) are no inputs of the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.runner import runner

import convert.api
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import agrees, images

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1
X = tf.TensorSpec([None, 3], name="x")


class Calls(tf.Module):  # type: ignore[misc]
    """A counter that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0, name="calls")

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        self.calls.assign_add(1)
        return {"y": x * 2.0}


class Metric(tf.Module):  # type: ignore[misc]
    """A mean made of two variables, one of unknown size, which depend only on each other."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(tf.zeros([2]), shape=[None], name="total")
        self.count = tf.Variable(0.0, name="count")

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        self.count.assign_add(1.0 + tf.reduce_sum(self.total))
        self.total.assign(self.total + tf.reduce_mean(x) / self.count)
        return {"y": x - 1.0}


class Chain(tf.Module):  # type: ignore[misc]
    """`shown` is returned, `hidden` affects the next `shown`, `deep` the next `hidden`; `apart` affects nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.apart, self.deep, self.hidden, self.shown = (
            tf.Variable(float(i), name=n) for i, n in enumerate(["apart", "deep", "hidden", "shown"])
        )

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        y = x + self.shown
        self.apart.assign(self.deep * 2.0 + self.apart)
        self.shown.assign(self.hidden * 0.5)
        self.hidden.assign(self.deep + 1.0)
        self.deep.assign(tf.reduce_sum(x))
        return {"y": y}


class Branch(tf.Module):  # type: ignore[misc]
    """A branch changes a variable that is returned and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.best = tf.Variable(1.0, name="seen"), tf.Variable(2.0, name="best")

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            self.seen.assign_add(1.0)
            self.best.assign(tf.maximum(self.best, tf.reduce_max(x)))
        else:
            self.seen.assign(self.seen * 0.5)
        return {"y": x * self.best}


KINDS: dict[Callable[[], Any], list[str]] = {
    Calls: [], Metric: [], Chain: ["deep", "hidden", "shown"], Branch: ["best"],
}  # fmt: skip


def read(source: Source) -> tuple[ir.Model, list[str]]:
    report = Report("convert")
    return frontend.read(source, Options(), report), list(report.notes)


def states(model: ir.Model) -> list[str]:
    return sorted(json.loads(model.metadata_props.get("convert.state", "{}")))


@pytest.mark.parametrize("form", ["object", "folder"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_what_no_output_needs_is_left_out(kind: Callable[[], Any], form: str, tmp_path: Path) -> None:
    """With the remaining state passed from call to call, the outputs are TensorFlow's."""
    module = kind()
    concrete = module.__call__.get_concrete_function()
    if form == "folder":
        tf.saved_model.save(module, str(tmp_path), signatures=concrete)
    source = Source("savedmodel", tmp_path) if form == "folder" else Source("tf-function-object", model=concrete)
    model, notes = read(source)
    left = KINDS[kind]
    assert states(model) == left
    assert sorted(str(v.name) for v in model.graph.inputs) == sorted(["x", *left])
    assert [v.name for v in model.graph.outputs][:1] == ["y"]
    assert sorted(str(v.name) for v in model.graph.outputs) == sorted(["y", *(f"{n}_next" for n in left)])
    (note,) = [n for n in notes if "no output depends on" in n]
    variables = [v.name.partition(":")[0] for v in module.variables]
    assert all((name in note) == (name not in left) for name in variables)
    held = {name: getattr(module, name).numpy() for name in left}
    for step in range(4):
        x = images(3, 3, seed=step) + np.float32(2 - step)
        got = run(model, {"x": x, **held})
        np.testing.assert_allclose(got["y"], concrete(tf.constant(x))["y"], rtol=1e-6, atol=1e-6)
        held = {name: got[f"{name}_next"] for name in left}
    agrees(source, [{"x": images(2, 3), **{n: np.float32(i) for i, n in enumerate(left)}}])


RECURRENT = {
    "LSTM": lambda: layers.LSTM(4, dropout=0.3, recurrent_dropout=0.2),
    "GRU": lambda: layers.GRU(4, dropout=0.3, recurrent_dropout=0.2),
    "SimpleRNN": lambda: layers.SimpleRNN(4, dropout=0.3),
    "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(4, dropout=0.3)),
    "ConvLSTM1D": lambda: layers.ConvLSTM1D(2, 3, dropout=0.3),
    "others": lambda: keras.Sequential(
        [layers.Dropout(0.5), layers.GaussianNoise(0.5), layers.SpatialDropout1D(0.5), layers.GaussianDropout(0.5)]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["object", "folder"])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n not in ("LSTM", "others") else n for n in RECURRENT]
)
def test_keras_layers_with_dropout(name: str, form: str, tmp_path: Path) -> None:
    """The seeds of the dropout layers are in the graph, but no random number is used."""
    inputs = keras.Input((5, 6, 3) if name.startswith("Conv") else (5, 3), name="x")
    network = keras.Model(inputs, RECURRENT[name]()(inputs))
    x = images(2, *inputs.shape[1:])
    wanted = network(x, training=False).numpy()
    source = Source("keras-object", model=network)
    if form == "folder":
        network.export(str(tmp_path / "m"), verbose=False)
        source = Source("savedmodel", tmp_path / "m")
    model, _ = read(source)
    assert len(model.graph.inputs) == len(model.graph.outputs) == 1
    feed = {str(model.graph.inputs[0].name): x}
    (got,) = run(model, feed).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    agrees(source, [feed])


@pytest.mark.parametrize("resource", [False, True])
def test_tensorflow_1(resource: bool, tmp_path: Path) -> None:
    """A step counter that is incremented before the output, in a checkpoint and in a SavedModel."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        step = v1.get_variable("step", initializer=tf.constant(5), use_resource=resource)
        with tf.control_dependencies([step.assign_add(1)]):
            y = tf.add(x, 1.0, name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y})
    model, notes = read(Source("savedmodel", tmp_path / "m"))
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert any("no output depends on step" in n for n in notes)
    agrees(Source("savedmodel", tmp_path / "m"), [{"x": images(2, 3)}])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Calls, Chain], ids=lambda k: k.__name__)
def test_verified_as_a_whole(kind: Callable[[], Any], tmp_path: Path) -> None:
    tf.saved_model.save(kind(), str(tmp_path / "m"))
    report = convert.api.convert(tmp_path / "m", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_the_source_is_as_it_was_afterwards() -> None:
    module = Calls()
    source = Source("tf-function-object", model=module.__call__.get_concrete_function())
    runner.run(source, [{"x": images(2, 3)}], precision="float32", options=Options())
    assert module.calls.numpy() == 0
