"""Keras models of text, sequences and attention against Keras itself: their ONNX form, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import convert
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import agrees, images, read, shapes

Feed = dict[str, np.ndarray]


def weighted(model: Any) -> Any:
    """Return the model with weights large enough that every path affects the output."""
    chance = np.random.default_rng(0)
    for weight in model.weights:
        if "seed" not in weight.path and weight.dtype == "float32":
            weight.assign(chance.normal(size=weight.shape) * 0.5)
    return model


def tokens(batch: int, length: int = 6) -> np.ndarray:
    """Return token ids, with zeros at the end of some rows and one in the middle."""
    drawn = np.random.default_rng(batch).integers(1, 10, (batch, length)).astype(np.int32)
    drawn[0, length - 2 :] = 0
    drawn[-1, 1] = 0
    return drawn


# -- attention --------------------------------------------------------------------------------------------------------


def two(layer: Any, lengths: tuple[int | None, int | None] = (5, 6), **call: Any) -> Any:
    """Return queries and values from two inputs, through a layer that takes a list."""
    q, v = keras.Input((lengths[0], 8), name="q"), keras.Input((lengths[1], 8), name="v")
    return keras.Model([q, v], layer([q, v], **call))


def heads(layer: Any, lengths: tuple[int | None, int | None] = (5, 6), **call: Any) -> Any:
    """Return the same through a layer that takes two arguments."""
    q, v = keras.Input((lengths[0], 8), name="q"), keras.Input((lengths[1], 8), name="v")
    return keras.Model([q, v], layer(q, v, **call))


def scored() -> Any:
    q, v = keras.Input((5, 8), name="q"), keras.Input((6, 8), name="v")
    y, scores = layers.MultiHeadAttention(2, 4)(q, v, return_attention_scores=True)
    return keras.Model([q, v], {"y": y, "scores": scores})


ATTENTION: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "of many heads": (lambda: heads(layers.MultiHeadAttention(2, 4, value_dim=3)), {"Attention": 1, "Einsum": 0}),
    "of any length": (lambda: heads(layers.MultiHeadAttention(2, 4), (None, None)), {"Attention": 1, "Einsum": 0}),
    "causal": (
        lambda: heads(layers.MultiHeadAttention(2, 4), (6, 6), use_causal_mask=True),
        {"Attention": 1, "Einsum": 0},
    ),
    "with its scores": (scored, {"Softmax": 1, "Einsum": 0}),
    "of groups of heads": (lambda: heads(layers.GroupQueryAttention(4, 4, 2)), {"Einsum": 0}),
    "of one head": (lambda: two(layers.Attention()), {"Softmax": 1}),
    "scaled": (lambda: two(layers.Attention(use_scale=True)), {"Softmax": 1}),
    "of concatenations": (lambda: two(layers.Attention(score_mode="concat")), {"Softmax": 1, "Tanh": 1}),
    "additive": (lambda: two(layers.AdditiveAttention()), {"Softmax": 1, "Tanh": 1}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    build, expected = ATTENTION[name]
    model = weighted(build())
    long, short = (n or 7 for n in (model.inputs[0].shape[1], model.inputs[1].shape[1]))
    feeds = [{"q": images(n, long, 8, seed=n), "v": images(n, short, 8, seed=n + 5)} for n in (2, 1)]
    counts = Counter(n.op_type for n in agrees(Source("keras-object", model=model), feeds).graph.all_nodes())
    assert {k: counts[k] for k in expected} == expected


@pytest.mark.slow
def test_attention_of_masked_text() -> None:
    """The mask of an Embedding hides keys; a row of padding only attends to all of them equally, as in Keras."""
    x = keras.Input((6,), name="x", dtype="int32")
    y = layers.Embedding(10, 8, mask_zero=True)(x)
    y = layers.LayerNormalization()(layers.Add()([y, layers.MultiHeadAttention(2, 4)(y, y)]))
    model = weighted(keras.Model(x, layers.Dense(3)(layers.Flatten()(y))))
    padding = np.concatenate([tokens(1), np.zeros((1, 6), np.int32)])
    graph = agrees(Source("keras-object", model=model), [{"x": tokens(3)}, {"x": padding}])
    assert Counter(n.op_type for n in graph.graph.all_nodes())["Attention"] == 1


# -- sequences --------------------------------------------------------------------------------------------------------


def with_states(layer: Any) -> Any:
    x = keras.Input((None, 5), name="x")
    found = layer(x)
    return keras.Model(x, dict(zip("yhc", found if isinstance(found, (list, tuple)) else [found], strict=False)))


RECURRENT: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "lstm with its state": (lambda: with_states(layers.LSTM(4, return_sequences=True, return_state=True)), {"LSTM": 1}),
    "gru with its state": (lambda: with_states(layers.GRU(4, return_sequences=True, return_state=True)), {"GRU": 1}),
    "backwards": (lambda: with_states(layers.LSTM(4, go_backwards=True, return_state=True)), {"LSTM": 1}),
    "both ways, added": (
        lambda: with_states(layers.Bidirectional(layers.GRU(4, return_sequences=True), merge_mode="sum")),
        {"GRU": 2},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent(name: str) -> None:
    build, expected = RECURRENT[name]
    model = weighted(build())
    graph = agrees(Source("keras-object", model=model), [{"x": images(n, 6, 5, seed=n)} for n in (2, 1)])
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: counts[k] for k in expected} == expected
    assert set(shapes(graph)) == {"x", *"yhc"[: len(graph.graph.outputs)]}


@pytest.mark.slow
def test_state_that_is_kept_goes_in_and_out() -> None:
    """A stateful layer changes the model: its state after one call is fed to the next call, and agrees."""
    x = keras.Input(batch_shape=(2, 6, 5), name="x")
    model = weighted(keras.Model(x, layers.LSTM(4, stateful=True)(x)))
    graph = read(Source("keras-object", model=model))
    state = json.loads(graph.metadata_props["convert.state"])
    assert len(state) == 2
    told = {name: np.zeros((2, 4), np.float32) for name in state}
    for seed in (1, 2, 3):
        given = images(2, 6, 5, seed=seed)
        found = run(graph, {"x": given, **told})
        (y,) = (v for name, v in found.items() if name not in {row["output"] for row in state.values()})
        np.testing.assert_allclose(y, model(given).numpy(), rtol=1e-5, atol=1e-6)
        told = {name: found[row["output"]] for name, row in state.items()}


# -- text -------------------------------------------------------------------------------------------------------------


def test_classifier_of_words() -> None:
    x = keras.Input((None,), name="words", dtype="int32")
    y = layers.Embedding(10, 6, mask_zero=True)(x)
    y = layers.GlobalMaxPooling1D()(layers.Conv1D(8, 3, padding="same", activation="relu")(y))
    model = weighted(keras.Model(x, layers.Dense(2, activation="softmax", name="mood")(y)))
    graph = agrees(Source("keras-object", model=model), [{"words": tokens(3)}, {"words": tokens(1, 9)}])
    assert shapes(graph) == {"words": ["batch", "words_d1"], "mood": ["batch", 2]}


def test_vocabularies(tmp_path: Path) -> None:
    """Map strings to numbers, and encode which of them occur."""
    x = keras.Input((3,), name="x", dtype="string")
    numbers = layers.StringLookup(vocabulary=["red", "green", "blue"])(x)
    model = keras.Model(x, {"numbers": numbers, "ones": layers.CategoryEncoding(4, "multi_hot")(numbers)})
    model.export(tmp_path / "m", verbose=False)
    colours = np.array([["red", "blue", "mauve"], ["green", "green", "red"]], dtype=object)
    got = run(read(Source("savedmodel", tmp_path / "m")), {"x": colours})
    expected = model(keras.ops.convert_to_tensor(colours.tolist(), dtype="string"))
    assert set(got) == {"numbers", "ones"}
    for name, value in got.items():
        np.testing.assert_array_equal(value, np.asarray(expected[name]))


@pytest.mark.slow
def test_vectorized_text(tmp_path: Path) -> None:
    """Lower case, without punctuation, split at spaces: StringSplit splits a text at each mark."""
    layer = layers.TextVectorization(output_sequence_length=4)
    layer.adapt(["a man", "a plan"])
    x = keras.Input((1,), name="x", dtype="string")
    model = keras.Model(x, layer(x))
    texts = np.array([["A man, a plan!"], [""], ["...plan-man"], ["[a] \\man's"]], object)
    proto = convert.to_onnx(model, verify=False)
    (got,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": texts})
    np.testing.assert_array_equal(got, np.asarray(model(keras.ops.convert_to_tensor(texts.tolist()))))
