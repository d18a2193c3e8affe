"""The runner of ONNX models: both precisions, and why a model does not load."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from convert.errors import ConvertError, Unsupported, UsageError
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes import onnx as runner
from tests.support.onnx_support import array, info, model, read

RNG = np.random.default_rng(3)


def matmul() -> onnx.ModelProto:
    w = array("w", np.random.default_rng(0).normal(size=(2000, 3)))
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [info("x", ["n", 2000])], [info("y", ["n", 3])], [w])


def test_runner_in_both_precisions(tmp_path: Any) -> None:
    proto = matmul()
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    x = RNG.normal(size=(4, 2000)).astype(np.float32)
    exact = x.astype(np.float64) @ onnx.numpy_helper.to_array(proto.graph.initializer[0]).astype(np.float64)
    for source in (Source("onnx", path), Source("onnx-object", model=proto), Source("onnx-object", model=read(proto))):
        (single,) = runner.run(source, [{"x": x}], precision="float32", options=Options())
        (double,) = runner.run(source, [{"x": x}], precision="float64", options=Options())
        assert single["y"].dtype == np.float32
        assert double["y"].dtype == np.float64
        np.testing.assert_allclose(double["y"], exact, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(single["y"], exact, rtol=1e-3, atol=1e-3)
    assert runner.available() == ""


def test_runner_says_why_a_model_does_not_load() -> None:
    proto = model(
        [helper.make_node("Magic", ["x"], ["y"], domain="mine")], [info("x", [2])], [info("y", [2])], domains=["mine"]
    )
    with pytest.raises(ConvertError, match=r"onnxruntime does not load.*Magic"):
        runner.run(Source("onnx-object", model=proto), [{"x": np.ones(2)}], precision="float32", options=Options())
    with pytest.raises(UsageError, match="no input 'z'"):
        runner.run(Source("onnx-object", model=matmul()), [{"z": np.ones(2)}], precision="float32", options=Options())


def test_a_kernel_that_is_lacking_at_the_first_run_is_none_of_the_model() -> None:
    """For an LSTM in float64, onnxruntime reports the missing kernel only at the first run."""
    double, sizes = onnx.TensorProto.DOUBLE, {"x": [2, 1, 3], "y": [2, 1, 1, 4]}
    ends = [helper.make_tensor_value_info(name, double, dims) for name, dims in sizes.items()]
    weights = [array(name, RNG.normal(size=(1, 16, n))) for name, n in (("w", 3), ("r", 4))]
    weights = [onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(w).astype(np.float64), w.name) for w in weights]
    proto = model([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)], ends[:1], ends[1:], weights)
    with pytest.raises(Unsupported, match="onnxruntime lacks a kernel"):
        runner.run(
            Source("onnx-object", model=proto), [{"x": np.ones((2, 1, 3))}], precision="float32", options=Options()
        )


@pytest.mark.parametrize("where", ["initializer", "constant"])
@pytest.mark.parametrize("place", ["../secret", "absolute", "link", "*/_ORT_MEM_ADDR_/*"])
def test_weights_elsewhere_are_not_read(tmp_path: Any, place: str, where: str) -> None:
    """The frontend, which refuses such files, does not read a target: onnxruntime has to refuse it, and does."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_bytes(bytes(16))
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    held = np.zeros(4, np.float32)
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    location = str(tmp_path / "secret") if place == "absolute" else place
    for key, value in (
        ("location", location),
        ("offset", str(held.ctypes.data if "*" in place else 0)),
        ("length", "16"),
    ):
        tensor.external_data.add(key=key, value=value)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if where == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    proto = model(nodes, [info("x", [4])], [info("y", [4])], [tensor] if where == "initializer" else [])
    path = tmp_path / "in" / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ConvertError, match="onnxruntime does not load"):
        runner.run(Source("onnx", path), [{"x": held}], precision="float32", options=Options())
