"""Functions and modules in memory: what is exported, how inputs and weights are called, and what is noted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends import jax as frontend
from convert.frontends.jax.runner import runner
from flax import nnx

from convert.errors import UsageError
from convert.outcome.report import Report
from convert.request.options import Options, parse_input
from convert.request.source import Source
from tests.support.cases import f32

pytestmark = pytest.mark.not_core


def read(model: object, *specs: str, report: Report | None = None) -> ir.Model:
    """Return the graph of an object in memory with the described inputs."""
    kind = frontend.claims(model)
    assert kind is not None
    options = Options(inputs=tuple(map(parse_input, specs)))
    return frontend.read(Source(kind, model=model), options, report or Report("convert"))


def test_calls_of_lapack_without_a_promise_of_stability_are_exported() -> None:
    """jax.export refuses to write calls that a later JAX may not run. Here they are read at once."""
    multiplied = jax.jit(lambda x: jax.scipy.linalg.qr_multiply(x, jnp.ones((2, 5), np.float32), mode="right")[0])
    assert read(multiplied, "x:float32[5,3]").graph.outputs[0].shape == (2, 3)


def test_decompositions_run_in_float64() -> None:
    """JAX notes with calls of LAPACK how they may be sharded, which no portable module can have."""

    def function(x: jax.Array) -> jax.Array:
        return jnp.linalg.inv(x) + jnp.linalg.qr(x)[1]

    made = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct((4, 4), np.float32))
    x = f32(4, 4) + 4 * np.eye(4, dtype=np.float32)
    (found,) = runner.run(Source("jax-export-object", model=made), [{"x": x}], precision="float64", options=Options())
    with jax.enable_x64(True):
        np.testing.assert_allclose(found["output"], function(jnp.asarray(x, np.float64)), rtol=1e-10)


def test_unnamed_dims_of_two_inputs_are_two_dims() -> None:
    model = read(jax.jit(lambda x, y: (x + 1, y + 2)), "x:float32[?,4]", "y:float32[?,4]")
    first, second = (value.shape[0] for value in model.graph.inputs)
    assert str(first) != str(second)


def test_a_function_of_nnx_jit() -> None:
    layer = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    model = read(nnx.jit(lambda x: layer(x)), "x:float32[batch,4]")
    assert [str(v.shape) for v in model.graph.outputs] == ["[batch,3]"]


@pytest.mark.parametrize("training", [True, False])
def test_modules_in_training_mode_are_noted(training: bool) -> None:
    module = nnx.Sequential(nnx.BatchNorm(4, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1)))
    if not training:
        module.eval()
    report = Report("convert")
    read(module, "x:float32[batch,4]", report=report)
    notes = [str(note) for note in report.notes if "training mode" in str(note)]
    assert [note.partition(" in ")[0] for note in notes] == (["BatchNorm, Dropout"] if training else [])


def test_an_exception_of_the_function_is_quoted() -> None:
    def function(x: jax.Array) -> jax.Array:
        raise ValueError("the user's own words")

    with pytest.raises(UsageError, match="the user's own words"):
        read(jax.jit(function), "x:float32[2]")


KERAS = """
import keras, numpy as np
import convert
a, b = keras.Input((6,), name="a"), keras.Input((None, 6), name="b")
h, z = keras.layers.Dense(6, name="first")(a), keras.layers.LayerNormalization()(keras.layers.LSTM(5)(b))
outputs = {"y": keras.layers.Dense(2)(keras.layers.Dropout(0.5)(h)), "x": z}
class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.one = keras.layers.Dense(3, activation="gelu")
    def call(self, rows):
        return self.one(rows)
own = Own()
own(np.ones((1, 4), np.float32))
sequential = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization(),
                               keras.layers.GlobalAveragePooling2D()])
for model, inputs in ((keras.Model({"a": a, "b": b}, outputs), None), (own, "rows:float32[batch,4]"),
                      (sequential, None)):
    report = convert.convert(model, "onnx", "model.onnx", inputs=inputs, force=True)
    print(report.verdict.status, *report.inputs, *report.outputs, sep="; ")
weights = convert.to_onnx(own, inputs="rows:float32[batch,4]").graph.initializer
print(*[v.name for v in weights if v.name.startswith("own/")])
"""


@pytest.mark.slow
def test_keras_on_jax(tmp_path: Path) -> None:
    """Keras has one backend in a process, and other tests use TensorFlow's, so these models are made in another."""
    pytest.importorskip("keras", reason="optional")
    done = subprocess.run(
        [sys.executable, "-c", KERAS], cwd=tmp_path, env={**os.environ, "KERAS_BACKEND": "jax"}, check=False,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        "PASS; a: float32[batch,6]; b: float32[batch,b_d1,6]; x: float32[batch,5]; y: float32[batch,2]",
        "PASS; rows: float32[batch,4]; output: float32[batch,3]",
        "PASS; input_layer: float32[batch,8,8,3]; global_average_pooling2d: float32[batch,4]",
        "own/dense_1/kernel",
    ]
