"""Attention written out for older opsets: what ONNX's own node tests expect, in few nodes."""

from __future__ import annotations

from pathlib import Path

import convert.backends.onnx as backend
import numpy as np
import onnx
import pytest

from convert.options import Options
from convert.report import Report
from tests.support.onnx_support import data_of, node_tests, read, session

# Name of the node test, and the most nodes that its expansion may have.
CASES = {
    "test_attention_4d": 7,
    "test_attention_4d_scaled": 7,
    "test_attention_4d_attn_mask": 12,
    "test_attention_4d_attn_mask_bool": 13,
    "test_attention_4d_attn_mask_4d": 12,
    "test_attention_4d_causal": 20,
    "test_attention_4d_gqa": 12,
    "test_attention_4d_gqa_attn_mask": 17,
    "test_attention_4d_diff_heads_sizes": 7,
    "test_attention_3d": 16,
    "test_attention_3d_gqa_causal": 28,
    "test_attention_3d_attn_mask": 20,
}


@pytest.mark.parametrize("name", CASES)
def test_attention_in_opset_20(name: str, tmp_path: Path) -> None:
    case = node_tests()[name]
    inputs, outputs = data_of(case)
    path = tmp_path / "m.onnx"
    backend.write(read(case.model), path, "onnx", Options(extra={"opset": 20}), Report("test"))
    nodes = onnx.load(path).graph.node
    assert "Attention" not in {n.op_type for n in nodes}
    assert len(nodes) <= CASES[name], [n.op_type for n in nodes]
    run = session(path)
    got = run.run(None, dict(zip([i.name for i in run.get_inputs()], inputs, strict=True)))
    for value, wanted in zip(got, outputs, strict=True):
        assert value.dtype == wanted.dtype
        np.testing.assert_allclose(value, wanted, rtol=case.rtol, atol=1e-6)
