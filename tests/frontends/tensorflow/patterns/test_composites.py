"""Layers that TensorFlow and Keras write as arithmetic become ONNX's operators for them, with the same numbers.

Every row lists the operators in the shared graph, and for some rows the whole ONNX graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from convert.backends.onnx.lower import lower

from convert.request.source import Source
from tests.support.keras_helper import keras, layers
from tests.support.marks import slow
from tests.support.tensorflow_helper import agrees, images

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

Expected = dict[str, int]


def written(graph: Any, opset: int = 20) -> list[str]:
    """Return the operators of the ONNX file that `graph` becomes, in order."""
    lower(graph, opset)
    return [n.op_type for n in graph.graph]


def counted(graph: Any, expected: Expected) -> None:
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: counts[k] for k in expected} == expected


# -- activations and normalizations by hand ---------------------------------------------------------------------------

CHANNELS = 6
GAMMA, BETA, MEAN = (images(CHANNELS, seed=s) for s in (2, 3, 4))
VARIANCE = np.abs(images(CHANNELS, seed=5)) + 0.5
STATISTICS = MEAN, VARIANCE, BETA


def layer_norm(x: Any) -> Any:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * GAMMA + BETA


def layer_norm_by_variance(x: Any) -> Any:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(tf.math.reduce_variance(x, -1, keepdims=True) + 1e-3) * GAMMA + BETA


def rms_norm(x: Any) -> Any:
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-3) * GAMMA


def scaled_by_the_root(x: Any) -> Any:
    """Multiply by √variance, where a normalization would divide."""
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.sqrt(variance + 1e-3) * GAMMA + BETA


def denormalized(x: Any) -> Any:
    scale = tf.sqrt(tf.constant(VARIANCE) + 1e-3)
    return x * scale + (tf.constant(BETA) - tf.constant(MEAN) * scale)


def normalized_square(x: Any, gamma: Any, beta: Any) -> Any:
    """Return four columns of four, normalized along their rows."""
    x = x[..., :4]
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-3) * gamma + beta


def attention(x: Any) -> Any:
    """Return three heads of two, with the usual scale."""
    heads = tf.transpose(tf.reshape(x, [-1, 4, 3, 2]), [0, 2, 1, 3])
    scores = tf.matmul(heads, heads, transpose_b=True) / tf.sqrt(2.0)
    return tf.matmul(tf.nn.softmax(scores), heads)


def causal_attention(x: Any) -> Any:
    heads = tf.transpose(tf.reshape(x, [-1, 4, 3, 2]), [0, 2, 1, 3])
    hidden = (1.0 - tf.linalg.band_part(tf.ones([4, 4]), -1, 0)) * -1e9
    return tf.matmul(tf.nn.softmax(0.25 * tf.matmul(heads, heads, transpose_b=True) + hidden), heads)


# Name: function of [batch, 4, 6], operators in the graph.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Expected]] = {
    "gelu by erf": (lambda x: 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32))), {"Gelu": 1}),
    "gelu, half last": (lambda x: x * (1.0 + tf.math.erf(x * np.float32(np.sqrt(0.5)))) * 0.5, {"Gelu": 1}),
    "gelu, half inside": (lambda x: x * (0.5 * (1.0 + tf.math.erf(x / np.float32(np.sqrt(2))))), {"Gelu": 1}),
    "gelu by erfc": (lambda x: 0.5 * x * tf.math.erfc(-x * np.float32(np.sqrt(0.5))), {"Gelu": 1}),
    "gelu by tanh": (lambda x: tf.nn.gelu(x, approximate=True), {"Gelu": 1}),
    "gelu by tanh, cubed by hand": (
        lambda x: 0.5 * x * (1.0 + tf.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * x * x * x))),
        {"Gelu": 1},
    ),
    "not gelu": (lambda x: 0.5 * x * (1.0 + tf.math.erf(x * 0.7)), {"Gelu": 0}),
    "not gelu by six digits": (lambda x: 0.5 * x * (1.0 + tf.math.erf(x * 0.707107)), {"Gelu": 0}),
    "not gelu by tanh of six digits": (
        lambda x: 0.5 * x * (1.0 + tf.tanh(0.797885 * (x + 0.044715 * x**3))),
        {"Gelu": 0},
    ),
    "softplus": (lambda x: tf.math.log(1.0 + tf.exp(x)), {"Softplus": 1, "Log": 0}),
    "softplus by log1p": (lambda x: tf.math.log1p(tf.exp(x)), {"Softplus": 1, "Log": 0}),
    "hard swish": (lambda x: x * (tf.nn.relu6(x + 3.0) / 6.0), {"HardSwish": 1, "Clip": 0}),
    "hard swish, divided last": (lambda x: x * tf.nn.relu6(x + 3.0) / 6.0, {"HardSwish": 1, "Clip": 0}),
    "not hard swish": (lambda x: x * tf.nn.relu6(x + 2.0) / 6.0, {"HardSwish": 0, "Clip": 1}),
    "mish": (lambda x: x * tf.tanh(tf.math.softplus(x)), {"Mish": 1}),
    "swish": (lambda x: tf.nn.silu(x), {"Sigmoid": 1, "Mul": 1}),
    "swish with beta": (lambda x: tf.nn.silu(x, 1.5), {"Sigmoid": 1, "Mul": 2}),
    "layer norm": (layer_norm, {"LayerNormalization": 1}),
    "layer norm by variance": (layer_norm_by_variance, {"LayerNormalization": 1}),
    "rms norm": (rms_norm, {"RMSNormalization": 1}),
    "batch norm": (
        lambda x: tf.nn.batch_normalization(x, *map(tf.constant, (*STATISTICS, GAMMA)), 1e-3),
        {"BatchNormalization": 1},
    ),
    "batch norm without scale": (
        lambda x: tf.nn.batch_normalization(x, *map(tf.constant, STATISTICS), None, 1e-3),
        {"BatchNormalization": 1},
    ),
    "batch norm by hand": (
        lambda x: (x - MEAN) / tf.sqrt(tf.constant(VARIANCE) + 1e-3) * GAMMA + BETA,
        {"BatchNormalization": 1},
    ),
    "not rms norm": (
        lambda x: x * tf.sqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-3) * GAMMA,
        {"RMSNormalization": 0},
    ),
    "not batch norm": (
        lambda x: (x - tf.constant(MEAN)) * tf.sqrt(tf.constant(VARIANCE) + 1e-3) + tf.constant(BETA),
        {"BatchNormalization": 0},
    ),
    "not batch norm, its shift computed": (denormalized, {"BatchNormalization": 0}),
    "not layer norm": (scaled_by_the_root, {"LayerNormalization": 0}),
    "layer norm of a square": (
        lambda x: normalized_square(x, GAMMA[:4], BETA[None, :4]),
        {"LayerNormalization": 1},
    ),
    "layer norm before a gamma for each row": (
        lambda x: normalized_square(x, GAMMA[:4, None], BETA[:4]),
        {"LayerNormalization": 1, "Mul": 1},
    ),
    "layer norm before a beta for each row": (
        lambda x: normalized_square(x, GAMMA[:4], BETA[:4, None]),
        {"LayerNormalization": 1, "Add": 1},
    ),
    "layer norm before a gamma of more dims": (
        lambda x: normalized_square(x, GAMMA[None, None, None, :4], BETA[:4]),
        {"LayerNormalization": 1, "Mul": 1},
    ),
    "attention": (attention, {"Attention": 1, "Softmax": 0}),
    "causal attention": (causal_attention, {"Attention": 1, "Softmax": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    body, expected = FUNCTIONS[name]
    function = tf.function(body, input_signature=[tf.TensorSpec([None, 4, CHANNELS], name="x")], autograph=False)
    graph = agrees(Source("tf-function-object", model=function), [{"x": images(n, 4, CHANNELS)} for n in (2, 1)])
    counted(graph, expected)


# -- layers of Keras --------------------------------------------------------------------------------------------------


def sequential(shape: tuple[int | None, ...], *stack: Any) -> Any:
    inputs = y = keras.Input(shape, name="x")
    for layer in stack:
        y = layer(y)
    return keras.Model(inputs, y)


def itself(layer: Any, **call: Any) -> Any:
    """Attention of a sequence to itself."""
    x = keras.Input((6, 8), name="x")
    return keras.Model(x, layer(x, x, **call))


def residual(length: int | None) -> Any:
    """Return a 1-D residual network: padded, strided, separable convolutions and pools."""
    x = inputs = keras.Input((length, 3), name="x")
    x = layers.MaxPooling1D(2)(layers.Conv1D(8, 5, padding="same", activation="relu")(x))
    for width, strides in ((8, 1), (12, 2), (12, 1)):
        y = layers.ReLU()(layers.BatchNormalization()(layers.Conv1D(width, 3, strides, padding="same")(x)))
        y = layers.BatchNormalization()(layers.Conv1D(width, 3, padding="same", use_bias=False)(y))
        short = x if strides == 1 else layers.BatchNormalization()(layers.Conv1D(width, 1, strides)(x))
        x = layers.ReLU()(layers.Add()([y, short]))
    x = layers.SeparableConv1D(16, 3, padding="same", activation="relu")(layers.ZeroPadding1D(1)(x))
    x = layers.Conv1D(16, 3, padding="causal", dilation_rate=2)(x)
    return keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


# A layer norm over the channels, in channels-first layout.
NORM = ["ReduceMean", "Sub", "Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"]


def convnext() -> Any:
    """A block of ConvNeXt between two convolutions."""
    x = keras.Input((8, 8, 3), name="x")
    y = z = layers.Conv2D(6, 2, 2)(x)
    z = layers.LayerNormalization(epsilon=1e-6)(layers.DepthwiseConv2D(3, padding="same")(z))
    z = layers.Dense(6)(layers.Dense(12, activation="gelu")(z))
    return keras.Model(x, layers.GlobalAveragePooling2D()(layers.Add()([y, z])))


MODELS: dict[str, tuple[Callable[[], Any], list[str] | None, Expected]] = {
    "hard_silu": (lambda: sequential((4,), layers.Activation("hard_silu")), ["HardSwish"], {}),
    "mish": (lambda: sequential((4,), layers.Activation("mish")), ["Mish"], {}),
    "prelu": (lambda: sequential((4, 4, 3), layers.PReLU(shared_axes=[1, 2])), ["PRelu"], {}),
    "layer norm of two dims": (
        lambda: sequential((6, 8), layers.LayerNormalization(axis=[1, 2])),
        ["LayerNormalization"],
        {},
    ),
    "rms norm": (lambda: sequential((6, 8), layers.RMSNormalization()), None, {"RMSNormalization": 1}),
    "group norm": (lambda: sequential((4, 4, 6), layers.GroupNormalization(3)), None, {"GroupNormalization": 1}),
    "instance norm, dynamic": (
        lambda: sequential((None, None, 6), layers.GroupNormalization(-1)),
        None,
        {"GroupNormalization": 1},
    ),
    "padded convolution": (
        lambda: sequential((8, 8, 3), layers.ZeroPadding2D(((0, 1), (2, 1))), layers.Conv2D(4, 3, 2)),
        ["Transpose", "Conv", "Transpose"],
        {},
    ),
    "padded pool": (
        lambda: sequential((8, 8, 3), layers.ReLU(), layers.ZeroPadding2D(1), layers.MaxPooling2D(3, 2)),
        ["Transpose", "Relu", "MaxPool", "Transpose"],
        {},
    ),
    "pool of what may be negative": (
        lambda: sequential((8, 8, 3), layers.ZeroPadding2D(1), layers.MaxPooling2D(3, 2)),
        None,
        {"Pad": 1},
    ),
    "dense of several dims": (
        lambda: sequential((6, 8), layers.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="de")),
        ["MatMul", "Reshape", "Add"],
        {},
    ),
    "attention of many heads": (lambda: itself(layers.MultiHeadAttention(2, 4)), None, {"Attention": 1, "Einsum": 0}),
    "causal attention of many heads": (
        lambda: itself(layers.MultiHeadAttention(2, 4), use_causal_mask=True),
        None,
        {"Attention": 1, "Einsum": 0},
    ),
    "normalized dense layer": (
        lambda: sequential((6,), layers.Dense(4, use_bias=False), layers.BatchNormalization()),
        ["Gemm"],
        {"BatchNormalization": 1},
    ),
    "block of ConvNeXt": (
        convnext,
        ["Transpose", "Conv", "Conv", *NORM, "Conv", "Gelu", "Conv", "Add", "ReduceMean"],
        {"LayerNormalization": 1, "MatMul": 2},
    ),
    "one-dimensional": (lambda: residual(32), None, {"Unsqueeze": 0, "Squeeze": 0, "Pad": 0}),
    "one-dimensional, dynamic": (lambda: residual(None), None, {"Unsqueeze": 0, "Squeeze": 0}),
}


@pytest.mark.parametrize("name", slow(MODELS, "one-dimensional", "one-dimensional, dynamic", "block of ConvNeXt"))
def test_layer(name: str) -> None:
    build, whole, expected = MODELS[name]
    model = build()
    chance = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(chance.uniform(0.5, 1.5, weight.shape) if "gamma" in weight.path or "variance" in weight.path
                      else chance.normal(0, 0.4, weight.shape))  # fmt: skip
    shape = [n or 32 for n in model.inputs[0].shape[1:]]
    graph = agrees(Source("keras-object", model=model), [{"x": images(n, *shape, seed=n)} for n in (2, 1)])
    counted(graph, expected)
    operators = written(graph)
    assert whole is None or operators == whole
    if name.startswith("one-dimensional"):
        assert operators.count("Transpose") == 1, "the input's"
        assert "BatchNormalization" not in operators, "folded"
