"""Placeholders with a default: a note says to what they are fixed and how to keep them inputs, which works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends import tensorflow as frontend

import convert.api
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import agrees, images

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1
FORMS = ["frozen-graph", "graphdef-object", "savedmodel", "tf-meta"]


def network() -> Any:
    """Return a network of x [?, 3] with a dropout that a placeholder enables, and a shift of unknown size."""
    x = v1.placeholder(tf.float32, [None, 3], name="x")
    training = v1.placeholder_with_default(False, [], name="is_training")
    keep = tf.identity(v1.placeholder_with_default(np.float32(0.75), [], name="keep_prob"))
    shift = v1.placeholder_with_default(np.float32([0.5, -1.0, 2.0]), [None], name="shift")
    weight = v1.get_variable("w", initializer=tf.constant(images(3, 3, seed=9)), use_resource=True)
    shown = tf.matmul(x, weight) + shift
    return x, tf.identity(tf.where(training, shown * keep, shown / 2.0), name="y")


def saved(form: str, folder: Path) -> tuple[Source, Any]:
    """Return the network as a source of `form`, and the saved graph, as a GraphDef of constants."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x, y = network()
        session.run(v1.global_variables_initializer())
        constant = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        if form == "savedmodel":
            v1.saved_model.simple_save(session, str(folder / "m"), {"x": x}, {"y": y})
            return Source(form, folder / "m"), constant
        if form == "tf-meta":
            v1.train.Saver().save(session, str(folder / "m.ckpt"))
            return Source(form, folder / "m.ckpt.meta"), constant
    if form == "graphdef-object":
        return Source(form, model=constant), constant
    (folder / "m.pb").write_bytes(constant.SerializeToString())
    return Source(form, folder / "m.pb"), constant


def expected(graph: Any, feed: dict[str, np.ndarray]) -> np.ndarray:
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(graph, name="")
        return np.asarray(session.run("y:0", {f"{n}:0": v for n, v in feed.items()}))


def read(source: Source, *inputs: str) -> tuple[ir.Model, list[str]]:
    report = Report("convert")
    return frontend.read(source, Options(inputs=tuple(map(parse_input, inputs))), report), list(report.notes)


@pytest.mark.parametrize("form", FORMS)
def test_fixed_with_a_note(form: str, tmp_path: Path) -> None:
    source, graph = saved(form, tmp_path)
    model, notes = read(source)
    assert [v.name for v in model.graph.inputs] == ["x"]
    x = images(4, 3)
    np.testing.assert_allclose(run(model, {"x": x})["y"], expected(graph, {"x": x}), rtol=1e-6)
    told = [n for n in notes if "is fixed to its default" in n]
    assert sorted(told) == [
        "the placeholder is_training is fixed to its default False; --input is_training:bool[] keeps it an input",
        "the placeholder keep_prob is fixed to its default 0.75; --input keep_prob:float32[] keeps it an input",
        "the placeholder shift is fixed to its default [ 0.5, -1. ,  2. ]; --input shift:float32[?] keeps it an input",
    ]


@pytest.mark.parametrize("form", FORMS)
def test_kept_as_an_input(form: str, tmp_path: Path) -> None:
    """It stays an input as the note says; TensorFlow's own session is fed the same."""
    source, graph = saved(form, tmp_path)
    specs = [re.search(r"--input (\S+)", n)[1] for n in read(source)[1] if "--input" in n]  # type: ignore[index]
    model, notes = read(source, *specs)
    assert {v.name for v in model.graph.inputs} == {"x", "is_training", "keep_prob", "shift"}
    assert not any("is fixed" in n for n in notes)
    feeds = [
        {"x": images(n, 3), "is_training": np.array(t), "keep_prob": np.float32(k), "shift": images(3, seed=n)}
        for n, t, k in [(2, True, 0.25), (1, False, 0.5)]
    ]
    feeds.append(feeds[0] | {"shift": images(1)})
    for feed in feeds:
        np.testing.assert_allclose(run(model, feed)["y"], expected(graph, feed), rtol=1e-6, atol=1e-6)
    agrees(source, feeds, inputs=tuple(map(parse_input, specs)))


def test_one_by_its_name_alone(tmp_path: Path) -> None:
    source, graph = saved("frozen-graph", tmp_path)
    model, _ = read(source, "is_training")
    feed = {"x": images(2, 3), "is_training": np.array(True)}
    np.testing.assert_allclose(run(model, feed)["y"], expected(graph, feed), rtol=1e-6)


@pytest.mark.parametrize("form", ["frozen-graph", "savedmodel"])
def test_verified_as_a_whole(form: str, tmp_path: Path) -> None:
    source, _ = saved(form, tmp_path)
    report = convert.api.convert(source.file, "onnx", tmp_path / "m.onnx", inputs=["is_training:bool[]"])
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert {v.name for v in ir.load(tmp_path / "m.onnx").graph.inputs} == {"x", "is_training"}


def test_inside_of_a_function() -> None:
    """Options have no effect inside of a function."""

    @tf.function(input_signature=[tf.TensorSpec([3], name="x")])
    def outer(x: Any) -> Any:
        return inner(x) + 1.0

    @tf.function
    def inner(x: Any) -> Any:
        return x * tf.raw_ops.PlaceholderWithDefault(input=tf.reduce_sum(x), shape=[])

    model, notes = read(Source("tf-function-object", model=outer.get_concrete_function()))
    np.testing.assert_allclose(run(model, {"x": np.ones(3, np.float32)})["output_0"], np.full(3, 4.0))
    assert any("computes; to have it as an input, make it an argument" in n for n in notes)
