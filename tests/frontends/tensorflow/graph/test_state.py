"""Variables that a TensorFlow graph changes: inputs and outputs of the converted model, which calls pass on."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.graph.refused import CHANGES
from convert.frontends.tensorflow.runner import runner

import convert.api
from convert.errors import Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import agrees, frontend, images, read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1
X = tf.TensorSpec([None, 3], name="x")


class Counting(tf.Module):  # type: ignore[misc]
    """Counts its calls and sums its inputs, without any effect on its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = tf.Variable(0, trainable=False, name="calls")
        self.total = tf.Variable([0.5, 0.0, -1.0], name="total")
        self.scale = tf.Variable(2.0, name="scale")

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        self.calls.assign_add(1)
        before = tf.identity(self.total)
        self.total.assign_add(tf.reduce_sum(x, 0) * self.scale)
        return {"y": x + self.total / tf.cast(self.calls, tf.float32), "before": before}


class Recent(tf.Module):  # type: ignore[misc]
    """Keeps the last rows in a called function, and returns the previous ones."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="rows")

    @tf.function
    def keep(self, x: Any) -> None:
        self.rows.assign(tf.concat([self.rows[1:], tf.reduce_mean(x, 0, keepdims=True)], 0))

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        before = tf.identity(self.rows)
        self.keep(x)
        return {"y": tf.reduce_sum(before, 0) + x * 2.0}


class Rows(tf.Module):  # type: ignore[misc]
    """Writes rows at given indices, in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = tf.Variable(tf.zeros([5, 3]), name="cache")

    @tf.function(input_signature=[X])
    def __call__(self, x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            self.cache.scatter_nd_add([[1], [1], [3]], [x[0], x[0], x[-1]])
            y = self.cache + 1.0
        else:
            self.cache.assign_sub(tf.ones([5, 3]))
            y = tf.zeros([5, 3])
        self.cache.scatter_update(tf.IndexedSlices(x[:1], tf.constant([0])))
        return {"y": y + self.cache}


KINDS: dict[Callable[[], Any], list[str]] = {Counting: ["calls", "total"], Recent: ["rows"], Rows: ["cache"]}


@pytest.mark.parametrize("form", ["object", "folder"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_calls_in_a_row(kind: Callable[[], Any], form: str, tmp_path: Path) -> None:
    """The converted model, fed with its earlier outputs, does what TensorFlow does by itself."""
    module = kind()
    concrete = module.__call__.get_concrete_function()
    if form == "folder":
        tf.saved_model.save(module, str(tmp_path), signatures=concrete)
    source = Source("savedmodel", tmp_path) if form == "folder" else Source("tf-function-object", model=concrete)
    model = read(source)
    states = json.loads(model.metadata_props["convert.state"])
    assert sorted(states) == KINDS[kind]
    assert [v.name for v in model.graph.inputs] == ["x", *states]
    held = {name: getattr(module, name).numpy() for name in states}
    for name, array in held.items():
        assert states[name]["output"] == f"{name}_next"
        np.testing.assert_array_equal(np.broadcast_to(states[name]["initial"], array.shape), array)
    for rows in (2, 1, 5):
        x = images(rows, 3, seed=rows) * (-1 if rows == 1 else 1)
        got = run(model, {"x": x, **held})
        expected = concrete(tf.constant(x))
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-6)
        held = {name: got[f"{name}_next"] for name in states}
        for name, value in held.items():
            np.testing.assert_allclose(value, getattr(module, name).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["object", "folder"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_any_state_in_float32_and_float64(kind: Callable[[], Any], form: str, tmp_path: Path) -> None:
    """As in a verification, the source runs with the variable values of an input set."""
    module = kind()
    concrete = module.__call__.get_concrete_function()
    if form == "folder":
        tf.saved_model.save(module, str(tmp_path), signatures=concrete)
    source = Source("savedmodel", tmp_path) if form == "folder" else Source("tf-function-object", model=concrete)
    chance = np.random.default_rng(0)
    states = {n: chance.normal(size=getattr(module, n).shape) for n in KINDS[kind]}
    feed = {n: v.astype(getattr(module, n).dtype.as_numpy_dtype) for n, v in states.items()}
    agrees(source, [{"x": images(3, 3), **feed}, {"x": -images(1, 3), **feed}])


@pytest.mark.slow
def test_stateful_recurrent_layers() -> None:
    x = keras.Input(batch_shape=(2, None, 5), name="x")
    y = layers.GRU(3, stateful=True, name="second")(
        layers.LSTM(4, stateful=True, return_sequences=True, name="first")(x)
    )
    model = keras.Model(x, y)
    source = Source("keras-object", model=model)
    names = ["first_rnn_state", "first_rnn_state_1", "second_rnn_state"]
    feed = {n: images(2, 3 if n[0] == "s" else 4, seed=i) for i, n in enumerate(names)}
    graph = agrees(source, [{"x": images(2, 6, 5), **feed}, {"x": images(2, 1, 5), **feed}])
    assert [v.name for v in graph.graph.inputs] == ["x", *names]
    held = {n: np.zeros_like(v) for n, v in feed.items()}
    for step in range(2):
        x = images(2, 3, 5, seed=step)
        got = run(graph, {"x": x, **held})
        np.testing.assert_allclose(got["second"], model(x), rtol=1e-5, atol=1e-6)
        held = {n: got[f"{n}_next"] for n in names}


@pytest.mark.slow
def test_verified_as_a_whole(tmp_path: Path) -> None:
    tf.saved_model.save(Counting(), str(tmp_path / "m"))
    report = convert.api.convert(tmp_path / "m", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {row.name for row in report.verdict.outputs} == {"before", "y", "calls_next", "total_next"}
    assert any("calls (input calls, output calls_next, starts as 0)" in note for note in report.notes)


@pytest.mark.parametrize("resource", [False, True])
def test_tensorflow_1(tmp_path: Path, resource: bool) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        with v1.variable_scope("part", use_resource=resource):
            total = v1.get_variable("x", initializer=tf.constant([1.0, 2.0, 3.0]))
        now = total.assign_add(tf.reduce_sum(x, 0))
        y = tf.add(x, now, name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path), {"x": x}, {"y": y})
    feeds = [{"x": images(n, 3), "part_x": images(3, seed=n)} for n in (2, 1)]
    model = agrees(Source("savedmodel", tmp_path), feeds)
    assert [v.name for v in model.graph.outputs] == ["y", "part_x_next"]


# The inputs of each operator after the variable [4, 3].
_AT, _ROW = tf.constant([[1], [3]]), tf.constant([2, 0])
_TO = tf.constant(images(2, 3, seed=5))
OPERATORS: dict[str, tuple[Any, ...]] = {
    "AssignVariableOp": (tf.constant(images(4, 3)),),
    "AssignAddVariableOp": (tf.constant(images(4, 3)),),
    "AssignSubVariableOp": (tf.constant(images(4, 3)),),
    **{f"ResourceScatter{kind}": (_ROW, _TO) for kind in ("Update", "Add", "Sub", "Mul", "Max", "Min")},
    **{f"ResourceScatterNd{kind}": (_AT, _TO) for kind in ("Update", "Add", "Sub")},
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operator(operator: str) -> None:
    variable = tf.Variable(tf.zeros([4, 3]), name="held")
    values = OPERATORS[operator]

    @tf.function(input_signature=[X], autograph=False)
    def function(x: Any) -> Any:
        before = variable.read_value()
        run_it = getattr(tf.raw_ops, operator)
        names = [n for n in inspect.signature(run_it).parameters if n in ("indices", "updates", "value")]
        first = "ref" if "Nd" in operator else "resource"
        run_it(**{first: variable.handle}, **dict(zip(names, values, strict=True)))
        return x + before[0]

    held = images(4, 3, seed=2)
    source = Source("tf-function-object", model=function.get_concrete_function())
    graph = agrees(source, [{"x": images(2, 3), "held": held}])
    assert not np.array_equal(run(graph, {"x": images(2, 3), "held": held})["held_next"], held)


SLICED = {"ResourceStridedSliceAssign", "StridedSliceAssign"}


@pytest.mark.parametrize("subscript", [np.s_[2:4], np.s_[::2, 1], np.s_[-1], np.s_[..., :2], np.s_[3:0:-2, None]])
def test_a_part_of_a_variable(subscript: Any) -> None:
    variable = tf.Variable(images(5, 3), name="held")
    shape = np.zeros((5, 3))[subscript].shape

    @tf.function(input_signature=[X], autograph=False)
    def function(x: Any) -> Any:
        variable[subscript].assign(tf.reshape(tf.tile(tf.reduce_sum(x, 0)[:1] * 2.0, [int(np.prod(shape))]), shape))
        return x + variable[0]

    source = Source("tf-function-object", model=function.get_concrete_function())
    agrees(source, [{"x": images(2, 3), "held": images(5, 3, seed=2)}])


def test_a_part_of_a_reference(tmp_path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [3], name="x")
        held = v1.get_variable("held", initializer=tf.zeros([4, 3]), use_resource=False)
        tf.add(held[1].assign(x), 1.0, name="y")
        session.run(v1.global_variables_initializer())
        y = session.graph.get_tensor_by_name("y:0")
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y})
    agrees(Source("savedmodel", tmp_path / "m"), [{"x": images(3), "held": images(4, 3, seed=2)}])


@pytest.mark.parametrize("operator", sorted(CHANGES - set(OPERATORS) - SLICED))
def test_operator_on_a_reference(operator: str, tmp_path: Path) -> None:
    """Operators of TensorFlow 1 on reference variables."""
    by_place = "Nd" in operator
    values = [_AT if by_place else _ROW, _TO] if operator.startswith("Scatter") else [images(4, 3)]
    with tf.Graph().as_default(), v1.Session() as session:
        values = [tf.constant(v.numpy() if hasattr(v, "numpy") else v) for v in values]
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        with v1.variable_scope("", use_resource=False):
            variable = v1.get_variable("held", initializer=tf.zeros([4, 3]), use_resource=False)
        run_it = getattr(tf.raw_ops, operator)
        names = [n for n in inspect.signature(run_it).parameters if n in ("indices", "updates", "value")]
        after = run_it(ref=variable._variable, **dict(zip(names, values, strict=True)))
        y = tf.add(x, after[0], name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y})
    # A variable that Assign overwrites is no input, because no output depends on its old value.
    held = {} if operator == "Assign" else {"held": images(4, 3, seed=2)}
    agrees(Source("savedmodel", tmp_path / "m"), [{"x": images(2, 3), **held}])


# -- what is refused --------------------------------------------------------------------------------------------------


def test_two_orders_are_refused(tmp_path: Path) -> None:
    """The file does not define whether the variable is read before or after the sum is added, so TensorFlow's result is
    random.
    """
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [3], name="x")
        total = v1.get_variable("total", initializer=tf.zeros([3]), use_resource=True)
        y = total.read_value() + tf.reduce_sum(total.assign_add(x).read_value())
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path), {"x": x}, {"y": y})
    with pytest.raises(Unsupported, match="nothing says whether before or after"):
        read(Source("savedmodel", tmp_path))


