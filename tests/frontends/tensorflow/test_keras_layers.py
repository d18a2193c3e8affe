"""Keras's layers and activations, one model each, against TensorFlow's own numbers, and the operators that they
become.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from convert.request.source import Source
from tests.support.keras_helper import keras, layers
from tests.support.marks import slow
from tests.support.tensorflow_helper import agrees, images, shapes

PICTURE, TOKENS, SERIES, WORDS = (12, 12, 3), (8, 6), (16, 6), (5,)
Row = tuple[tuple[int | None, ...], Callable[[], list[Any]], dict[str, int]]

ACTIVATIONS = {
    "elu": "Elu", "relu": "Relu", "selu": "Selu", "gelu": "Gelu", "softplus": "Softplus", "softsign": "Softsign",
    "tanh": "Tanh", "sigmoid": "Sigmoid", "exponential": "Exp", "leaky_relu": "LeakyRelu", "softmax": "Softmax",
    "log_softmax": "LogSoftmax", "relu6": "Clip", "swish": "Sigmoid", "mish": "Softplus", "glu": "Sigmoid",
    "hard_sigmoid": "Clip", "hard_swish": "Clip", "squareplus": "Sqrt", "hard_tanh": "Min", "log_sigmoid": "Softplus",
    "tanh_shrink": "Tanh", "hard_shrink": "Where",
}  # fmt: skip


def twice(make: Callable[[], Any]) -> Callable[[], list[Any]]:
    """Return a layer called with one tensor for each of its arguments."""
    return lambda: [lambda x: make()(x, x)]


def both(make: Callable[[], Any]) -> Callable[[], list[Any]]:
    """Return a layer called with a list of two tensors."""
    return lambda: [lambda x: make()([x, x * 2.0])]


QUICK: dict[str, Row] = {
    "series, dilated": (
        SERIES,
        lambda: [layers.Conv1D(4, 3, padding="causal", dilation_rate=2), layers.MaxPooling1D(2)],
        {"Conv": 1, "Add": 0, "Reshape": 0},
    ),
    "series of any length": (
        (None, 6),
        lambda: [layers.Conv1D(4, 3, padding="same"), layers.BatchNormalization(), layers.GlobalAveragePooling1D()],
        {"Conv": 1, "BatchNormalization": 1},
    ),
    "depthwise, dilated": (
        PICTURE,
        lambda: [layers.DepthwiseConv2D(3, depth_multiplier=2, dilation_rate=2)],
        {"Conv": 1, "Transpose": 2, "Reshape": 0},
    ),
    "transposed": (
        PICTURE,
        lambda: [layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.Conv2DTranspose(4, 4, strides=2)],
        {"ConvTranspose": 2, "Slice": 0},
    ),
    "transposed, any size": ((None, None, 3), lambda: [layers.Conv2DTranspose(4, 3, strides=2, padding="same")], {}),
    "three dims": (
        (8, 8, 8, 2),
        lambda: [layers.Conv3D(4, 3, padding="same"), layers.MaxPooling3D(2),
                 layers.AveragePooling3D(3, padding="same")],
        {"Conv": 1, "MaxPool": 1, "AveragePool": 1},
    ),
    "up": (
        PICTURE,
        lambda: [layers.UpSampling2D(2, interpolation="bilinear"), layers.UpSampling2D((2, 3))],
        {"Resize": 1},
    ),
    "group norm": ((4, 4, 6), lambda: [layers.GroupNormalization(3)], {}),
    "attention, causal": ((None, 6), lambda: [lambda x: layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)],
                          {"Attention": 1}),
    "adaptive pool": (PICTURE, lambda: [layers.AdaptiveAveragePooling2D(5)], {}),
    "spectrogram": ((200, 1), lambda: [layers.STFTSpectrogram(frame_length=32, frame_step=16, fft_length=32)], {}),
}  # fmt: skip
LONG: dict[str, Row] = {
    **{f"activation {a}": (TOKENS, lambda a=a: [layers.Dense(6), layers.Activation(a)], {op: 1})
       for a, op in ACTIVATIONS.items()},
    **{f"activation {a}": (TOKENS, lambda a=a: [layers.Dense(6), layers.Activation(a)], {})
       for a in ("celu", "soft_shrink", "sparse_plus")},
    "LeakyReLU": (TOKENS, lambda: [layers.LeakyReLU(0.2)], {"LeakyRelu": 1}),
    "PReLU": (TOKENS, lambda: [layers.PReLU()], {}),
    "ReLU": (TOKENS, lambda: [layers.ReLU(6.0, 0.1, 0.5)], {}),
    "separable series": (SERIES, lambda: [layers.SeparableConv1D(4, 3, padding="same")], {"Conv": 2}),
    "depthwise series": (SERIES, lambda: [layers.DepthwiseConv1D(3, padding="same", depth_multiplier=2)], {"Conv": 1}),
    "transposed series": (TOKENS, lambda: [layers.Conv1DTranspose(4, 3, strides=2, padding="same")], {}),
    "separable": (PICTURE, lambda: [layers.SeparableConv2D(5, 3, strides=2, padding="same")], {"Conv": 2}),
    "transposed volume": ((4, 4, 4, 2), lambda: [layers.Conv3DTranspose(4, 3, strides=2, padding="same")], {}),
    "pools": (
        (13, 13, 3),
        lambda: [layers.MaxPooling2D(3, 2, padding="same"), layers.AveragePooling2D(2, padding="same"),
                 layers.GlobalMaxPooling2D()],
        {"MaxPool": 1, "AveragePool": 1},
    ),
    "up, series and volume": (TOKENS, lambda: [layers.UpSampling1D(2), layers.Reshape((4, 4, 6, 1)),
                                               layers.UpSampling3D(2)], {}),
    "crop and pad": (PICTURE, lambda: [layers.Cropping2D(((1, 2), (0, 3))), layers.ZeroPadding2D(2)], {}),
    "reshapes": (PICTURE, lambda: [layers.Reshape((-1, 3)), layers.Permute((2, 1)), layers.Flatten(),
                                   layers.RepeatVector(3)], {}),
    "norms": ((4, 4, 6), lambda: [layers.LayerNormalization(), layers.BatchNormalization(),
                                  layers.UnitNormalization()], {"LayerNormalization": 1, "BatchNormalization": 1}),
    "rms norm": (TOKENS, lambda: [layers.RMSNormalization()], {}),
    "layer norm over two": (TOKENS, lambda: [layers.LayerNormalization(axis=(1, 2))], {}),
    "spectral norm": (TOKENS, lambda: [layers.SpectralNormalization(layers.Dense(4))], {}),
    "einsum": (TOKENS, lambda: [layers.EinsumDense("abc,cd->abd", output_shape=(None, 7), bias_axes="d")], {}),
    "rescale and resize": (PICTURE, lambda: [layers.Rescaling(1 / 255.0, -0.5), layers.Resizing(8, 10),
                                             layers.CenterCrop(5, 5)], {"Resize": 1}),
    "normalization": (PICTURE, lambda: [layers.Normalization(mean=[1.0, 2, 3], variance=[1.0, 0.5, 2])], {}),
    "discretization": (TOKENS, lambda: [layers.Discretization(bin_boundaries=[-0.5, 0.0, 1.0])], {}),
    "attention": (TOKENS, twice(lambda: layers.MultiHeadAttention(2, 3)), {"Softmax": 1}),
    "plain attention": (TOKENS, both(layers.Attention), {"Softmax": 1}),
    "additive attention": (TOKENS, both(layers.AdditiveAttention), {"Softmax": 1}),
    "dot": (TOKENS, both(lambda: layers.Dot(axes=(2, 2), normalize=True)), {}),
    "merges": (TOKENS, lambda: [both(layers.Maximum)()[0], both(layers.Minimum)()[0], both(layers.Average)()[0],
                                both(layers.Subtract)()[0], both(layers.Multiply)()[0]], {}),
    "nothing at inference": (PICTURE, lambda: [layers.Dropout(0.5), layers.GaussianNoise(1.0),
                                               layers.GlobalAveragePooling2D(keepdims=True)], {}),
    "per step": ((4, 6, 6, 2), lambda: [layers.TimeDistributed(layers.Conv2D(3, 3)),
                                        layers.TimeDistributed(layers.Flatten()), layers.GRU(4)], {"GRU": 1}),
}  # fmt: skip
INTEGERS: dict[str, Row] = {
    "embedding": (WORDS, lambda: [layers.Embedding(10, 4), layers.GlobalAveragePooling1D()], {}),
    "masked mean": (WORDS, lambda: [layers.Embedding(10, 4, mask_zero=True), layers.GlobalAveragePooling1D()], {}),
    "multi hot": (WORDS, lambda: [layers.CategoryEncoding(10, output_mode="multi_hot")], {}),
}


def check(row: Row, dtype: str) -> None:
    shape, build, expected = row
    keras.utils.set_random_seed(0)
    inputs = y = keras.Input(shape, name="x", dtype=dtype)
    for layer in build():
        y = layer(y)
    model = keras.Model(inputs, y)
    chance = np.random.default_rng(0)
    for weight in model.weights:
        content = chance.normal(size=weight.shape) * 0.5
        weight.assign(np.abs(content) + 0.5 if "variance" in weight.path else content)
    inner = [n or 7 for n in shape]
    given = [{"x": images(n, *inner, seed=n)} for n in (2, 1)]
    if dtype == "int32":
        given = [{"x": chance.integers(0, 9, (n, *inner)).astype(np.int32)} for n in (2, 1)]
    graph = agrees(Source("keras-object", model=model), given)
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: counts[k] for k in expected} == expected
    (result,) = graph.graph.outputs
    assert shapes(graph)[str(result.name)][0] == "batch"


@pytest.mark.parametrize("name", [*slow(QUICK, "three dims"), *(pytest.param(n, marks=pytest.mark.long) for n in LONG)])
def test_layer(name: str) -> None:
    check({**QUICK, **LONG}[name], "float32")


@pytest.mark.parametrize("name", INTEGERS)
def test_layer_on_integers(name: str) -> None:
    check(INTEGERS[name], "int32")
