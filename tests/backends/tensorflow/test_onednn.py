"""Graphs avoid oneDNN kernels that are wrong: products of many rows with one matrix, and Conv3D with LeakyRelu.

Both faults are in TensorFlow 2.21, where these kernels are the default on processors with AVX-512 and VNNI.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from convert import api
from convert.processes.process import execute
from convert.request.source import Source
from tests.support.tensorflow_networks import onnxruntime_of, write

tf = pytest.importorskip("tensorflow")

RANDOM = np.random.default_rng(5)
ROOT = Path(__file__).parents[3]


def model(nodes: list[onnx.NodeProto], x: list[Any], y: list[Any], kind: str = "float32", **weights: np.ndarray) -> Any:
    """A network with the input x and the output y."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [[helper.make_tensor_value_info(n, number, dims)] for n, dims in (("x", x), ("y", y))]
    stored = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "net", *ends, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def linear(outer: list[Any], *, bias: bool, matrix: tuple[int, ...] = (20, 32), kind: str = "float32") -> Any:
    """Rows of the last dim of x, times a matrix, plus a bias: the ONNX form of PyTorch's Linear."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h" if bias else "y"])]
    weights = {"w": (RANDOM.normal(size=matrix) * 3).astype(kind)}
    if bias:
        nodes.append(helper.make_node("Add", ["b", "h"], ["y"]))
        weights["b"] = (RANDOM.normal(size=matrix[-1]) * 3).astype(kind)
    tail: list[Any] = [1] * max(len(matrix) - 1 - len(outer), 0) + outer
    return model(nodes, [*outer, matrix[-2]], [*tail, matrix[-1]], kind, **weights)


def written(proto: onnx.ModelProto, folder: Path, form: str) -> Path:
    path = folder / ("net.pb" if form == "tf-frozen" else "net.savedmodel")
    if form == "tf-frozen":
        write(proto, path, form)
    else:
        write(proto, path, weights=form)
    return path


def definition(path: Path) -> Any:
    """Return the GraphDef of an artefact, including its functions."""
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    if path.is_file():
        return GraphDef.FromString(path.read_bytes())
    return SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def


def operations(path: Path) -> Iterator[Any]:
    """Yield every operation of the graph and of the bodies of its functions."""
    graph = definition(path)
    with tf.Graph().as_default() as outer:
        tf.import_graph_def(graph, name="")
        yield from outer.get_operations()
    for function in graph.library.function:
        from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

        if any(node.op == "RestoreV2" for node in function.node_def):
            continue
        with outer.as_default():
            yield from function_def_to_graph(function).get_operations()


def call(path: Path, x: np.ndarray) -> np.ndarray:
    if path.is_dir():
        serving = tf.saved_model.load(str(path)).signatures["serving_default"]
        return next(iter(serving(x=tf.constant(x)).values())).numpy()
    graph = definition(path)
    with tf.Graph().as_default() as own, tf.compat.v1.Session(graph=own) as session:
        tf.import_graph_def(graph, name="")
        return session.run("y:0", {"x:0": x})


# -- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["variables", "tf-frozen"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize(
    "outer",
    [["n", 15], ["n", 1, 15], ["n", 1, 2, 15], ["n", "m"], [2, 1, 15], ["n", 1, "m"]],
    ids=lambda dims: "x".join(map(str, dims)),
)
def test_rows_are_multiplied_as_one_matrix(outer: list[Any], bias: bool, form: str, tmp_path: Path) -> None:
    """oneDNN's BatchMatMulV2 of [n, 1, m, k] and one matrix returns wrong numbers, or crashes the process.

    Only processors with AVX-512 show this; elsewhere the test examines the graph.
    """
    proto = linear(outer, bias=bias)
    path = written(proto, tmp_path, form)
    found = list(operations(path))
    products = [op for op in found if op.type.startswith("BatchMatMul")]
    assert not [op for op in products if any(t.shape.rank in (2, None) for t in op.inputs)]
    assert [op.type for op in found].count("MatMul") == 1
    # A bias is added to the rows, where TensorFlow fuses it. With at most one unknown dim, nothing computes a shape.
    assert [op.type for op in found].count("BiasAdd") == bias
    assert not [op for op in found if op.type == "AddV2"]
    assert len([d for d in outer if isinstance(d, str)]) > 1 or not [op for op in found if op.type == "Shape"]
    for size in (2, 3, 1, 0):
        x = RANDOM.normal(size=[(2 if isinstance(outer[0], int) else size) if i == 0 else 7 if d == "m" else d
                                for i, d in enumerate(outer)] + [20]).astype(np.float32)  # fmt: skip
        np.testing.assert_allclose(call(path, x), onnxruntime_of(proto, {"x": x})[0], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("matrix", [(1, 20, 32), (1, 1, 20, 32)], ids=str)
@pytest.mark.parametrize("outer", [["n", 15], ["n", 1, 15]], ids=str)
def test_a_matrix_with_dims_of_one_in_front(outer: list[Any], matrix: tuple[int, ...], tmp_path: Path) -> None:
    proto = linear(outer, bias=True, matrix=matrix)
    path = written(proto, tmp_path, "constants")
    assert not [op for op in operations(path) if op.type.startswith("BatchMatMul")]
    for size in (2, 3, 0):
        x = RANDOM.normal(size=[size, *outer[1:], 20]).astype(np.float32)
        np.testing.assert_allclose(call(path, x), onnxruntime_of(proto, {"x": x})[0], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int32", "int64", "uint32"])
def test_every_dtype(kind: str, tmp_path: Path) -> None:
    proto = linear(["n", 1, 15], bias=True, kind=kind)
    path = written(proto, tmp_path, "constants")
    x = (RANDOM.normal(size=(3, 1, 15, 20)) * 3).astype(kind)
    w, b = (numpy_helper.to_array(t) for t in proto.graph.initializer)
    wide = np.float64 if np.dtype(kind).kind == "f" else np.int64
    expected = (x.astype(wide) @ w.astype(wide) + b.astype(wide)).astype(kind)
    got = call(path, x)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    # In half precision the product is rounded, and the sum is rounded again.
    within = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}.get(kind, 0)
    np.testing.assert_allclose(got, expected, rtol=within, atol=within * np.abs(expected.astype(wide)).max())


def test_a_matrix_of_nothing(tmp_path: Path) -> None:
    """oneDNN's fused product and bias would crash the process."""
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    weights = {"w": np.zeros((0, 5), np.float32), "b": np.arange(5, dtype=np.float32)}
    path = written(model(nodes, ["n", 0], ["n", 5], **weights), tmp_path, "constants")
    np.testing.assert_array_equal(call(path, np.zeros((3, 0), np.float32)), np.tile(weights["b"], (3, 1)))


