"""Models as users write them, whose parts have tests elsewhere: dilated depthwise, TimeDistributed, lookups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert.errors import Unsupported, UsageError
from convert.request.source import Source
from tests.support.tensorflow_helper import agrees, images, read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
keras = pytest.importorskip("keras", reason="Keras makes the models")
layers = keras.layers


def function(call: Any, **specs: Any) -> Source:
    signature = [tf.TensorSpec(shape, dtype, name=name) for name, (shape, dtype) in specs.items()]
    return Source("tf-function-object", model=tf.function(call, input_signature=signature).get_concrete_function())


def test_a_dilated_depthwise_convolution_of_any_size_keeps_its_groups() -> None:
    weights = tf.constant(images(3, 3, 4, 2))
    call = lambda x: tf.nn.depthwise_conv2d(x, weights, [1, 1, 1, 1], "SAME", dilations=[2, 2])  # noqa: E731
    source = function(call, x=([None, None, None, 4], tf.float32))
    model = agrees(source, [{"x": images(2, 9, 7, 4)}, {"x": images(1, 5, 12, 4)}])
    (conv,) = [n for n in model.graph if n.op_type == "Conv"]
    assert conv.attributes["group"].as_int() == 4


def test_time_that_is_left_open_is_folded_into_the_batch() -> None:
    """For an unknown number of steps, Keras loops over as many as there are rows; its eager mode is right."""
    x = keras.Input((None, 6, 6, 2), name="frames")
    model = keras.Model(x, layers.TimeDistributed(layers.Conv2D(3, 3, activation="relu"))(x))
    frames = images(2, 5, 6, 6, 2)
    got = agrees(Source("keras-object", model=model), [{"frames": frames}, {"frames": frames[:1, :3]}])
    assert [n.op_type for n in got.graph].count("Conv") == 1
    assert not [n for n in got.graph if n.op_type in ("Loop", "Scan")]
    (wrapper,) = [layer for layer in model.layers if isinstance(layer, layers.TimeDistributed)]
    assert "call" not in vars(wrapper)


def test_lookups_of_a_keras_model(tmp_path: Path) -> None:
    """Lookup tables are no variables, and also exist in the float64 run of later nodes."""
    words, numbers = keras.Input((3,), dtype="string", name="words"), keras.Input((2,), dtype="int64", name="numbers")
    places = layers.StringLookup(vocabulary=["red", "green"])(words)
    counts = layers.IntegerLookup(vocabulary=[3, 5], output_mode="multi_hot")(numbers)
    model = keras.Model([words, numbers], [layers.Embedding(3, 4, name="found")(places), layers.Dense(2)(counts)])
    model.save(tmp_path / "lookup.keras")
    feed = {"words": np.array([["red", "blue", "green"]], object), "numbers": np.array([[5, 9]])}
    agrees(Source("keras", tmp_path / "lookup.keras"), [feed])


def test_an_output_that_has_the_name_of_an_input(tmp_path: Path) -> None:
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
        def call(self, x: Any) -> Any:
            return {"x": x, "y": x * 2, "x_output": x + 1}

    module = Module()
    tf.saved_model.save(module, tmp_path / "m", signatures={"serving_default": module.call})
    for source in (Source("savedmodel", tmp_path / "m"), Source("tf-function-object", model=module.call)):
        model = agrees(source, [{"x": images(2, 3)}])
        assert {v.name for v in model.graph.outputs} == {"x_output_output", "x_output", "y"}


def test_what_keras_cannot_trace_is_said() -> None:
    x = keras.Input((None, None, 3))
    model = keras.Model(x, layers.UpSampling2D(2, interpolation="bilinear")(x))
    with pytest.raises(Unsupported, match="cannot trace"):
        read(Source("keras-object", model=model))


def test_outputs_that_a_signature_has_not(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    model.export(tmp_path / "m", verbose=False)
    with pytest.raises(UsageError, match="output_0"):
        convert.convert(tmp_path / "m", "onnx", tmp_path / "m.onnx", outputs=("nope",))
    assert not (tmp_path / "m.onnx").exists()


def test_what_a_loop_leaves_over_is_no_output() -> None:
    """A graph without named outputs, in which lists are unstacked or filled, with counters."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        steps = tf.shape(x)[0]
        given = tf.TensorArray(tf.float32, steps).unstack(x)

        def step(i: Any, sums: Any, filled: Any) -> tuple[Any, ...]:
            sums = sums * 0.5 + given.read(i)
            return i + 1, sums, filled.write(i, sums)

        first = (0, tf.zeros([3]), tf.TensorArray(tf.float32, steps))
        tf.identity(tf.while_loop(lambda i, *_: i < steps, step, first)[2].stack(), name="y")
    source = Source("graphdef-object", model=graph.as_graph_def())
    model = agrees(source, [{"x": images(4, 3)}, {"x": images(1, 3)}])
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_a_result_of_a_loop_with_a_name_is_an_output() -> None:
    """The result is next to another output. A frozen graph reads its results from the While itself."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        _, total = tf.while_loop(lambda i, _: i < 3, lambda i, sums: (i + 1, sums + x), (0, tf.zeros_like(x)))
        tf.raw_ops.Identity(input=total.op.inputs[0], name="total")
        tf.identity(x * 2.0, name="twice")
    assert total.op.inputs[0].op.type in ("While", "StatelessWhile")
    source = Source("graphdef-object", model=graph.as_graph_def())
    model = agrees(source, [{"x": images(4, 3)}, {"x": images(1, 3)}])
    assert {v.name for v in model.graph.outputs} == {"total", "twice"}


@pytest.mark.slow
def test_texts_that_are_read_as_numbers_are_drawn_as_numbers(tmp_path: Path) -> None:
    """TensorFlow rejects other texts at every size; before, nothing could be verified, so nothing was written."""

    class Read(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def read(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"y": tf.strings.to_number(text) * 2.0}

    module = Read()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.read)
    report = convert.convert(tmp_path / "m", "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
