"""Lookup tables of TensorFlow 2, and operators that the table of cases cannot hold, against TensorFlow itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import convert
from convert.errors import Unsupported
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import images, read

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1

DTYPES = ["string", "int64", "int32", "float32", "float64"]


def table(keys: Any, values: Any, key_dtype: str, value_dtype: str) -> Any:
    pairs = tf.lookup.KeyValueTensorInitializer(
        tf.constant(keys, key_dtype), tf.constant(values, value_dtype), key_dtype, value_dtype
    )
    return tf.lookup.StaticHashTable(pairs, tf.constant(values[-1], value_dtype))


CONTENT: dict[str, tuple[list[Any], list[Any]]] = {
    "string": (["one", "two", "drei", ""], ["un", "deux", "trois", "?"]),
    "int64": ([1, -2, 1 << 40, 0], [5, 6, -(1 << 50), 7]),
    "int32": ([1, -2, 1 << 30, 0], [5, 6, -(1 << 30), 7]),
    "float32": ([1.5, -2.5, 0.1, 0.0], [5.25, 0.1, 1e30, -1.0]),
    "float64": ([1.5, -2.5, 0.1, 0.0], [5.25, 0.1, 1e300, -1.0]),
}


class Tables(tf.Module):
    """One table for each pair of dtypes that TensorFlow has tables for, and the size of one."""

    def __init__(self) -> None:
        super().__init__()
        pairs = [("string", "string"), ("string", "int64"), ("string", "float32"), ("int64", "string"),
                 ("int64", "int64"), ("int64", "float32"), ("int32", "string"), ("int32", "int32"),
                 ("int32", "float32"), ("int64", "int32")]  # fmt: skip
        self.tables = {f"{k}_{v}": table(CONTENT[k][0], CONTENT[v][1], k, v) for k, v in pairs}

    def find(self, string: Any, int64: Any, int32: Any) -> Any:
        given = {"string": string, "int64": int64, "int32": int32}
        found = {name: t.lookup(given[name.partition("_")[0]]) for name, t in self.tables.items()}
        return found | {"size": self.tables["string_int64"].size()}


def test_tables_of_a_saved_model(tmp_path: Path) -> None:
    """Functions fill them when the model is loaded; keys may exist or not."""
    module = Tables()
    specs = [tf.TensorSpec([None], name, name=name) for name in ("string", "int64", "int32")]
    find = tf.function(module.find, input_signature=specs)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=find)
    graph = read(Source("savedmodel", tmp_path / "m"))
    for asked in ([0, 1, 2, 3], [2, 0, 0]):
        feed = {name: np.array([CONTENT[name][0][i] for i in asked] + CONTENT[name][0][:1]) for name in
                ("string", "int64", "int32")}  # fmt: skip
        feed = {name: a.astype(object if name == "string" else name) for name, a in feed.items()}
        feed["string"][-1], feed["int64"][-1], feed["int32"][-1] = "nothing", 99, 98
        expected = {k: v.numpy() for k, v in find(*map(tf.constant, feed.values())).items()}
        got = run(graph, feed)
        assert set(got) == set(expected)
        for name, value in expected.items():
            if value.dtype.kind == "O":
                assert [s.encode() for s in got[name]] == list(value)
            else:
                assert got[name].dtype == value.dtype
                np.testing.assert_array_equal(got[name], value)


def test_tables_that_the_model_fills_are_refused() -> None:
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.int64, [None], name="x")
        pairs = tf.lookup.KeyValueTensorInitializer(x, x * 2)
        tf.identity(tf.lookup.StaticHashTable(pairs, 0).lookup(x), name="y")
    with pytest.raises(Unsupported, match="filled with computed values"):
        read(Source("graphdef-object", model=graph.as_graph_def()), outputs=("y",))


def test_tables_that_files_fill_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.int64, [None], name="x")
        words = tf.lookup.TextFileInitializer(str(tmp_path / "words.txt"), tf.int64, -1, tf.string, -2)
        tf.identity(tf.lookup.StaticHashTable(words, "").lookup(x), name="y")
    with pytest.raises(Unsupported, match="filled from a file"):
        read(Source("graphdef-object", model=graph.as_graph_def()), outputs=("y",))


def test_a_default_that_is_computed_is_refused() -> None:
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.int64, [None], name="x")
        pairs = tf.lookup.KeyValueTensorInitializer(tf.constant([1], tf.int64), tf.constant([2], tf.int64))
        handle = tf.lookup.StaticHashTable(pairs, 0).resource_handle
        found = tf.raw_ops.LookupTableFindV2(table_handle=handle, keys=x, default_value=tf.reduce_sum(x))
        tf.identity(found, name="y")
    with pytest.raises(Unsupported, match="default value is computed"):
        read(Source("graphdef-object", model=graph.as_graph_def()), outputs=("y",))


def renamed(build: Any, before: str, after: str, attributes: dict[str, int], drop: int) -> Any:
    """Return a GraphDef with an operator in its early form, which TensorFlow 2 cannot build any more."""
    with tf.Graph().as_default() as graph:
        tf.identity(build(v1.placeholder(tf.float32, [None, 7], name="x")), name="y")
    made = graph.as_graph_def()
    (node,) = (n for n in made.node if n.op == before)
    node.op = after
    del node.input[drop]
    node.attr.clear()
    node.attr["T"].type = 1
    for name, value in attributes.items():
        node.attr[name].i = value
    return made


def test_top_k_with_an_attribute() -> None:
    made = renamed(lambda x: tf.math.top_k(x, 3).indices, "TopKV2", "TopK", {"k": 3}, 1)
    x = images(4, 7)
    np.testing.assert_array_equal(
        run(read(Source("graphdef-object", model=made)), {"x": x})["y"], tf.math.top_k(x, 3).indices.numpy()
    )


def test_elements_of_a_variable_by_many_indices() -> None:
    weight = tf.Variable(images(4, 5, 2))
    specs = [tf.TensorSpec([None, 2], tf.int32, name="i")]
    gather = tf.function(lambda i: weight.gather_nd(i), input_signature=specs)
    places = np.array([[0, 4], [3, 1], [2, 2]], np.int32)
    graph = read(Source("tf-function-object", model=gather.get_concrete_function()))
    np.testing.assert_array_equal(run(graph, {"i": places})["output_0"], gather(places).numpy())


def deployed(function: Any, x: np.ndarray) -> np.ndarray:
    """Return its output in the default opset, because runtimes lack random numbers of the newest one."""
    proto = convert.to_onnx(function, verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_shuffled_and_drawn() -> None:
    """Shuffling keeps the rows; `tf.random.categorical` draws each class with its probability."""
    specs = [tf.TensorSpec([None, 3], name="x")]
    shuffle = tf.function(lambda x: tf.random.shuffle(x), input_signature=specs)
    x = images(200, 3)
    found = deployed(shuffle, x)
    assert not np.array_equal(found, x)
    np.testing.assert_array_equal(found[np.argsort(found[:, 0])], x[np.argsort(x[:, 0])])
    draw = tf.function(lambda x: tf.random.categorical(x, 4000), input_signature=specs)
    weights = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]], np.float32))
    drawn = deployed(draw, weights)
    assert drawn.dtype == np.int64
    assert drawn.shape == (2, 4000)
    shares = np.stack([np.bincount(row, minlength=3) / 4000 for row in drawn])
    assert np.abs(shares - np.exp(weights)).max() < 0.05  # six standard deviations
