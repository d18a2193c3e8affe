"""Einsum in TensorFlow Lite along dims of unknown size, with three operands, and with nothing to sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

from tests.support.run_targets import run_target
from tests.support.tensorflow_lite_helper import encode, graph_of

SIZES = {"i": 2, "j": 3, "k": 4, "l": 5}
EQUATIONS = ["nij,njk,kl->nil", "ni,jk->jnki", "ni,mi,mj->nj", "nij,jk,k->i"]


def einsums() -> onnx.ModelProto:
    """Return a model with one Einsum for each equation; the last operand is constant if it has neither n nor m."""
    nodes, weights, inputs, outputs = [], [], {}, []
    for place, equation in enumerate(EQUATIONS):
        left, _, right = equation.partition("->")
        names = []
        for term in left.split(","):
            names.append(term if set(term) & {"n", "m"} else f"{term}_{place}")
            dims = [SIZES.get(label, label) for label in term]
            if names[-1] == term:
                inputs[term] = helper.make_tensor_value_info(term, TensorProto.FLOAT, dims)
            else:
                values = np.random.default_rng(place).standard_normal(dims).astype(np.float32)
                weights.append(numpy_helper.from_array(values, names[-1]))
        nodes.append(helper.make_node("Einsum", names, [f"y{place}"], equation=equation))
        dims = [SIZES.get(label, label) for label in right]
        outputs.append(helper.make_tensor_value_info(f"y{place}", TensorProto.FLOAT, dims))
    graph = helper.make_graph(nodes, "g", list(inputs.values()), outputs, weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])


def test_products_at_several_sizes(tmp_path: Path) -> None:
    model = einsums()
    rng = np.random.default_rng(7)
    feeds = [
        {
            i.name: rng.standard_normal([{"n": n, "m": m}.get(c, SIZES.get(c, 0)) for c in i.name]).astype(np.float32)
            for i in model.graph.input
        }
        for n, m in ((1, 2), (3, 1), (2, 5))
    ]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    for feed, got in zip(feeds, run_target("tflite", encode(graph_of(model), tmp_path), feeds), strict=True):
        for name, want in zip(names, session.run(names, feed), strict=True):
            assert got[name].shape == want.shape, EQUATIONS[int(name[1:])]
            np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-5, err_msg=EQUATIONS[int(name[1:])])
