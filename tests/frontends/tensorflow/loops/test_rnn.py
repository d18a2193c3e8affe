"""Recurrent layers of Keras as single operators, including masked and stacked ones, against TensorFlow's own
numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.request.source import Source
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import agrees, images, shapes

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")


def counts(graph: Any) -> Counter[str]:
    return Counter(n.op_type for n in graph.graph.all_nodes())


def sequential(*stack: Any, shape: tuple[int | None, ...] = (None, 5), dtype: str = "float32") -> Any:
    inputs = y = keras.Input(shape, name="x", dtype=dtype)
    for layer in stack:
        y = layer(y)
    model = keras.Model(inputs, y)
    chance = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(chance.normal(size=weight.shape) * 0.5)
    return model


RECURRENT: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "lstm": (lambda: sequential(layers.LSTM(4, return_sequences=True)), {"LSTM": 1}),
    "lstm, last": (lambda: sequential(layers.LSTM(4)), {"LSTM": 1}),
    "lstm, static": (lambda: sequential(layers.LSTM(4), shape=(7, 5)), {"LSTM": 1}),
    "lstm, relu": (lambda: sequential(layers.LSTM(4, activation="relu", use_bias=False)), {"LSTM": 1}),
    "gru": (lambda: sequential(layers.GRU(4, return_sequences=True)), {"GRU": 1}),
    "gru, reset before": (lambda: sequential(layers.GRU(4, reset_after=False)), {"GRU": 1}),
    "simple, backwards": (lambda: sequential(layers.SimpleRNN(4, go_backwards=True)), {"RNN": 1}),
    "bidirectional": (
        lambda: sequential(
            layers.Bidirectional(layers.LSTM(4, return_sequences=True)), layers.Bidirectional(layers.GRU(3))
        ),
        {"LSTM": 2, "GRU": 2},
    ),
    "stacked cells": (
        lambda: sequential(layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)], return_sequences=True)),
        {"LSTM": 1, "GRU": 1, "Loop": 0},
    ),
    "unrolled": (lambda: sequential(layers.LSTM(4, unroll=True), shape=(6, 5)), {"Loop": 0}),
    "per step": (lambda: sequential(layers.TimeDistributed(layers.Dense(4)), layers.LSTM(3)), {"LSTM": 1}),
    "convolutional": (lambda: sequential(layers.ConvLSTM2D(3, 3), shape=(4, 6, 6, 2)), {"Loop": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layer(name: str) -> None:
    build, expected = RECURRENT[name]
    model = build()
    inner = [n or 6 for n in model.inputs[0].shape[1:]]
    graph = agrees(Source("keras-object", model=model), [{"x": images(n, *inner, seed=n)} for n in (2, 1)])
    found = counts(graph)
    assert {k: found[k] for k in expected} == expected
    assert not expected.get("LSTM") or name == "per step" or not found["Loop"]
    (result,) = graph.graph.outputs
    assert shapes(graph)[str(result.name)][0] == "batch"


TOKENS = np.array([[1, 2, 0, 0, 3, 0], [0, 4, 5, 6, 7, 8], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]], np.int32)
"""Sequences with zeros in any position, also in the middle, and one of zeros only. A length cannot describe them."""

WORDS: dict[str, tuple[Callable[[], list[Any]], dict[str, int]]] = {
    "one": (lambda: [layers.LSTM(4)], {"LSTM": 1}),
    "both ways": (lambda: [layers.Bidirectional(layers.LSTM(4, return_sequences=True))], {"LSTM": 2}),
    "two": (
        lambda: [layers.SimpleRNN(4, return_sequences=True), layers.GRU(3, reset_after=False)],
        {"RNN": 1, "GRU": 1},
    ),
    "stacked": (
        lambda: [layers.RNN([layers.LSTMCell(4), layers.GRUCell(3), layers.SimpleRNNCell(2)], return_sequences=True)],
        {"LSTM": 1, "GRU": 1, "RNN": 1},
    ),
    "zeros": (
        lambda: [layers.RNN(layers.GRUCell(4), return_sequences=True, zero_output_for_mask=True)],
        {"GRU": 1},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_masked_by_embedding(name: str) -> None:
    build, expected = WORDS[name]
    model = sequential(layers.Embedding(10, 5, mask_zero=True), *build(), shape=(None,), dtype="int32")
    found = counts(agrees(Source("keras-object", model=model), [{"x": TOKENS}, {"x": TOKENS[:1]}]))
    assert {k: found[k] for k in ("LSTM", "GRU", "RNN", "Loop") if found[k]} == expected


@pytest.mark.slow
def test_masked_from_a_state_that_is_given() -> None:
    """A sequence without any unmasked step ends with that state; ONNX's operators would give zeros."""
    x, h = keras.Input((None, 5), name="x"), keras.Input((4,), name="h")
    mask = keras.ops.any(keras.ops.not_equal(x, 0.0), -1)
    y = layers.GRU(4, return_sequences=True, return_state=True)(x, initial_state=h, mask=mask)
    given = images(3, 6, 5)
    given[0, 2:4] = given[1] = 0
    graph = agrees(Source("keras-object", model=keras.Model([x, h], y)), [{"x": given, "h": images(3, 4)}])
    assert counts(graph)["Loop"] == 1


@pytest.mark.parametrize("length", [None, 6])
def test_masked_by_value(length: int | None) -> None:
    model = sequential(layers.Masking(), layers.GRU(4, return_sequences=True), shape=(length, 5))
    x = images(3, 6, 5)
    x[0, 2:4] = x[1, 5] = x[2] = 0
    found = counts(agrees(Source("keras-object", model=model), [{"x": x}]))
    assert (found["GRU"], found["Loop"]) == (1, 0)


@pytest.mark.slow
def test_states_in_and_out() -> None:
    x, h, c = keras.Input((None, 5), name="x"), keras.Input((4,), name="h"), keras.Input((4,), name="c")
    y, h_new, c_new = layers.LSTM(4, return_sequences=True, return_state=True)(x, initial_state=[h, c])
    model = keras.Model([x, h, c], {"y": y, "h_new": h_new, "c_new": c_new})
    graph = agrees(
        Source("keras-object", model=model),
        [{"x": images(n, 6, 5), "h": images(n, 4, seed=3), "c": images(n, 4, seed=4)} for n in (2, 1)],
    )
    assert counts(graph)["LSTM"] == 1
