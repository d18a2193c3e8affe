"""Sums of broadcast operands in TensorFlow Lite, whose converter adds before it broadcasts, along wrong axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the oracle")
pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.tensorflow_lite_helper import encode, run  # noqa: E402  (after what it needs)


def graph() -> ir.Model:
    """Return sums over each axis, and sums of sums; each is used once, because a value used twice would be broadcast
    first.
    """
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [8, 3])

    def expanded(n: int) -> ir.Value:
        return g.Expand(g.Add(x, np.float32(n)), np.array([2, 1, 1]))

    forms = [(axes, keep) for axes in ([0], [1], [2], [0, 1]) for keep in (0, 1)]
    for n, (axes, keep) in enumerate(forms):
        g.output(g.ReduceSum(expanded(n), np.array(axes), keepdims=keep), f"sum_{n}")
    g.output(g.Tanh(g.ReduceL1(expanded(-9), np.array([1]))), "absolute")
    g.output(g.ReduceL2(expanded(9), np.array([1])), "norm")
    return g.model()


def test_sums_of_expanded_tensors(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    made = graph()
    names = [str(v.name) for v in made.graph.outputs]
    session = onnxruntime.InferenceSession(ir.to_proto(made).SerializeToString())
    want = dict(zip(names, session.run(names, {"x": x}), strict=True))
    got = run(encode(made, tmp_path), {"x": x})
    assert list(got) == names
    for name in names:
        assert got[name].shape == want[name].shape
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5, err_msg=name)
