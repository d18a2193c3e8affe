"""Recurrent layers over any number of steps, against onnxruntime."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.passes.legalize import legalize
from convert.backends.pytorch.writer.exported import export_model
from onnx import helper

from tests.backends.pytorch.test_backend import model_of

SIZES = [(1, 1), (2, 3), (7, 4)]


def layer(operator: str, gates: int, directions: int = 1, peepholes: bool = False, lengths: bool = False,
          states: bool = False, **attributes: Any):  # fmt: skip
    """Return a model of x [steps, batch, 4] with hidden states of 3; outputs y as [steps, batch, directions · 3] and
    the last state.
    """
    rng = np.random.default_rng(0)
    shapes = {"w": (gates * 3, 4), "r": (gates * 3, 3), "b": (gates * 6,), "p": (9,)}
    weights = {n: rng.normal(size=(directions, *s)).astype(np.float32) for n, s in shapes.items()}
    if not peepholes:
        del weights["p"]
    inputs = ["x", "w", "r", "b", "lengths" if lengths else "", "h" if states else ""]
    if operator == "LSTM":
        inputs += ["", "p" if peepholes else ""]
    given: dict[str, list] = {"x": ["steps", "batch", 4], "h": [directions, "batch", 3]}
    nodes = [
        helper.make_node(operator, inputs, ["all", "y_h"], hidden_size=3, **attributes),
        helper.make_node("Transpose", ["all"], ["y"], perm=[0, 2, 1, 3]),
    ]
    if not states:
        del given["h"]
    model = model_of(nodes, given, ["y", "y_h"], weights)
    if lengths:
        model.graph.input.append(helper.make_tensor_value_info("lengths", 6, ["batch"]))
    return model


@pytest.mark.parametrize(
    ("operator", "gates", "whole", "options"),
    [
        ("LSTM", 4, True, {}),
        ("LSTM", 4, True, {"directions": 2, "direction": "bidirectional", "states": False}),
        ("GRU", 3, True, {"linear_before_reset": 1, "states": True, "direction": "reverse"}),
        ("RNN", 1, True, {"activations": ["Relu"]}),
        pytest.param("GRU", 3, False, {"directions": 2, "direction": "bidirectional"}, marks=pytest.mark.slow),
        pytest.param("LSTM", 4, False, {"peepholes": True, "direction": "reverse"}, marks=pytest.mark.slow),
        pytest.param(
            "LSTM", 4, False, {"lengths": True, "directions": 2, "direction": "bidirectional"}, marks=pytest.mark.slow
        ),
        pytest.param("RNN", 1, False, {"clip": 0.5, "states": True}, marks=pytest.mark.slow),
    ],
)
def test_steps_and_batch_are_dynamic(operator: str, gates: int, whole: bool, options: dict[str, Any]) -> None:
    model = layer(operator, gates, **options)
    shared = ir.from_proto(model)
    legalize(shared)
    file = io.BytesIO()
    torch.export.save(export_model(shared), file)
    file.seek(0)
    program = torch.export.load(file)
    targets = [str(n.target) for n in program.graph.nodes]
    assert any(t.startswith(("aten.lstm", "aten.gru", "aten.rnn")) for t in targets) == whole
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(1)
    for steps, batch in SIZES:
        feeds = {"x": rng.normal(size=(steps, batch, 4)).astype(np.float32)}
        for name in [i.name for i in model.graph.input][1:]:
            state = rng.normal(size=(1, batch, 3)).astype(np.float32)
            feeds[name] = rng.integers(1, steps + 1, batch).astype(np.int32) if name == "lengths" else state
        outputs = program.module()(*(torch.from_numpy(feeds[i.name]) for i in model.graph.input))
        for name, wanted in zip(("y", "y_h"), session.run(["y", "y_h"], feeds), strict=True):
            np.testing.assert_allclose(outputs[name].detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
