"""Weights stored outside the graph: every dtype, permuted, in branches; variables in shards."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from convert import plugin
from convert.request.options import Options
from convert.request.source import Source
from tests.support.tensorflow_networks import onnxruntime_of, write

tf = pytest.importorskip("tensorflow")

DRAWN = np.random.default_rng(0)
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint16", "bool")


def model(nodes: list, inputs: list, outputs: list, weights: list[TensorProto]) -> ModelProto:
    graph = helper.make_graph(nodes, "weights", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def stored(path: Path) -> dict[str, np.ndarray]:
    """Return the constants of more than 64 elements in a frozen graph, by name."""
    definition = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(definition, name="")
    found = {n.name: tf.make_ndarray(n.attr["value"].tensor) for n in definition.node if n.op == "Const"}
    return {name: array for name, array in found.items() if array.size > 64}


@pytest.mark.parametrize("loader", ["tf.saved_model", "TensorFlow 1"])
def test_variables_in_several_shards(loader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables keep their names in the order of the graph; they are permuted, one is larger than a shard, two share a
    name.
    """
    from convert.backends.tensorflow.writer import checkpoint

    monkeypatch.setattr(checkpoint, "_SHARD", 1000)
    kernels = {"k": (8, 3, 3, 3), "scope/k": (8, 8, 3, 3), "scope k": (8, 8, 1, 1), "scope_k": (16, 8, 1, 1)}
    arrays = {name: DRAWN.normal(size=shape).astype(np.float32) for name, shape in kernels.items()}
    names = ["x", *(f"y{i}" for i in range(len(kernels)))]
    nodes = [helper.make_node("Conv", [x, k], [y]) for x, k, y in zip(names, kernels, names[1:], strict=False)]
    proto = model(
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 9, 9])],
        [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, ["n", 16, 5, 5])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    path, x = tmp_path / "m.savedmodel", DRAWN.normal(size=(2, 3, 9, 9)).astype(np.float32)
    write(proto, path)
    assert len(list((path / "variables").iterdir())) == 3 + 2  # one shard holds the names, plus the index
    if loader == "tf.saved_model":
        loaded = tf.saved_model.load(str(path))
        for variable, array in zip(loaded.variables, arrays.values(), strict=True):
            np.testing.assert_array_equal(variable.numpy(), array.transpose(2, 3, 1, 0))
        (got,) = loaded.signatures["serving_default"](x=tf.constant(x)).values()
    else:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
            ends = meta.signature_def["serving_default"]
            got = session.run(ends.outputs[names[-1]].name, {ends.inputs["x"].name: x})
    want = onnxruntime_of(proto, {"x": x})[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())  # float32, four layers deep


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_arrives_bit_by_bit(dtype: str, tmp_path: Path) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    table = DRAWN.integers(0, 100, (40, 33)).astype(kind)
    code = int(ir.DataType.from_numpy(kind))
    proto = model(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", code, ["n", 33])],
        [helper.make_tensor("table", code, table.shape, table.tobytes(), raw=True)],
    )
    write(proto, tmp_path / "m.pb", "tf-frozen")
    (found,) = stored(tmp_path / "m.pb").values()
    assert found.shape == table.shape
    assert found.dtype == table.dtype
    assert found.tobytes() == table.tobytes()


def test_permuted_shared_and_in_branches(tmp_path: Path) -> None:
    """A convolution's kernel is permuted; a matrix has two readers, one of them in a branch."""
    kernel = DRAWN.normal(size=(16, 3, 3, 3)).astype(np.float32)
    matrix = DRAWN.normal(size=(16, 48)).astype(np.float32)
    branch = [
        helper.make_graph([helper.make_node("MatMul", ["means", "matrix"], ["then"])], "then", [],
                          [helper.make_tensor_value_info("then", 1, ["n", 48])]),
        helper.make_graph([helper.make_node("Neg", ["first"], ["else"])], "else", [],
                          [helper.make_tensor_value_info("else", 1, ["n", 48])]),
    ]  # fmt: skip
    proto = model(
        [
            helper.make_node("Conv", ["x", "kernel"], ["c"]),
            helper.make_node("GlobalAveragePool", ["c"], ["p"]),
            helper.make_node("Flatten", ["p"], ["means"]),
            helper.make_node("MatMul", ["means", "matrix"], ["first"]),
            helper.make_node("If", ["which"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        ],
        [
            helper.make_tensor_value_info("x", 1, ["n", 3, 8, 8]),
            helper.make_tensor_value_info("which", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", 1, ["n", 48])],
        [numpy_helper.from_array(kernel, "kernel"), numpy_helper.from_array(matrix, "matrix")],
    )
    path = tmp_path / "m.pb"
    write(proto, path, "tf-frozen")
    found = sorted(stored(path).values(), key=lambda a: a.ndim)
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], matrix)
    np.testing.assert_array_equal(found[1], kernel.transpose(2, 3, 1, 0))
    runner = plugin.runner_for("frozen-graph")
    assert runner is not None
    x = DRAWN.normal(size=(2, 3, 8, 8)).astype(np.float32)
    for which in (True, False):
        feed = {"x": x, "which": np.array(which)}
        (got,) = runner.run(Source("frozen-graph", path), [feed], precision="float32", options=Options())
        np.testing.assert_allclose(got["y"], onnxruntime_of(proto, feed)[0], rtol=1e-5, atol=1e-5)