def test_a_loop_that_changes_a_variable_is_refused() -> None:
    total = tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[X])
    def looped(x: Any) -> Any:
        for _ in tf.range(3):
            total.assign_add(tf.reduce_sum(x, 0))
        return x + total

    with pytest.raises(Unsupported, match="changed inside a loop"):
        read(Source("tf-function-object", model=looped.get_concrete_function()))


def test_training_is_refused() -> None:
    weight = tf.Variable(tf.ones([3]))
    slot = tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[X])
    def step(x: Any) -> Any:
        rate = tf.constant(0.1)
        tf.raw_ops.ResourceApplyMomentum(var=weight.handle, accum=slot.handle, lr=rate, grad=x[0], momentum=rate)
        return x * weight + slot

    with pytest.raises(Unsupported, match=r"ResourceApplyMomentum.*changes the model's state"):
        frontend.read(Source("tf-function-object", model=step.get_concrete_function()), Options(), Report("convert"))


def test_the_source_is_as_it_was_afterwards() -> None:
    module = Counting()
    source = Source("tf-function-object", model=module.__call__.get_concrete_function())
    feed = {"x": images(2, 3), "calls": np.array(7, np.int32), "total": images(3)}
    runner.run(source, [feed], precision="float32", options=Options())
    assert module.calls.numpy() == 0
