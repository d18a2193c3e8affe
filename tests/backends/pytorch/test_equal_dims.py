"""Dims of one name are equal in the program if the graph requires it, and independent if not."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.writer.exported import export_model

CACHES = """<ir_version: 9, opset_import: ["" : 20]> caches
    (float[b, n, 4] x, float[b, p, 4] keys, float[b, p, 4] values) => (float[b, n, 4] y, float[b, m, 4] more) {
        k = Concat <axis = 1> (keys, x)
        v = Concat <axis = 1> (values, x)
        turned = Transpose <perm = [0, 2, 1]> (k)
        scores = MatMul (x, turned)
        y = MatMul (scores, v)
        more = Identity (v)
    }"""
APART = """<ir_version: 9, opset_import: ["" : 20]> apart
    (float[n, 2] a, float[n, 3] b) => (float[n, 2] y, float[n, 3] z) { y = Relu (a) z = Relu (b) }"""


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(np.float32)


def test_caches_of_one_length() -> None:
    """PyTorch treats their lengths as different, so that they would not fit into one product."""
    proto = onnx.parser.parse_model(CACHES)
    program = export_model(ir.from_proto(proto)).module()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for b, n, p in ((2, 3, 4), (1, 1, 7), (3, 5, 0), (1, 1, 1)):
        feed = {"x": numbers(b, n, 4), "keys": numbers(b, p, 4), "values": numbers(b, p, 4)}
        found = program(*map(torch.from_numpy, feed.values()))
        for name, want in zip(("y", "more"), session.run(["y", "more"], feed), strict=True):
            np.testing.assert_allclose(found[name].numpy(), want, rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(*(torch.zeros(2, n, 4) for n in (3, 4, 5)))


def test_what_need_not_be_equal_may_differ() -> None:
    program = export_model(ir.from_proto(onnx.parser.parse_model(APART))).module()
    found = program(torch.ones(3, 2), -torch.ones(5, 3))
    assert found["y"].shape == (3, 2)
    assert found["z"].tolist() == [[0.0] * 3] * 5
