"""TensorFlow 1 control flow: nested loops and branches, and those that freezing makes of TensorFlow 2's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from convert.errors import Unsupported
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import ROUNDING, agrees, images, read, rms

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def _old_control_flow() -> Iterator[None]:
    v1.disable_control_flow_v2()
    yield
    v1.enable_control_flow_v2()


def branch(x: Any) -> Any:
    return v1.cond(tf.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)


def branch_of_constants(x: Any) -> Any:
    return v1.cond(tf.reduce_sum(x) > 0, lambda: tf.constant(1.0), lambda: tf.constant(2.0))


def branch_in_branch(x: Any) -> Any:
    return v1.cond(
        tf.reduce_sum(x) > 0, lambda: v1.cond(x[0, 0] > 0, lambda: x * 2.0, lambda: x * 5.0), lambda: x - 1.0
    )


def loop(x: Any) -> Any:
    return v1.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 0.5 + tf.reduce_sum(x)), [0, x])[1]


def loop_in_loop(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        inner = v1.while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b + x), [0, a])[1]
        return i + 1, v1.cond(i > 2, lambda: inner * 0.5, lambda: inner)

    return v1.while_loop(lambda i, a: tf.logical_and(i < 5, tf.reduce_sum(a) < 1e3), body, [0, x])[1]


def loop_in_branch(x: Any) -> Any:
    return v1.cond(
        tf.reduce_sum(x) > 0,
        lambda: v1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x])[1],
        lambda: x,
    )


GRAPHS: dict[Callable[[Any], Any], dict[str, int]] = {
    branch: {"If": 1},
    branch_of_constants: {"If": 1},
    branch_in_branch: {"If": 2},
    loop: {"Loop": 1},
    loop_in_loop: {"Loop": 2, "If": 1},
    loop_in_branch: {"Loop": 1, "If": 1},
}


def graph_of(build: Callable[[Any], Any]) -> Any:
    with tf.Graph().as_default() as graph:
        tf.identity(build(v1.placeholder(tf.float32, [None, 3], name="x")), name="y")
    return graph.as_graph_def()


@pytest.mark.parametrize("build", GRAPHS, ids=lambda f: f.__name__)
def test_graph(build: Callable[[Any], Any]) -> None:
    made = graph_of(build)
    assert {"Merge", "Switch"} <= {n.op for n in made.node}
    graph = agrees(Source("graphdef-object", model=made), [{"x": images(2, 3)}, {"x": -images(2, 3)}])
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: counts[k] for k in ("If", "Loop")} == {"If": 0, "Loop": 0} | GRAPHS[build]


@pytest.mark.slow
def test_recurrent_layer_frozen_as_tensorflow_freezes_by_default() -> None:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    v1.enable_control_flow_v2()
    inputs = keras.Input((None, 5), name="x")
    model = keras.Model(inputs, layers.LSTM(4, return_sequences=True)(inputs))
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec([None, None, 5], name="x"))
    made = convert_variables_to_constants_v2(concrete).graph.as_graph_def()
    assert "Merge" in {n.op for n in made.node}
    graph = agrees(Source("graphdef-object", model=made), [{"x": images(n, 6, 5)} for n in (2, 1)])
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert (counts["LSTM"], counts["Loop"]) == (1, 0)


def steps(x: Any) -> Any:
    """Build the parts of dynamic_rnn: an array that is unstacked and read, and one that is written and stacked."""
    sequence = tf.transpose(tf.reshape(x, [-1, 3, 1]), [1, 0, 2])
    given = v1.TensorArray(tf.float32, size=3).unstack(sequence)
    kernel, recurrent = tf.constant(images(1, 4)), tf.constant(images(4, 4, seed=2))

    def body(t: Any, state: Any, taken: Any) -> Any:
        state = tf.tanh(tf.matmul(given.read(t), kernel) + tf.matmul(state, recurrent))
        return t + 1, state, taken.write(t, state)

    start = tf.zeros([tf.shape(x)[0], 4])
    _, last, taken = v1.while_loop(lambda t, *_: t < 3, body, [0, start, v1.TensorArray(tf.float32, size=3)])
    return tf.concat([tf.reshape(tf.transpose(taken.stack(), [1, 0, 2]), [-1, 12]), last], 1)


def backwards(x: Any) -> Any:
    """Write an array from the end, read it in the loop, and concatenate its elements."""
    rows = v1.TensorArray(tf.float32, size=4, element_shape=[None, 3], clear_after_read=False)
    rows = rows.write(3, x)

    def body(i: Any, rows: Any) -> Any:
        return i - 1, rows.write(i, 0.5 * rows.read(i + 1) + 1.0)

    rows = v1.while_loop(lambda i, _: i >= 0, body, [2, rows])[1]
    return rows.concat() + tf.cast(rows.size(), tf.float32) + rows.gather([1, 2])[0, 0]


@pytest.mark.parametrize(("build", "counts"), [(steps, {"RNN": 1, "Loop": 0, "Gather": 0}), (backwards, {"Loop": 1})])
def test_arrays(build: Callable[[Any], Any], counts: dict[str, int]) -> None:
    made = graph_of(build)
    assert {"TensorArrayV3", "TensorArrayWriteV3"} <= {n.op for n in made.node}
    graph = read(Source("graphdef-object", model=made))
    for feed in ({"x": images(2, 3)}, {"x": images(1, 3)}):
        with tf.Graph().as_default() as whole, v1.Session(graph=whole) as session:
            (expected,) = tf.import_graph_def(made, return_elements=["y:0"], name="")
            reference = session.run(expected, {"x:0": feed["x"]})
        got = run(graph, feed)["y"]
        assert (got.dtype, got.shape) == (reference.dtype, reference.shape)
        assert rms(got - reference) < 8 * ROUNDING * rms(reference)
    found = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: found[k] for k in counts} == counts


def choice(x: Any, i: Any) -> Any:
    return tf.switch_case(i[0], [lambda: x * 2.0, lambda: tf.zeros([2, 3]), lambda: x - tf.cast(i, tf.float32)])


def choice_of_constants(x: Any, i: Any) -> Any:
    return x + tf.switch_case(i[0], [lambda: tf.constant(1.0), lambda: tf.constant(5.0), lambda: tf.constant(3.0)])


def choices_in_a_loop(x: Any, i: Any) -> Any:
    def body(k: Any, a: Any) -> Any:
        inner = [lambda: a * 0.5, lambda: tf.switch_case(i[0], [lambda: a + 1.0, lambda: a - x]), lambda: a + x]
        return k + 1, tf.switch_case(k, inner)

    return tf.while_loop(lambda k, a: k < 4, body, [0, x])[1]


@pytest.mark.parametrize("build", [choice, choice_of_constants, choices_in_a_loop], ids=lambda f: f.__name__)
def test_several_branches_as_freezing_leaves_them(build: Callable[[Any, Any], Any]) -> None:
    """An index that no branch has selects the last branch."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    v1.enable_control_flow_v2()
    specs = [tf.TensorSpec([2, 3], name="x"), tf.TensorSpec([1], tf.int32, name="i")]
    concrete = tf.function(build, input_signature=specs, autograph=False).get_concrete_function()
    made = convert_variables_to_constants_v2(concrete).graph.as_graph_def()
    assert "_SwitchN" in {n.op for n in made.node}
    feeds = [{"x": images(2, 3), "i": np.array([i], np.int32)} for i in (0, 1, 2, 7, -1)]
    agrees(Source("graphdef-object", model=made), feeds)


def test_what_is_neither_loop_nor_branch_is_refused() -> None:
    def crossed(x: Any) -> Any:
        """Return one Merge of two Switches with different predicates."""
        high, _ = v1.raw_ops.Switch(data=x, pred=x[0, 0] > 0)
        _, low = v1.raw_ops.Switch(data=x, pred=x[0, 1] > 0)
        return v1.raw_ops.Merge(inputs=[high, low]).output

    with pytest.raises(Unsupported, match="neither a loop nor a branch"):
        read(Source("graphdef-object", model=graph_of(crossed)))
