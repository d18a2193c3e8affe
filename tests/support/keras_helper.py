"""Keras networks with random weights for tests, seeded and calibrated so that their outputs depend on their inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
pytest.importorskip("tensorflow", reason="TensorFlow runs the Keras models")
import keras
from keras import layers

from tests.support.tensorflow_helper import images

CLASSES = 10

# 32 × 32 pixels if a network accepts that; EfficientNetV2's outputs are noise below 96.
SIZES = {"Xception": 71, "InceptionV3": 75, "InceptionResNetV2": 75, "EfficientNetV2B0": 96}


def create(name: str) -> Any:
    """Return the network `name` of `NETWORKS`, calibrated."""
    keras.utils.set_random_seed(0)
    keras.backend.clear_session()  # so that names of layers do not depend on networks built before
    model = NETWORKS[name]()
    calibrate(model, (size_of(name), size_of(name), 3))
    return model


def size_of(name: str) -> int:
    """Return height and width of a network's images."""
    return SIZES.get(name, 32)


def calibrate(model: Any, shape: tuple[int, ...]) -> None:
    """Set scales, shifts and statistics. With random weights alone the output hardly depends on the input."""
    chance = np.random.default_rng(0)
    for weight in model.weights:
        if weight.path.endswith("gamma"):
            weight.assign(chance.uniform(0.5, 1.5, weight.shape))
        elif weight.path.endswith(("beta", "bias")):
            weight.assign(chance.normal(0, 0.1, weight.shape))
    normalized = [x for x in model._flatten_layers() if "Normalization" in type(x).__name__]
    for layer in normalized:
        layer.momentum = 0.0
    if not normalized:  # Glorot's initialization halves the signal at every Relu
        for weight in model.weights:
            if weight.path.endswith("kernel"):
                weight.assign(weight * np.sqrt(2.0))
    model(images(8, *shape, seed=2), training=True)


def _application(name: str) -> Callable[[], Any]:
    def build() -> Any:
        make = getattr(keras.applications, name)
        shape = (size_of(name), size_of(name), 3)
        return make(weights=None, input_shape=shape, classes=CLASSES, classifier_activation=None)

    return build


def _pixels() -> Any:
    return layers.Input((32, 32, 3), name="pixels")


def vision_transformer() -> Any:
    """Return a vision transformer: patches, positions, two blocks of attention and MLP, the mean of the tokens."""
    inputs = _pixels()
    x = layers.Conv2D(24, 8, strides=8, name="patches")(inputs)
    x = layers.Reshape((16, 24))(x)
    x = x + layers.Embedding(16, 24, name="positions")(keras.ops.arange(16))
    for _ in range(2):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.MultiHeadAttention(3, 8)(y, y)
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.Dense(24)(layers.Dense(48, activation="gelu")(y))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inputs, layers.Dense(CLASSES, name="logits")(x), name="vision_transformer")


def small_convnext() -> Any:
    """Return a ConvNeXt with one of its own blocks per stage."""
    from keras.src.applications.convnext import ConvNeXt  # only large networks have public names

    return ConvNeXt(
        depths=[1, 1, 2, 1], projection_dims=[8, 16, 32, 48], weights=None, input_shape=(32, 32, 3),
        classes=CLASSES, classifier_activation=None, name="small_convnext",
    )  # fmt: skip


def _normalized(x: Any, width: int, kernel: int, strides: int = 1, groups: int = 1) -> Any:
    x = layers.Conv2D(width, kernel, strides, padding="same", groups=groups, use_bias=False)(x)
    return layers.BatchNormalization()(x)


def _residual(x: Any, y: Any, strides: int) -> Any:
    width = y.shape[-1]
    short = x if strides == 1 and x.shape[-1] == width else _normalized(x, width, 1, strides)
    return layers.ReLU()(layers.Add()([short, y]))


def resnet18() -> Any:
    """Return a ResNet-18 with PyTorch's padding: explicit pads, then VALID convolutions."""
    inputs = _pixels()
    x = layers.ZeroPadding2D(3)(inputs)
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 7, 2, use_bias=False)(x)))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, width in enumerate((16, 32, 64, 96)):
        for block in range(2):
            strides = 2 if stage and not block else 1
            y = layers.ReLU()(_normalized(x, width, 3, strides))
            x = _residual(x, _normalized(y, width, 3), strides)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(CLASSES, name="logits")(x), name="resnet18")


def regnet() -> Any:
    """Return a RegNet: bottlenecks of ratio 1 around convolutions in groups of 8 channels."""
    inputs = _pixels()
    x = layers.ReLU()(_normalized(inputs, 16, 3, 2))
    for width, depth in ((24, 1), (56, 1), (152, 2)):
        for block in range(depth):
            strides = 1 if block else 2
            y = layers.ReLU()(_normalized(x, width, 1))
            y = layers.ReLU()(_normalized(y, width, 3, strides, groups=width // 8))
            x = _residual(x, _normalized(y, width, 1), strides)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(CLASSES, name="logits")(x), name="regnet")


NETWORKS: dict[str, Callable[[], Any]] = {
    **{
        name: _application(name)
        for name in (
            "ResNet50",
            "VGG16",
            "MobileNetV2",
            "MobileNetV3Small",
            "EfficientNetB0",
            "DenseNet121",
            "ConvNeXtTiny",
            "EfficientNetV2B0",
            "InceptionResNetV2",
            "InceptionV3",
            "MobileNet",
            "MobileNetV3Large",
            "NASNetMobile",
            "ResNet50V2",
            "VGG19",
            "Xception",
        )
    },
    "small_convnext": small_convnext,
    "vision_transformer": vision_transformer,
    "resnet18": resnet18,
    "regnet": regnet,
}
