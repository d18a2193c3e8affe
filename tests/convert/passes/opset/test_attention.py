"""Attention written out for older opsets, in few nodes, against ONNX's own node tests."""

from __future__ import annotations

from pathlib import Path

import convert.backends.onnx as backend
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import convert
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import data_of, node_test, read, session

# Name of the node test, and the maximum number of nodes in its expansion.
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
    case = node_test("attention", name)
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


@pytest.mark.parametrize("past", [False, True], ids=["no cache", "a cache"])
@pytest.mark.parametrize("boolean", [False, True], ids=["added", "boolean"])
def test_a_mask_whose_length_the_run_tells_is_filled_up(boolean: bool, past: bool) -> None:
    """At opset 24, keys after the end of the mask are ignored, even if the mask has one element per row."""
    names = ["q", "k", "v", "mask", *["past_k", "past_v"] * past]
    kinds = {"mask": 9 if boolean else 1}
    dims = {"q": ["b", 2, "n", 4], "k": ["b", 2, "m", 4], "v": ["b", 2, "m", 4], "mask": ["n", "seen"]}
    inputs = [helper.make_tensor_value_info(n, kinds.get(n, 1), dims.get(n, ["b", 2, "p", 4])) for n in names]
    outputs = ["y", "k2", "v2"] if past else ["y"]
    node = helper.make_node("Attention", [*names[:4], *names[4:], *[""] * (1 if past else 0)], outputs)
    ends = [helper.make_tensor_value_info(n, 1, ["b", 2, None, 4]) for n in outputs]
    graph = helper.make_graph([node], "g", inputs, ends)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    made = convert.to_onnx(proto, opset=20, verify=False)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    chance = np.random.default_rng(0)
    for queries, keys, seen in ((3, 5, 5), (3, 5, 2), (2, 4, 1), (1, 1, 1)):
        total = keys + 3 * past
        shapes = {"q": (2, 2, queries, 4), "mask": (queries, seen + 3 * past if seen == keys else seen)}
        feed = {n: chance.standard_normal(shapes.get(n, (2, 2, keys if n in "kv" else 3, 4))) for n in names}
        feed = {n: (a > 0 if n == "mask" and boolean else a.astype(np.float32)) for n, a in feed.items()}
        if boolean:
            feed["mask"][:, 0] = True
        assert feed["mask"].shape[-1] <= total
        want = ReferenceEvaluator(proto).run(None, feed)
        for got, expected in zip(session.run(None, feed), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
