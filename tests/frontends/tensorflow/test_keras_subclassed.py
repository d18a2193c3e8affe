"""Keras models that are classes with their own `call`, and Sequentials that get their inputs from a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
from convert.errors import UsageError
from convert.request.options import parse_input
from convert.request.source import Source
from tests.support.tensorflow_helper import images, read, shapes

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
keras = pytest.importorskip("keras", reason="Keras makes the models")
layers = keras.layers


class Pooled(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = layers.Conv1D(4, 3), layers.BatchNormalization(), layers.Dense(2)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.out(layers.GlobalMaxPooling1D()(self.norm(self.conv(x), training=training)))


class Joined(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = layers.Embedding(9, 4), layers.Dense(3)

    def call(self, words: Any, weights: Any) -> Any:
        return {"sum": self.out(tf.reduce_sum(self.embed(words) * weights[..., None], 1)), "words": words + 1}


class Listed(keras.Model):  # type: ignore[misc]
    def call(self, inputs: Any) -> Any:
        first, second = inputs
        return first * second + 1


MODELS: dict[str, tuple[type, list[str], list[str]]] = {
    "one": (Pooled, ["float32[batch,steps,3]"], ["x"]),
    "two parameters": (Joined, ["words:int32[batch,5]", "weights:float32[batch,5]"], ["words", "weights"]),
    "a list": (Listed, ["float32[batch,5]", "float32[batch,5]"], ["inputs", "input_1"]),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n != "one" else ()) for n in MODELS])
def test_inputs_are_those_that_are_described(name: str, tmp_path: Path) -> None:
    make, specs, names = MODELS[name]
    report = convert.convert(make(), "onnx", tmp_path / "m.onnx", inputs=specs)
    assert [t.name for t in report.inputs] == names
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason


def test_what_is_not_described_or_not_taken_is_told() -> None:
    model = Pooled()
    with pytest.raises(UsageError, match="are not known") as caught:
        convert.to_onnx(model, inputs=[images(2, 9, 3)])
    assert 'inputs=["float32[batch,9,3]"]' in str(caught.value)
    model(images(2, 9, 3))
    with pytest.raises(UsageError, match=r"does not take what is described \(x \[None, 9, 4\]\)"):
        convert.to_onnx(model, inputs=["float32[batch,9,4]"])


@pytest.mark.parametrize("described", [False, True])
def test_a_sequential_that_was_called_takes_any_batch(described: bool) -> None:
    model = keras.Sequential([layers.Dense(3), layers.Dense(2)])
    options: dict[str, Any] = {"inputs": (parse_input("float32[n,4]"),)} if described else {}
    if not described:
        model(np.zeros((2, 4), np.float32))
    found = shapes(read(Source("keras-object", model=model), **options))
    assert [dims[0] for dims in found.values()] == ["n" if described else "batch"] * 2
