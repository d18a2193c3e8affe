"""cuDNN's kernels as Keras calls them, against Keras's own layer with the same weights, because they have no kernel
here.
"""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

from convert.errors import BadInput, Unsupported
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import layers
from tests.support.tensorflow_helper import ROUNDING, images, read, rms

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
LENGTHS = np.array([6, 1, 4], np.int32)


def layer_of(kind: Any, dtype: str) -> Any:
    layer = kind(4, return_sequences=True, return_state=True, dtype=dtype)
    layer.build((None, None, 5))
    chance = np.random.default_rng(0)
    for weight in layer.weights:
        weight.assign(chance.normal(size=weight.shape) * 0.5)
    return layer


def masked(lengths: Any) -> Any:
    return None if lengths is None else tf.range(6)[None] < tf.constant(lengths)[:, None]


def by_cudnn(kind: Any, layer: Any, lengths: Any, backwards: bool) -> Any:
    """Return the function that Keras makes of a layer if there is a GPU."""
    rnn = importlib.import_module("keras.src.backend.tensorflow.rnn")
    weights = [w.numpy() for w in (layer.cell.kernel, layer.cell.recurrent_kernel, layer.cell.bias)]
    lstm = kind is layers.LSTM
    specs = [tf.TensorSpec([None, 6, 5], name="x")] + [tf.TensorSpec([None, 4], name=n) for n in "hc"[: 1 + lstm]]

    @tf.function(input_signature=specs, autograph=False)
    def function(x: Any, *states: Any) -> Any:
        call = rnn._cudnn_lstm if lstm else rnn._cudnn_gru
        given = states if lstm else states[:1]
        constants = map(tf.constant, weights)
        _, y, last = call(x, *given, *constants, masked(lengths), False, backwards, True)
        return {"y": y} | {f"z{i}": state for i, state in enumerate(last)}

    return function.get_concrete_function()


@pytest.mark.parametrize("backwards", [False, True], ids=["", "backwards"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["", "lengths"])
@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU])
def test_keras_layer(kind: Any, lengths: Any, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    information = {**tf.sysconfig.get_build_info(), "is_cuda_build": True}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: information)  # the order of gates depends on it
    single, double = layer_of(kind, "float32"), layer_of(kind, "float64")
    concrete = by_cudnn(kind, single, lengths, backwards)
    monkeypatch.undo()
    graph = read(Source("tf-function-object", model=concrete))
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert (counts["LSTM"], counts["GRU"]) == (kind is layers.LSTM, kind is layers.GRU)
    feed = {
        name: images(3, *dims, seed=i) for i, (name, dims) in enumerate({"x": (6, 5), "h": (4,), "c": (4,)}.items())
    }
    feed = {name: value for name, value in feed.items() if name != "c" or kind is layers.LSTM}
    got = list(run(graph, feed).values())
    here = np.ones((3, 6), bool) if lengths is None else masked(lengths).numpy()
    for layer in (single, double):
        layer.go_backwards = backwards
    rows = [
        [np.asarray(v) for v in layer(feed["x"], initial_state=list(feed.values())[1:], mask=masked(lengths))]
        for layer in (single, double)
    ]
    shown = here[:, ::-1] if backwards else here
    for i, (ours, deployed, exact) in enumerate(zip(got, *rows, strict=True)):
        if i == 0:  # after its end cuDNN returns zeros, while Keras repeats the last output
            ours, deployed, exact = ours[shown], deployed[shown], exact[shown]
        floor = max(rms(deployed - exact), ROUNDING * rms(exact))
        assert rms(ours - exact) <= 4 * floor


@pytest.mark.parametrize(
    ("layers_of", "attributes"),
    [(2, {}), (2, {"direction": "bidirectional"}), (1, {"rnn_mode": "rnn_tanh"}), (1, {"input_mode": "skip_input"})],
)
def test_orders_of_weights_that_nothing_here_tells(layers_of: int, attributes: dict[str, str]) -> None:
    @tf.function(input_signature=[tf.TensorSpec([6, None, 5], name="x")])
    def function(x: Any) -> Any:
        h = tf.zeros([layers_of, tf.shape(x)[1], 4])
        return tf.raw_ops.CudnnRNN(input=x, input_h=h, input_c=h, params=tf.zeros([500]), **attributes).output

    with pytest.raises(Unsupported, match="there is no GPU to check"):
        read(Source("tf-function-object", model=function.get_concrete_function()))


def test_weights_of_another_number() -> None:
    @tf.function(input_signature=[tf.TensorSpec([6, None, 5], name="x")])
    def function(x: Any) -> Any:
        h = tf.zeros([1, tf.shape(x)[1], 4])
        return tf.raw_ops.CudnnRNN(input=x, input_h=h, input_c=h, params=tf.zeros([500])).output

    with pytest.raises(BadInput, match="176 weights"):
        read(Source("tf-function-object", model=function.get_concrete_function()))
