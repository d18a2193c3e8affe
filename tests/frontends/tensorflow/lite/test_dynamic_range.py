"""Verdicts on files with int8 weights whose activations are rounded at run time (dynamic-range quantization)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers as L

import convert
from convert.outcome.verdict import PASS


def dense() -> Any:
    sizes = [L.Dense(256, activation="relu"), L.Dense(256, activation="relu"), L.Dense(10, activation="softmax")]
    return keras.Sequential([L.Input((64,)), *sizes])


def convolutions() -> Any:
    layers = [L.Conv2D(32, 3, activation="relu"), L.BatchNormalization(), L.Conv2D(64, 3), L.GlobalAveragePooling2D()]
    return keras.Sequential([L.Input((16, 16, 3)), *layers, L.Dense(10)])


def depthwise() -> Any:
    layers = [L.Conv2D(32, 3), L.DepthwiseConv2D(3), L.Conv2D(64, 1, activation="relu6"), L.Flatten()]
    return keras.Sequential([L.Input((16, 16, 3)), *layers, L.Dense(10, activation="sigmoid")])


def detector() -> Any:
    """Boxes in pixels beside probabilities."""
    x = L.Input((16, 16, 3))
    features = L.GlobalAveragePooling2D()(L.Conv2D(32, 3, activation="relu")(x))
    boxes = L.Rescaling(1000.0)(L.Dense(64)(features))
    return keras.Model(x, L.Concatenate()([boxes, L.Dense(64, activation="sigmoid")(features)]))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "tflite", "torch"])
@pytest.mark.parametrize("network", [dense, convolutions, depthwise, detector])
def test_verdict(network: Callable[[], Any], form: str, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    converter = tf.lite.TFLiteConverter.from_keras_model(network())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    path = tmp_path / "model.tflite"
    path.write_bytes(converter.convert())
    report = convert.convert(path, form, tmp_path / "converted")
    assert report.verdict is not None
    assert report.verdict.status == PASS, report.verdict.reason