@pytest.mark.parametrize("inner", [0, "k"])
def test_rows_of_nothing(inner: Any, tmp_path: Path) -> None:
    """A sum of no products is zero. A shape without elements does not determine the number of rows."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    if inner == "k":  # the matrix is data: a part of the input
        nodes.insert(0, helper.make_node("Slice", ["x", "from", "to", "axes"], ["part"]))
        nodes.insert(1, helper.make_node("Squeeze", ["part", "axes"], ["rows"]))
        nodes.insert(2, helper.make_node("Transpose", ["rows"], ["w"]))
        weights = {"from": np.zeros(1, np.int64), "to": np.ones(1, np.int64), "axes": np.zeros(1, np.int64)}
        proto = model(nodes, ["n", 5, "k"], ["n", 5, 5], **weights, b=np.arange(5, dtype=np.float32))
    else:
        weights = {"w": np.zeros((0, 5), np.float32)}
        proto = model(nodes, ["n", 5, 0], ["n", 5, 5], **weights, b=np.arange(5, dtype=np.float32))
    path = written(proto, tmp_path, "constants")
    x = np.zeros((3, 5, 0), np.float32)
    np.testing.assert_array_equal(call(path, x), np.broadcast_to(np.arange(5, dtype=np.float32), (3, 5, 5)))
    if inner == "k":
        x = RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
        np.testing.assert_allclose(call(path, x), x @ x[0].T + np.arange(5, dtype=np.float32), rtol=1e-5, atol=1e-5)


def test_a_product_whose_inner_size_only_the_running_model_knows(tmp_path: Path) -> None:
    """The graph multiplies matrices and adds separately, because oneDNN's fused product with an inner size of 0 crashes
    the process.
    """
    nodes = [
        helper.make_node("Transpose", ["x"], ["w"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["y"]),
    ]
    bias = np.arange(5, dtype=np.float32)
    path = written(model(nodes, [5, "k"], [5, 5], b=bias), tmp_path, "constants")
    np.testing.assert_array_equal(call(path, np.zeros((5, 0), np.float32)), np.tile(bias, (5, 1)))
    x = RANDOM.normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(call(path, x), x @ x.T + bias, rtol=1e-5, atol=1e-5)


# -- convolutions -----------------------------------------------------------------------------------------------------


def volume(activation: str, *, bias: bool, pad: int) -> onnx.ModelProto:
    """Return a Conv3D and a LeakyRelu of slope 0.2, which may be written as a maximum or a PRelu."""
    weights = {"w": RANDOM.normal(size=(4, 3, 3, 3, 3)).astype(np.float32)}
    if bias:
        weights["b"] = RANDOM.normal(size=4).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", *weights], ["h"], pads=[pad] * 6)]
    if activation == "Max":
        nodes += [helper.make_node("Mul", ["h", "slope"], ["low"]), helper.make_node("Max", ["h", "low"], ["y"])]
        weights["slope"] = np.float32(0.2).reshape(())
    elif activation == "PRelu":
        nodes.append(helper.make_node("PRelu", ["h", "slope"], ["y"]))
        weights["slope"] = np.full((1, 1, 1, 1), 0.2, np.float32)
    else:
        nodes.append(helper.make_node("LeakyRelu", ["h"], ["y"], alpha=0.2))
    return model(nodes, ["n", 3, 5, 6, 7], ["n", 4, *(d - 2 + 2 * pad for d in (5, 6, 7))], **weights)


VOLUMES = [(a, b, p) for a in ("LeakyRelu", "Max", "PRelu") for b in (False, True) for p in (0, 1)]

_RUN = """
import sys
import numpy as np
from tests.backends.tensorflow.test_onednn import call
from pathlib import Path
folder = Path(sys.argv[1])
x = np.load(folder / "x.npy")
for path in sorted(folder.glob("*/net*")):
    np.save(path.parent / "got.npy", call(path, x))
