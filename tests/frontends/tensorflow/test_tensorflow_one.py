"""Graphs made by TensorFlow 1.15 against the results of that version, and against TensorFlow 2 in float64."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.frontends.tensorflow.runner import runner

from convert.errors import BadInput, UsageError
from convert.passes.to_float64 import widen_model
from convert.reference import executor
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import ROUNDING, agrees, read, rms

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

FOLDER = Path(__file__).parents[3] / "fixtures" / "tensorflow1"
META = FOLDER / "checkpoint" / "model.ckpt.meta"

# Counts of Loop and If in each graph; operators that are not named do not occur.
FROZEN: dict[str, dict[str, int]] = {
    "while_loop": {"Loop": 1},
    "cond": {"If": 2},
    "case": {"If": 3},
    "nested": {"If": 2, "Loop": 2},
    "arrays": {"Loop": 4},
    "written": {"If": 1, "Loop": 1},
    "dynamic_lstm": {"LSTM": 1},
    "dynamic_lstm_lengths": {"LSTM": 1},
    "dynamic_lstm_peepholes": {"Loop": 1},
    "dynamic_gru": {"GRU": 1},
    "dynamic_gru_time_major": {"GRU": 1},
    "bidirectional": {"LSTM": 2},
    "stacked": {"LSTM": 1, "GRU": 1},
    "stacked_lengths": {"LSTM": 1, "GRU": 1, "RNN": 1},
    "stacked_around": {"LSTM": 1, "GRU": 1},
    "static": {},
    "block_lstm": {"LSTM": 1},
    "block_lstm_lengths": {"Scan": 1},
    "block_cells": {"LSTM": 1, "GRU": 1},
    "fused_convolutions": {},
}

WITHOUT_DOUBLE = ("block_lstm", "block_lstm_lengths", "block_cells", "fused_convolutions")
"""TensorFlow's kernels for these have no float64."""


def recorded(name: str) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
    """Return inputs and outputs of each recorded run."""
    with np.load(FOLDER / "expected.npz") as file:
        rows: dict[str, dict[str, dict[str, np.ndarray]]] = {}
        for key in file.files:
            graph, number, side, tensor = key.split("/", 3)
            if graph == name:
                rows.setdefault(number, {"in": {}, "out": {}})[side][tensor] = file[key]
    return [(row["in"], row["out"]) for row in rows.values()]


def holds(graph: Any, name: str) -> None:
    """Assert that the graph gives the recorded results: the same dtypes and shapes, numbers to a few roundings."""
    rows = recorded(name)
    assert rows
    for feed, expected in rows:
        got = run(graph, {k: v.astype(object) if v.dtype.kind in "SU" else v for k, v in feed.items()})
        assert set(got) == set(expected)
        for key, value in expected.items():
            if value.dtype.kind == "S":
                assert [s.encode() for s in got[key].ravel()] == value.ravel().tolist()
                continue
            assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape)
            if value.dtype.kind == "f":
                # The rounding error of TensorFlow 1.15 itself, measured with the graph in float64.
                exact = double(graph, feed)[key]
                floor = max(rms(value - exact), ROUNDING * rms(exact))
                assert rms(got[key] - exact) <= 4 * floor <= 4 * 64 * ROUNDING * rms(exact)
            else:
                np.testing.assert_array_equal(got[key], value)


