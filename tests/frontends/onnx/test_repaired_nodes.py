"""Nodes in the form of one exporter, which onnxruntime does not load: PyTorch is the oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import convert
from tests.support.onnx_support import info, model, run_ort

torch = pytest.importorskip("torch", reason="PyTorch is the oracle")


@pytest.mark.parametrize(("pads", "longer"), [([0, 0, -1, -1], [1, 1]), ([1, 0, 1, -1], [0, 1])])
def test_negative_pads_of_a_transposed_convolution(pads: list[int], longer: list[int], tmp_path: Path) -> None:
    """tf2onnx writes output_padding so. onnxruntime does not load such a file, and PyTorch is the oracle."""
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=dims).astype(np.float32) for dims in ((1, 2, 4, 5), (2, 3, 3, 3)))
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=pads)
    proto = model([node], [info("x", x.shape), info("w", w.shape)], [info("y", [None] * 4)])
    onnx.save(proto, tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "onnx", tmp_path / "out.onnx", verify=False)
    assert any("were written as output_padding" in note for note in report.notes)
    (got,) = run_ort(tmp_path / "out.onnx", {"x": x, "w": w})
    padding = [max(0, n) for n in pads[:2]]
    want = torch.nn.functional.conv_transpose2d(
        *map(torch.from_numpy, (x, w)), stride=2, padding=padding, output_padding=longer
    )
    np.testing.assert_allclose(got, want.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("function", ["Tanh", "Relu"])
def test_an_rnn_of_two_directions_with_one_activation(function: str, tmp_path: Path) -> None:
    """PyTorch 1.2 writes RNNs so."""
    torch.manual_seed(0)
    layer = torch.nn.RNN(5, 3, nonlinearity=function.lower(), bidirectional=True)
    own = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    w, r = (np.stack([own[f"{name}_l0"], own[f"{name}_l0_reverse"]]) for name in ("weight_ih", "weight_hh"))
    b = np.stack([np.concatenate([own[f"bias_ih_l0{end}"], own[f"bias_hh_l0{end}"]]) for end in ("", "_reverse")])
    node = helper.make_node("RNN", ["x", "w", "r", "b"], ["y", "h"], hidden_size=3, direction="bidirectional",
                            activations=[function])  # fmt: skip
    constants = [numpy_helper.from_array(array, name) for name, array in zip("wrb", (w, r, b), strict=True)]
    proto = model([node], [info("x", [4, 2, 5])], [info("y", [4, 2, 2, 3]), info("h", [2, 2, 3])])
    proto.graph.initializer.extend(constants)
    onnx.save(proto, tmp_path / "m.onnx")
    report = convert.convert(tmp_path / "m.onnx", "onnx", tmp_path / "out.onnx", verify=False)
    assert any("repeated for the second direction" in note for note in report.notes)
    x = np.random.default_rng(0).normal(size=(4, 2, 5)).astype(np.float32)
    y, h = run_ort(tmp_path / "out.onnx", {"x": x})
    with torch.no_grad():
        wanted, state = layer(torch.from_numpy(x))
    np.testing.assert_allclose(y.transpose(0, 2, 1, 3).reshape(4, 2, 6), wanted.numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(h, state.numpy(), 1e-5, 1e-6)