"""


@pytest.mark.slow
def test_conv3d_is_not_fused_with_leaky_relu(tmp_path: Path) -> None:
    """Under oneDNN, TensorFlow fuses Pad, Conv3D without bias and LeakyRelu into a kernel that uses a slope of 1.

    A maximum of a number and its fraction is treated as a LeakyRelu too; sums, a bias and a PRelu prevent the fusion.
    All artefacts run in one process, with oneDNN on for any processor.
    """
    x = RANDOM.normal(size=(2, 3, 5, 6, 7)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    expected = {}
    for form in ("variables", "tf-frozen"):
        for activation, bias, pad in VOLUMES:
            folder = tmp_path / f"{activation} {bias} {pad} {form}"
            folder.mkdir()
            proto = volume(activation, bias=bias, pad=pad)
            written(proto, folder, form)
            expected[folder] = onnxruntime_of(proto, {"x": x})[0]
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", _RUN, str(tmp_path)], env=environment, check=True, timeout=300)
    for folder, want in expected.items():
        np.testing.assert_allclose(np.load(folder / "got.npy"), want, rtol=1e-5, atol=2e-5, err_msg=folder.name)


@pytest.mark.parametrize("dims", [[5, 1], [1]], ids=str)
def test_windows_that_hold_padding_only_are_not_fused_with_a_bias(dims: list[int], tmp_path: Path) -> None:
    """With strides, dilations and a bias, oneDNN's fused kernel crashes the process if some window along the width has
    padding only.

    From `tests.suites.compose --source onnx --seed 1017`; TensorFlow 2.21.
    """
    rank = len(dims)
    more = {"strides": [2] * rank, "dilations": [2] * rank, "pads": [1] * 2 * rank}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["h"], **more), helper.make_node("Sigmoid", ["h"], ["y"])]
    weights = {"w": np.ones((2, 5, *[1] * rank), np.float32), "b": np.array([0.5, -2], np.float32)}
    path = written(model(nodes, ["n", 5, *dims], ["n", 2, *[4, 2][-rank:]], **weights), tmp_path, "tf-frozen")
    added = [op for op in operations(path) if op.type == "BiasAdd"]
    assert [op.inputs[0].op.type for op in added] == ["Squeeze"]
    x = RANDOM.normal(size=(3, 5, *dims)).astype(np.float32)
    want = np.broadcast_to(1 / (1 + np.exp(-weights["b"].reshape(2, *[1] * rank))), (3, 2, *[4, 2][-rank:]))
    np.testing.assert_allclose(call(path, x), want, rtol=1e-6)


@pytest.mark.parametrize("width", [3, 4, "w"])
@pytest.mark.parametrize("rank", [2, 3])
def test_one_window_along_the_width_has_no_stride(rank: int, width: Any, tmp_path: Path) -> None:
    """With one channel and no stride along the height, oneDNN reads elements outside the window.

    From `tests.suites.compose --source onnx --seed 550`; TensorFlow 2.21. For a dynamic width, two channels are
    written.
    """
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], strides=[1] * (rank - 1) + [2])]
    weights = {"w": RANDOM.normal(size=(4, 1, *[3] * rank)).astype(np.float32)}
    outer = [5] * (rank - 2) + [6]
    proto = model(nodes, ["n", 1, *outer, width], ["n", 4, *[None] * rank], **weights)
    path = written(proto, tmp_path, "constants")
    (found,) = [op for op in operations(path) if op.type in ("Conv2D", "Conv3D")]
    assert found.get_attr("strides")[-2] == 1 or found.inputs[1].shape[-2] == 2
    for size in (3, 4, 5, 9) if width == "w" else (width,):
        x = RANDOM.normal(size=(4, 1, *outer, size)).astype(np.float32)
        np.testing.assert_allclose(call(path, x), onnxruntime_of(proto, {"x": x})[0], rtol=1e-4, atol=2e-5)


def test_forms_that_have_no_kernel_under_one_setting_are_not_emitted(tmp_path: Path) -> None:
    """The test examines the graph, because TensorFlow 2.21 fails on some processors only.

    With oneDNN, a depthwise convolution with explicit paddings and a fused bias crashes the process. Without oneDNN,
    TensorFlow lacks a grouped convolution with a BiasAdd or a batch norm, unequal strides of a depthwise convolution,
    and channels first.
    """
    shapes = {"d": (4, 1, 3, 3), "s": (4, 1, 3, 3), "e": (4, 1, 3, 3), "g": (6, 2, 3, 3), "n": (6, 2, 3, 3)}
    weights = {n: RANDOM.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    weights |= {f"{n}b": RANDOM.normal(size=shape[0]).astype(np.float32) for n, shape in shapes.items()}
    weights |= {n: np.abs(RANDOM.normal(size=6)).astype(np.float32) for n in ("scale", "offset", "mean", "variance")}
    groups = {"d": (4, {"pads": [1, 0, 0, 1]}), "s": (4, {"strides": [2, 1]}),
              "e": (4, {"pads": [1] * 4, "strides": [2, 2]}), "g": (2, {"pads": [1] * 4}),
              "n": (2, {"pads": [0, 1, 1, 0]})}  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", n, f"{n}b"], [f"{n}0"], group=count, **more)
             for n, (count, more) in groups.items()]  # fmt: skip
    norm = ["n0", "scale", "offset", "mean", "variance"]
    nodes.append(helper.make_node("BatchNormalization", norm, ["n1"]))
    nodes += [helper.make_node("Relu", [n], [f"{n}r"]) for n in ("d0", "s0", "e0", "g0", "n1")]
    nodes += [helper.make_node("GlobalAveragePool", [f"{n}r"], [f"{n}p"]) for n in ("d0", "s0", "e0", "g0", "n1")]
    nodes.append(helper.make_node("Concat", ["d0p", "s0p", "e0p", "g0p", "n1p"], ["y"], axis=1))
    proto = model(nodes, ["n", 4, 7, 6], ["n", 24, 1, 1], **weights)
    path = written(proto, tmp_path, "tf-frozen")
    found = list(operations(path))
    depthwise = [op for op in found if op.type == "DepthwiseConv2dNative"]
    grouped = [op for op in found if op.type == "Conv2D" and op.inputs[0].shape[-1] != op.inputs[1].shape[2]]
    padded = [op for op in depthwise if op.get_attr("padding") == b"EXPLICIT"]
    assert [[user.type for user in op.outputs[0].consumers()] for op in padded] == [["ExpandDims"]]
    assert all(op.get_attr("strides")[1] == op.get_attr("strides")[2] for op in depthwise)
    readers = {user.type for op in grouped for user in op.outputs[0].consumers()}
    assert not readers & {"BiasAdd", "FusedBatchNormV3"}
    layouts = {op.get_attr("data_format") for op in found if "data_format" in op.node_def.attr}
    assert layouts <= {b"NHWC", b"NDHWC"}
    x = RANDOM.normal(size=(3, 4, 7, 6)).astype(np.float32)
    np.testing.assert_allclose(call(path, x), onnxruntime_of(proto, {"x": x})[0], rtol=1e-4, atol=2e-5)


# -- operators on bytes, as sources -----------------------------------------------------------------------------------


def half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


@tf.function(input_signature=[tf.TensorSpec([None, 4, 6, 2], name="x")], autograph=False)
def levels(x: Any) -> dict[str, Any]:
    raw = tf.raw_ops
    low, high = tf.constant(-1.1), tf.constant(0.7)
    stored, *ends = raw.QuantizeV2(input=x, min_range=low, max_range=high, T=tf.quint8, mode="MIN_FIRST")
    pool = raw.QuantizedAvgPool(
        input=stored, min_input=ends[0], max_input=ends[1], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"
    )
    wide = tf.bitcast(tf.cast(x * 1e6, tf.int32), tf.qint32)
    return {
        "levels": tf.bitcast(stored, tf.uint8),
        "means": tf.bitcast(pool[0], tf.uint8),
        "numbers": raw.Dequantize(input=wide, min_range=-3.0, max_range=3.0, mode="SCALED"),
    }


def saved(folder: Path, form: str) -> Source:
    if form == "savedmodel":
        module = tf.Module()
        module.serve = levels
        tf.saved_model.save(module, str(folder / "bytes"), signatures=levels)
        return Source(form, folder / "bytes")
    graph = levels.get_concrete_function().graph.as_graph_def()
    (folder / "bytes.pb").write_bytes(graph.SerializeToString())
    return Source("frozen-graph", folder / "bytes.pb")


@pytest.mark.slow
@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.parametrize("form", ["savedmodel", "frozen"])
def test_a_source_of_bytes_runs_as_documented(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's QuantizeV2 differs from the documentation, its mean is rounded, and it lacks this Dequantize.

    oneDNN's kernels are requested here, as if they were the default: the verdict must not depend on that.
    """
    source = saved(tmp_path, form)
    x = RANDOM.uniform(-1.5, 1.0, (3, 4, 6, 2)).astype(np.float32)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    got = list(execute(source, [{"x": x}]).results()["float32"][0].values())  # type: ignore[index]
    scale = np.float32(255 / (np.float64(np.float32(0.7)) - np.float64(np.float32(-1.1))))
    stored = np.clip(half_away(x * scale) - half_away(np.float32(-1.1) * scale), 0, 255)
    means = np.floor(stored.reshape(3, 2, 2, 3, 2, 2).mean((2, 4)))
    numbers = (x * np.float32(1e6)).astype(np.int32) * (3 / (2**31 - 1))
    by_shape = {(*a.shape, a.dtype.name): a for a in got}
    np.testing.assert_array_equal(by_shape[3, 4, 6, 2, "uint8"], stored)
    np.testing.assert_array_equal(by_shape[3, 2, 3, 2, "uint8"], means)
    np.testing.assert_allclose(by_shape[3, 4, 6, 2, "float32"], numbers, rtol=1e-6)
    report = api.convert(source.file, "onnx", tmp_path / "bytes.onnx")
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any(note.code == "kernel-numbers" for note in report.notes)


def test_other_graphs_run_as_they_are_deployed(tmp_path: Path) -> None:
    from convert.frontends.tensorflow.runner.runner import environment

    path = written(linear(["n", 3], bias=True), tmp_path, "tf-frozen")
    assert environment(Source("frozen-graph", path)) == {}
    assert environment(Source("graphdef-object", model=definition(path))) == {}
