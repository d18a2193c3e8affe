"""Keras layers in TensorFlow Lite files are read as the ONNX operators for them, for any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert.backends.onnx.lower import lower

from tests.frontends.tensorflow.ops.tf_support import run
from tests.support.keras_helper import keras, layers
from tests.support.tensorflow_helper import images, shapes

tf = pytest.importorskip("tensorflow", reason="TensorFlow makes the files")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is the oracle")

from tests.support.tensorflow_lite_helper import graph_of  # noqa: E402  (after what it needs)
from tests.support.tensorflow_lite_helper import run as as_deployed  # noqa: E402

Expected = dict[str, int]


def stacked(shape: tuple[int | None, ...], *stack: Any) -> Any:
    x = y = keras.Input(shape, name="x")
    for layer in stack:
        y = layer(y)
    return keras.Model(x, y)


def transformer() -> Any:
    """One block over a sequence of any length; TensorFlow Lite computes its shapes with UNSORTED_SEGMENT_PROD."""
    x = inputs = keras.Input((None, 16), name="x")
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    x = x + layers.MultiHeadAttention(2, 8)(y, y)
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    return keras.Model(inputs, x + layers.Dense(16)(layers.Dense(32, activation="gelu")(y)))


def line() -> Any:
    """1-D convolutions, which are 2-D ones between EXPAND_DIMS and RESHAPE; one is dilated."""
    first, second = layers.Conv1D(4, 3, padding="same", activation="relu"), layers.Conv1D(4, 3, dilation_rate=2)
    return stacked((32, 3), first, second, layers.GlobalAveragePooling1D())


# Expected counts of operators in the ONNX file; operators without a count are not checked.
MODELS: dict[str, tuple[Callable[[], Any], Expected]] = {
    "transformer": (transformer, {"LayerNormalization": 2, "Gelu": 1, "MatMul": 8, "Gemm": 0}),
    "one-dimensional": (line, {"Conv": 2, "Transpose": 1, "Unsqueeze": 0, "Squeeze": 0, "Reshape": 0}),
    "dense rows": (lambda: stacked((6, 8), layers.Dense(4, activation="gelu")), {"MatMul": 1, "Gelu": 1, "Reshape": 0}),
    "hard swish": (lambda: stacked((6, 8), layers.Activation("hard_silu")), {"HardSwish": 1, "Clip": 0}),
    "softplus": (lambda: stacked((6, 8), layers.Activation("softplus")), {"Softplus": 1, "Log": 0}),
}
QUICK = ("one-dimensional",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.long]) for n in MODELS])
def test_layer(name: str, tmp_path: Path) -> None:
    build, expected = MODELS[name]
    model = build()
    chance = np.random.default_rng(0)
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(chance.uniform(0.5, 1.5, weight.shape) if "gamma" in weight.path
                          else chance.normal(0, 0.4, weight.shape))  # fmt: skip
    path = tmp_path / "m.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    graph = graph_of(path)
    assert shapes(graph)["x"][0] == "batch"
    (output,) = graph.graph.outputs
    for batch in (2, 1):
        feed = {"x": images(batch, *(n or 7 for n in model.inputs[0].shape[1:]), seed=batch)}
        wanted, got = as_deployed(path, feed)[str(output.name)], run(graph, feed)[str(output.name)]
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    lower(graph, 20)
    counts = Counter(n.op_type for n in graph.graph.all_nodes())
    assert {k: counts[k] for k in expected} == expected
