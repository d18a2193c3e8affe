"""Names of dynamic dims that TensorFlow leaves unknown: correct for different sizes, and one name where the graph joins
dims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.tensorflow_helper import agrees, frontend, images, read, shapes

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1


def by_the_others_size(x: Any, y: Any) -> Any:
    return tf.reshape(x, [tf.shape(y)[0], -1])


def a_sum_by_the_size_of_one(x: Any, y: Any) -> Any:
    return tf.reshape(x + y, [tf.shape(y)[0], -1])


def a_product_by_the_size_of_one(x: Any, y: Any) -> Any:
    both = tf.matmul(x[:, :, None], y[:, None, :])
    return tf.reshape(both, [tf.shape(x)[0], -1, 4])


def zeros_of_the_others_size(x: Any, y: Any) -> Any:
    return tf.concat([x, tf.zeros([tf.shape(y)[0], 4])], 0)


def scores(x: Any, y: Any) -> Any:
    return tf.reshape(tf.matmul(x, y, transpose_b=True), [tf.shape(y)[0], tf.shape(x)[0]])


def tiled_in_a_loop(x: Any, y: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.reshape(a + y, [tf.shape(x)[0] * tf.shape(y)[0] // tf.shape(y)[0], -1])

    return v1.while_loop(lambda i, a: i < 2, body, [0, x], [tf.TensorShape([]), tf.TensorShape([None, None])])[1]


# Valid sizes of x and y, and whether their first dims have the same name.
GRAPHS: dict[Callable[..., Any], tuple[list[tuple[int, int]], bool]] = {
    by_the_others_size: ([(6, 3), (4, 8), (2, 2)], False),
    a_sum_by_the_size_of_one: ([(3, 1), (1, 3), (3, 3)], True),
    a_product_by_the_size_of_one: ([(1, 3), (3, 1), (2, 2)], True),
    zeros_of_the_others_size: ([(3, 1), (1, 4)], False),
    scores: ([(3, 1), (2, 5)], False),
    tiled_in_a_loop: ([(1, 1), (3, 3), (3, 1)], False),
}


def frozen(build: Callable[..., Any]) -> Any:
    with tf.Graph().as_default() as graph:
        x, y = (v1.placeholder(tf.float32, [None, 4], name=name) for name in "xy")
        tf.identity(build(x, y), name="z")
    return graph.as_graph_def()


@pytest.mark.parametrize("build", GRAPHS, ids=lambda f: f.__name__)
def test_sizes_that_differ(build: Callable[..., Any]) -> None:
    graph = frozen(build)
    model = read(Source("graphdef-object", model=graph), outputs=("z",))
    sizes, one = GRAPHS[build]
    x, y = (shapes(model)[name] for name in "xy")
    assert x == ["batch", 4]
    assert (y == x) is one
    for a, b in sizes:
        feed = {"x": images(a, 4, seed=a), "y": images(b, 4, seed=9 + b)}
        with tf.Graph().as_default(), v1.Session() as session:
            tf.import_graph_def(graph, name="")
            expected = session.run("z:0", {f"{k}:0": v for k, v in feed.items()})
        got = run(model, feed)["z"]
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def text_encoder(*shape: int | None) -> Any:
    """Return the parts of BERT that reshape one input by another's size, as in its authors' code."""
    with tf.Graph().as_default() as graph:
        ids, mask, segments = (v1.placeholder(tf.int32, shape, name=n) for n in ("ids", "mask", "segments"))
        size, length = (known or tf.shape(ids)[i] for i, known in enumerate(shape))
        table = tf.constant(images(20, 8))
        flat = tf.matmul(tf.one_hot(tf.reshape(segments, [-1]), 2), tf.constant(images(2, 8)))
        x = tf.gather(table, ids) + tf.reshape(flat, [size, length, 8])
        seen = tf.ones([size, length, 1]) * tf.reshape(tf.cast(mask, tf.float32), [size, 1, length])
        weights = tf.nn.softmax(tf.matmul(x, x, transpose_b=True) + (1.0 - seen) * -1e4)
        tf.reshape(tf.reshape(tf.matmul(weights, x), [-1, 8]), [size, length, 8], name="y")
    return graph.as_graph_def()


@pytest.mark.parametrize(("length", "name"), [(6, 6), (None, "ids_d1")])
def test_inputs_that_meet_share_their_names(length: int | None, name: int | str) -> None:
    source = Source("graphdef-object", model=text_encoder(None, length))
    report = Report("convert")
    model = frontend.read(source, Options(outputs=("y",)), report)
    assert shapes(model) == {n: ["batch", name] for n in ("ids", "mask", "segments")} | {"y": ["batch", name, 8]}
    assert any("ids, mask, segments meet" in note for note in report.notes)
    assert not any("nothing in the graph" in note for note in report.notes)


def test_the_users_names_stay() -> None:
    source = Source("graphdef-object", model=frozen(a_sum_by_the_size_of_one))
    specs = tuple(map(parse_input, ("x:[n,4]", "y:[m=1..8,4]")))
    model = read(source, inputs=specs, outputs=("z",))
    assert (shapes(model)["x"][0], shapes(model)["y"][0]) == ("n", "m")
    model = read(source, inputs=specs[:1], outputs=("z",))
    assert (shapes(model)["x"][0], shapes(model)["y"][0]) == ("n", "n")
    model = read(source, inputs=specs[1:], outputs=("z",))
    assert shapes(model)["x"] == shapes(model)["y"] == ["m", 4]
    assert model.metadata_props["convert.dims"] == '{"m": [1, 8]}'


def test_an_output_may_be_called_as_a_node_inside_would_be() -> None:
    """The second value of the node `a` would be called `a_1`."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        first = tf.raw_ops.Softplus(features=x, name="a")
        second = tf.raw_ops.SquaredDifference(x=first, y=x, name="a_2")
        tf.identity(second * first, name="a_1")
    model = read(Source("graphdef-object", model=graph.as_graph_def()), outputs=("a_1", "a"))
    assert set(run(model, {"x": images(2, 4)})) == {"a_1", "a"}


def test_linspace_finds_its_axis_among_constants() -> None:
    """`tf.linspace` queries the rank and compares it before it joins its ends."""
    function = tf.function(lambda x: x + tf.linspace(0.0, 1.0, 4), input_signature=[tf.TensorSpec([None, 4], name="x")])
    source = Source("tf-function-object", model=function.get_concrete_function())
    agrees(source, [{"x": np.ones((2, 4), np.float32)}])
