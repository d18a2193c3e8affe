"""Products of transposed matrices with vectors, for which onnxruntime's own optimizer gives wrong numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import convert

MODELS = {
    "a constant": (
        "(float[n, 6] x) => (float[6] y) { t = Transpose (x) y = MatMul (t, w) }",
        {"x": (8, 6)},
    ),
    "an input": (
        "(float[n, 6] x, float[n] v) => (float[6] y) { t = Transpose (x) m = MatMul (t, v) y = Mul (m, two) }",
        {"x": (8, 6), "v": (8,)},
    ),
    "batches": (
        "(float[b, n, 6] x) => (float[b, 6] y) { t = Transpose <perm = [0, 2, 1]> (x) s = Neg (t) y = MatMul (s, w) }",
        {"x": (3, 8, 6)},
    ),
    "in a branch": (
        "(float[n, 6] x, bool c) => (float[6] y) { y = If (c) <then_branch = a () => (p) { t = Transpose (x) "
        "p = MatMul (t, w) }, else_branch = b () => (q) { u = Transpose (x) r = MatMul (u, w) q = Neg (r) }> }",
        {"x": (8, 6), "c": None},
    ),
    "a vector in front": (
        "(float[n, 6] x) => (float[n] y) { t = Transpose (x) f = Slice (w, zero, six) y = MatMul (f, t) }",
        {"x": (8, 6)},
    ),
}


@pytest.mark.parametrize("opset", [None, 9])
@pytest.mark.parametrize("name", MODELS)
def test_a_transposed_matrix_by_a_vector(name: str, opset: int | None, tmp_path: Path) -> None:
    text, dims = MODELS[name]
    weights = "<float[8] w = {1, 2, 3, 4, 5, 6, 7, 9}, float two = {2}, int64[1] zero = {0}, int64[1] six = {6}>"
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g ' + text.replace("{", weights + "{", 1))
    rng = np.random.default_rng(0)
    feed = {n: np.array(True) if d is None else rng.normal(size=d).astype(np.float32) for n, d in dims.items()}
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), plain).run(None, feed)
    convert.convert(proto, "onnx", tmp_path / "m.onnx", verify=False, **({} if opset is None else {"opset": opset}))
    (got,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, feed)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


class Projection(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v = torch.nn.Parameter(torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mT @ self.v / 2


def test_in_pytorch(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", torch.randn(5, 8, 6)
    convert.convert(Projection(), "onnx", path, inputs="x:float32[b,8,6]", verify=False)
    (got,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(got, Projection()(x).detach().numpy(), rtol=1e-5, atol=1e-5)
