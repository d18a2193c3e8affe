"""A SavedModel with more than 2 GB of variables, which neither protobuf nor one constant could hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import convert

WIDTH, COUNT = 8192, 9
"""Rows and columns of a matrix (256 MiB), and the number of matrices."""


def chain(path: Path) -> None:
    """Return COUNT products with matrices in a file beside the model; the last one is read as a transposed matrix."""
    weights = []
    draw = np.random.default_rng(0)
    with open(path.with_suffix(".data"), "wb") as stream:
        for i in range(COUNT):
            tensor = onnx.TensorProto(name=f"w{i}", data_type=1, dims=[WIDTH, WIDTH], data_location=1)
            array = (draw.random((WIDTH, WIDTH), np.float32) - 0.5) * np.float32(12 / WIDTH) ** np.float32(0.5)
            for key, value in (("location", path.stem + ".data"), ("offset", stream.tell()), ("length", array.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            stream.write(array)
            weights.append(tensor)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(COUNT - 1)]
    nodes.append(helper.make_node("Gemm", [f"x{COUNT - 1}", f"w{COUNT - 1}"], ["y"], transB=1))
    ends = [helper.make_tensor_value_info(name, 1, ["batch", WIDTH]) for name in ("x0", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


@pytest.mark.long
def test_more_than_two_gigabytes_of_variables(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    source, target = tmp_path / "large.onnx", tmp_path / "large.savedmodel"
    chain(source)
    convert.convert(source, "tf", target, verify=False)
    stored = sum(file.stat().st_size for file in (target / "variables").iterdir())
    assert stored > COUNT * WIDTH * WIDTH * 4 > 2**31
    assert (target / "saved_model.pb").stat().st_size < 2**20
    x = np.random.default_rng(1).normal(size=(3, WIDTH)).astype(np.float32)
    wanted = x.astype(np.float64)
    for i in range(COUNT):
        matrix = np.memmap(source.with_suffix(".data"), np.float32, "r", i * WIDTH * WIDTH * 4, (WIDTH, WIDTH))
        wanted = np.concatenate(
            [wanted @ part.astype(np.float64).T for part in np.split(matrix if i == COUNT - 1 else matrix.T, 8)], 1
        )
    loaded = tf.saved_model.load(str(target))
    assert len(loaded.trainable_variables) == COUNT
    (got,) = loaded.signatures["serving_default"](x0=tf.constant(x)).values()
    error = np.sqrt(np.mean((got.numpy() - wanted) ** 2) / np.mean(wanted**2))
    assert error < 1e-5
