"""Steps of optimizers, written out, in onnxruntime against ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from convert.legalize.write_out import write_out
from convert.rules.onnx_schemas import operator_of
from tests.support.onnx_support import info

TRAINING = "ai.onnx.preview.training"
ROWS: dict[str, tuple[int, dict[str, Any]]] = {
    "Adagrad": (3, {"norm_coefficient": 0.01, "decay_factor": 0.1}),
    "Adam": (4, {"norm_coefficient": 0.01, "alpha": 0.95, "beta": 0.9, "norm_coefficient_post": 0.02}),
    "Momentum standard": (3, {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.0, "mode": "standard"}),
    "Momentum nesterov": (3, {"alpha": 0.9, "beta": 0.7, "norm_coefficient": 0.01, "mode": "nesterov"}),
}


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("row", ROWS)
def test_two_tensors(row: str, steps: int) -> None:
    kinds, attributes = ROWS[row]
    chance = np.random.default_rng(5)
    feeds = {"r": np.array(0.1, np.float32), "t": np.array(steps)}
    for kind in range(kinds):
        for number, shape in enumerate([(2, 3), (4,)]):
            feeds[f"{'xgvh'[kind]}{number}"] = chance.uniform(0.1 if kind > 1 else -1, 1, shape).astype(np.float32)
    names = [f"new_{name}" for name in feeds if name[0] in "xvh"]
    node = helper.make_node(row.split()[0], list(feeds), names, domain=TRAINING, **attributes)
    inputs = [info(name, list(x.shape), 7 if name == "t" else 1) for name, x in feeds.items()]
    outputs = [info(name, list(feeds[name[4:]].shape)) for name in names]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid(TRAINING, 1)]
    proto = helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=imports, ir_version=9)
    model = ir.from_proto(proto)
    assert write_out(model, lambda one: "::" not in operator_of(one))
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(session.run(None, feeds), ReferenceEvaluator(proto).run(None, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-7)
