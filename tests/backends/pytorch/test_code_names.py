"""Names that modules of a program cannot have: with too many parts, or with digits that are no decimal numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

import convert
from tests.backends.pytorch.test_code_numbers import loaded_code


@pytest.mark.parametrize("name", ["9" * 5000, "0" * 5000, "٣", "፩", "1" * 12, "a/" * 100_000 + "b", "0." * 3000 + "1"],
                         ids=["9s", "0s", "arabic", "ethiopic", "a trillion", "deep", "lists"])  # fmt: skip
@pytest.mark.parametrize("target", ["torch-code", "torch"])
def test_the_network_is_written_whatever_its_nodes_are_called(target: str, name: str, tmp_path: Path) -> None:
    weights = [np.random.default_rng(i).normal(size=(4, 4)).astype("f4") for i in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", f"layers.{name}.weight"], ["h"], name=f"/layers.{name}/MatMul"),
        helper.make_node("MatMul", ["h", "w"], ["y"], name=f"/layers.{name}/1/MatMul"),
    ]
    held = [onnx.numpy_helper.from_array(w, n) for w, n in zip(weights, (f"layers.{name}.weight", "w"), strict=True)]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 4]) for n in "xy")
    proto = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], held), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
    path = tmp_path / ("n.pt2" if target == "torch" else "n.torch")
    convert.convert(proto, target, path, verify=False)
    module = torch.export.load(path).module() if target == "torch" else loaded_code(path)
    given = np.ones((3, 4), np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": given})
    with torch.no_grad():
        (found,) = torch.utils._pytree.tree_leaves(module(torch.from_numpy(given)))
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5)
