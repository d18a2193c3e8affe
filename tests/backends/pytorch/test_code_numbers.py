"""Numbers in code equal the graph's: float32 with the fewest digits that identify them, float64 with all digits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from safetensors.torch import load_file

import convert

TENTH = float(np.float32(0.1))  # in float64 this is not 0.1


def network(dtype: type) -> onnx.ModelProto:
    """Return a network with scalars, a small constant and the epsilon of a norm, all of which need many digits."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    numbers = {"c": TENTH, "v": [TENTH, 0.7, -TENTH], "s": [1.0, 2.0, 3.0], "o": [TENTH, 0.0, 1.0], "low": -TENTH}
    weights = [onnx.numpy_helper.from_array(np.array(n, dtype), name) for name, n in numbers.items()]
    nodes = [
        helper.make_node("Mul", ["x", "c"], ["a"]),
        helper.make_node("Max", ["a", "low"], ["b"]),
        helper.make_node("Where", ["m", "b", "v"], ["d"]),
        helper.make_node("LayerNormalization", ["d", "s", "o"], ["y"], epsilon=1e-5),
    ]
    x, y = (helper.make_tensor_value_info(name, kind, ["n", 3]) for name in "xy")
    mask = helper.make_tensor_value_info("m", onnx.TensorProto.BOOL, [3])
    graph = helper.make_graph(nodes, "numbers", [x, mask], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def loaded_code(folder: Path) -> torch.nn.Module:
    """Return the network in a folder of code, with its weights."""
    spec = importlib.util.spec_from_file_location("numbers_in_code", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: torch.nn.Module = module.Model()
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.eval()


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-13), (np.float32, 2e-6)])
def test_numbers_are_those_of_the_graph(dtype: type, bound: float, tmp_path: Path) -> None:
    proto = network(dtype)
    convert.convert(proto, "torch-code", tmp_path / "n.torch", verify=False)
    model = loaded_code(tmp_path / "n.torch")
    x: np.ndarray = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    feed = {"x": x, "m": np.array([True, False, True])}
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feed)
    with torch.no_grad():
        got = model(**{name: torch.from_numpy(array) for name, array in feed.items()})
    np.testing.assert_allclose(got.numpy(), want, rtol=bound, atol=bound)
    assert ("0.1)" in (tmp_path / "n.torch" / "model.py").read_text()) == (dtype is np.float32)


def test_a_weight_that_is_an_output_is_a_copy(tmp_path: Path) -> None:
    """A caller who writes to an output must not change the weight."""
    x, y, w = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "xyw")
    weight = onnx.numpy_helper.from_array(np.array([1.5, -2, 3], np.float32), "w")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "ends", [x], [y, w], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    convert.convert(proto, "torch-code", tmp_path / "n.torch", verify=False)
    model = loaded_code(tmp_path / "n.torch")
    with torch.no_grad():
        model(torch.ones(3))["w"].zero_()
        assert model(torch.ones(3))["y"].tolist() == [1.5, -2, 3]