def double(graph: Any, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of the graph in float64, by the reference executor."""
    return executor.run(widen_model(graph), feed)


@pytest.mark.parametrize("name", FROZEN)
def test_frozen(name: str) -> None:
    source = Source("frozen-graph", FOLDER / f"{name}.pb")
    feeds = [feed for feed, _ in recorded(name)]
    graph = read(source) if name in WITHOUT_DOUBLE else agrees(source, feeds)
    holds(graph, name)
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    control = ("If", "Loop", "Scan", "LSTM", "GRU", "RNN")
    assert {k: counts[k] for k in control if counts[k]} == FROZEN[name]


@pytest.mark.parametrize("name", ["dynamic_lstm_lengths", "stacked_lengths"])
def test_lengths_that_are_nothing_and_beyond_the_end(name: str) -> None:
    """A length of zero gives the initial state, and a length beyond the end gives the state of the last element."""
    feed = {**recorded(name)[0][0], "n": np.array([0, 9, 6], np.int32)}
    agrees(Source("frozen-graph", FOLDER / f"{name}.pb"), [feed])


# -- checkpoints with their graph ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [META, META.parent], ids=["file", "folder"])
def test_meta(path: Path) -> None:
    """A training graph, with its optimizer and stacks for gradients in the loop."""
    graph = read(Source("tf-meta", path), outputs=("tail/probabilities",))
    holds(graph, "checkpoint")
    assert [n.op_type for n in graph.graph.all_nodes()].count("LSTM") == 1


@pytest.mark.slow
def test_meta_is_run_as_it_is_read() -> None:
    feeds = [feed for feed, _ in recorded("checkpoint")]
    agrees(Source("tf-meta", META), feeds, outputs=("tail/probabilities",))


def test_outputs_of_a_graph_that_trains_have_to_be_named() -> None:
    with pytest.raises(UsageError, match="is a graph that trains"):
        read(Source("tf-meta", META))


@pytest.mark.parametrize("resource", [False, True])
def test_what_initializes_variables_is_no_output(resource: bool, tmp_path: Path) -> None:
    """Nodes of an initializer, and a variable's computed initial value, are read by nothing else."""
    with tf.Graph().as_default() as net, tf.compat.v1.Session(graph=net) as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 4], name="x")
        w = tf.compat.v1.get_variable("w", [4, 3], use_resource=resource)
        b = tf.compat.v1.get_variable("b", initializer=tf.range(3.0) / 3.0, use_resource=resource)
        tf.nn.softmax(tf.matmul(x, w) + b, name="y")
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    given = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    graph = agrees(Source("tf-meta", tmp_path), [{"x": given}])
    assert [v.name for v in graph.graph.outputs] == ["y"]


def test_unknown_nodes_and_signatures_are_told() -> None:
    with pytest.raises(UsageError, match="no node 'gone'"):
        read(Source("tf-meta", META), outputs=("gone",))
    with pytest.raises(UsageError, match="no signature"):
        read(Source("tf-meta", META), signature="gone", outputs=("tail/probabilities",))


def test_meta_without_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "model.ckpt.meta").write_bytes(META.read_bytes())
    with pytest.raises(BadInput, match=r"model\.ckpt\.index"):
        read(Source("tf-meta", tmp_path / "model.ckpt.meta"), outputs=("tail/probabilities",))


def test_several_graphs_in_a_folder(tmp_path: Path) -> None:
    for file in META.parent.iterdir():
        for step in ("-1", "-2"):
            (tmp_path / file.name.replace("model.ckpt", f"model.ckpt{step}")).write_bytes(file.read_bytes())
    with pytest.raises(UsageError, match="holds 2 graphs"):
        read(Source("tf-meta", tmp_path), outputs=("tail/probabilities",))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-2"\n')
    holds(read(Source("tf-meta", tmp_path), outputs=("tail/probabilities",)), "checkpoint")


# -- SavedModels --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("signature", "name"), [("", "savedmodel"), ("numbers", "savedmodel_numbers")])
def test_saved_model_with_tables(signature: str, name: str) -> None:
    graph = read(Source("savedmodel", FOLDER / "savedmodel"), signature=signature)
    holds(graph, name)
    assert "LabelEncoder" in {n.op_type for n in graph.graph}


def _normalize(x: Any) -> Any:
    return tf.compat.v1.nn.fused_batch_norm(x, *np.float32([[2, 3], [1, 0], [0.5, 0], [1, 2]]), is_training=False)[0]


ENDS = {
    "Merge": lambda x: tf.cond(tf.reduce_mean(x) > 0, lambda: x * 2, lambda: -x),
    "FusedBatchNormV3": _normalize,
    "_FusedConv2D": lambda x: _normalize(tf.nn.conv2d(x, np.ones((1, 1, 2, 2), np.float32), 1, "SAME")),
    "TopKV2": lambda x: tf.raw_ops.TopKV2(input=x, k=1),
}
"""Last operators of a frozen graph whose first tensor is the only result; TopKV2 has two results."""


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_several_tensors(name: str, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    graph = tf.Graph()
    before = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with graph.as_default():
            x = v1.placeholder(tf.float32, [None, 3, 3, 2], "x")
            ENDS[name](x)
    finally:
        if before:
            v1.enable_control_flow_v2()
    definition = graph.as_graph_def()
    (path := tmp_path / "m.pb").write_bytes(definition.SerializeToString())
    model = read(Source("frozen-graph", path))
    names = [str(v.name) for v in model.graph.outputs]
    assert len(names) == 1 + (name == "TopKV2")
    source = Source("frozen-graph", path)
    for sign in (1, -1):
        feed = {"x": sign * np.abs(np.random.default_rng(0).standard_normal((2, 3, 3, 2)).astype(np.float32))}
        (want,) = runner.run(source, [feed], precision="float32", options=Options())
        got = run(model, feed)
        assert set(want) == set(names)
        for key, value in want.items():
            np.testing.assert_allclose(got[key], value, 1e-5, 1e-5)
