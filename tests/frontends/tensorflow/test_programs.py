"""StableHLO programs in TensorFlow graphs, as jax2tf writes them, against TensorFlow, which runs them by XLA."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from convert.frontends import tensorflow as frontend
from convert.frontends.tensorflow.runner.allowed import check_file
from jax.experimental import jax2tf

import convert
from convert.errors import BadInput, UnsafeInput, Unsupported
from convert.outcome.report import Report
from convert.request.options import Options
from convert.request.source import Source
from tests.frontends.tensorflow.ops.tf_support import run, same
from tests.support.cases import f32

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow writes and runs the graphs")
pytestmark = [pytest.mark.not_core, pytest.mark.slow]

W = f32(4, 3)


def function_of(call: Any, *dims: Any) -> Any:
    """Return a concrete TensorFlow function around `call`, with inputs x0, x1 … of these dims."""
    specs = [tf.TensorSpec(d, tf.float32, name=f"x{i}") for i, d in enumerate(dims)]
    return tf.function(call, autograph=False, input_signature=specs).get_concrete_function()


def read(function: Any) -> ir.Model:
    return frontend.read(Source("tf-function-object", model=function), Options(), Report("convert"))


def check(function: Any, *arrays: np.ndarray) -> ir.Model:
    """Assert that the graph of a function gives TensorFlow's results."""
    expected = [t.numpy() for t in tf.nest.flatten(function(*map(tf.constant, arrays)))]
    model = read(function)
    found = run(model, {f"x{i}": array for i, array in enumerate(arrays)})
    for one, other in zip(found.values(), expected, strict=True):
        same(one, other)
    return model


def test_a_program_with_sizes_of_its_own() -> None:
    program = jax2tf.convert(lambda x: jax.nn.softmax(jnp.tanh(x) @ W), with_gradient=False)
    model = check(function_of(program, [5, 4]), f32(5, 4))
    assert "Softmax" in {node.op_type for node in model.graph}


def test_open_sizes_keep_their_names() -> None:
    """Two programs, with TensorFlow operators before, between and after them."""
    first = jax2tf.convert(lambda x: jnp.concatenate([x, 2 * x]) @ W, polymorphic_shapes=["(b, 4)"])
    last = jax2tf.convert(
        lambda y, x: (jnp.tanh(y).sum(0) * jnp.arange(x.shape[0])[:, None], y.reshape(-1)),
        polymorphic_shapes=["(n, 3)", "(b, 4)"],
    )
    function = function_of(lambda x: last(tf.nn.relu(first(tf.exp(x))), x), [None, 4])
    for rows in (1, 3):
        model = check(function, f32(rows, 4))
    assert [str(v.shape[0]) for v in (model.graph.inputs[0], model.graph.outputs[0])] == ["batch", "batch"]


def test_sizes_that_tensorflow_broadcasts() -> None:
    """Two inputs share the name of a dim, which is 1 in one of them; their sum has a dim of unknown size."""
    program = jax2tf.convert(lambda x: x - x.mean(0) + x.shape[0], polymorphic_shapes=["(b, 4)"], with_gradient=False)
    function = function_of(lambda x, y: program(x + y), [None, 4], [None, 4])
    check(function, f32(3, 4), f32(3, 4))
    check(function, f32(3, 4), f32(1, 4))


def test_a_program_for_several_platforms() -> None:
    program = jax2tf.convert(jnp.sin, native_serialization_platforms=("cuda", "cpu"), with_gradient=False)
    check(function_of(program, [3]), f32(3))


def saved(folder: Path, call: Any, *dims: Any) -> Path:
    module = tf.Module()
    module.weights = tf.Variable(W)
    module.call = tf.function(
        lambda x: call(module.weights, x), autograph=False, input_signature=[tf.TensorSpec(*dims, name="x")]
    )
    tf.saved_model.save(module, folder)
    return folder


def test_a_saved_model_is_converted_and_verified(tmp_path: Path) -> None:
    program = jax2tf.convert(lambda w, x: jax.nn.gelu(x @ w), polymorphic_shapes=[None, "(b, 4)"])
    path = saved(tmp_path / "m.savedmodel", program, [None, 4])
    report = convert.convert(path, "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS", report.verdict.reason
    assert str(report.inputs[0]) == "x: float32[batch,4]"


def test_gaps_of_a_program_are_listed_with_those_of_the_graph() -> None:
    """Bits of a dynamic size are a gap of the JAX reader, decoding of pictures is one of TensorFlow's."""
    random = jax2tf.convert(
        lambda x: jax.random.uniform(jax.random.key(0, impl="rbg"), x.shape),
        polymorphic_shapes=["(n,)"],
        with_gradient=False,
    )
    with pytest.raises(Unsupported) as error:
        read(function_of(lambda x: (random(x), tf.io.decode_png(tf.strings.as_string(x[0]))), [None]))
    found = {problem.at.operator for problem in error.value.problems}
    assert {"@stablehlo.dynamic_rng_bit_generator", "DecodePng"} <= found


def graph_with(tmp_path: Path, module: bytes) -> Path:
    """A frozen graph with a program."""
    graph = tf.compat.v1.GraphDef()
    x = graph.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    x.attr["shape"].shape.dim.add(size=3)
    node = graph.node.add(name="y", op="XlaCallModule", input=["x"])
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["Sout"].list.shape.add().dim.add(size=3)
    node.attr["version"].i = 9
    node.attr["module"].s = module
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    return path


CALLBACK = b"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
%0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) : (tensor<3xf32>) -> tensor<3xf32>
return %0 : tensor<3xf32>
}"""


def test_a_program_that_does_more_than_compute(tmp_path: Path) -> None:
    source = Source("frozen-graph", graph_with(tmp_path, CALLBACK))
    with pytest.raises(Unsupported, match="runs code of the program"):
        frontend.read(source, Options(), Report("convert"))
    with pytest.raises(UnsafeInput, match="brings another program"):
        check_file(source, Options())


@pytest.mark.parametrize("module", [b"", b"module {", b"ML\xefR\rStableHLO_v1.9.0\0\1\2\3"])
def test_a_program_that_is_damaged(tmp_path: Path, module: bytes) -> None:
    source = Source("frozen-graph", graph_with(tmp_path, module))
    with pytest.raises(BadInput):
        frontend.read(source, Options(), Report("convert"))
    with pytest.raises(UnsafeInput):
        check_file(source, Options())
