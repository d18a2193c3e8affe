"""Rules that distinguish cases by sizes must not exclude batches of one from the program."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.writer.code import code_of
from convert.backends.pytorch.writer.exported import export_model

from convert.errors import Unsupported

HEAD = '<ir_version: 10, opset_import: ["" : 21]> graph '
GRAPHS = {
    "slopes like the input": "(float[b, 3] x) => (float[b, 3] y) { s = Neg (x) y = PRelu (x, s) }",
    "a matrix by batches": """(float[b, 3] x) => (float[2, 1, b, 3] y)
        <float[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1}> { y = MatMul (x, w) }""",
    "rows by rows": """(float[b, 3] x) => (float[b, b] y) <int64[1] last = {2}> {
        column = Unsqueeze (x, last) y = Einsum <equation = "bij,cij->bc"> (column, column)
    }""",
    "a part of each row": """(float[b, 3] x) => (float[b] y) { y = Einsum <equation = "...j,...j->..."> (x, x) }""",
    "one value to a group": """(float[b, 3] x) => (float[b, 3] y)
        <float[3] scale = {1, 2, 3}, float[3] bias = {4, 5, 6}>
        { y = GroupNormalization <num_groups = 3> (x, scale, bias) }""",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_batch_of_one_is_taken(name: str) -> None:
    proto = onnx.parser.parse_model(HEAD + GRAPHS[name])
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    program = export_model(ir.from_proto(proto))
    for batch in (1, 2, 5):
        feed = {"x": np.random.default_rng(batch).uniform(-9, 9, (batch, 3)).astype(np.float32)}
        found = program.module()(*map(torch.from_numpy, feed.values()))["y"].detach().numpy()
        np.testing.assert_allclose(found, session.run(["y"], feed)[0], rtol=1e-5, atol=1e-6)


def test_a_group_of_one_value_in_code() -> None:
    """nn.GroupNorm refuses this for a batch of one."""
    text, state = code_of(ir.from_proto(onnx.parser.parse_model(HEAD + GRAPHS["one value to a group"])))
    module: dict = {}
    exec(text, module)
    network = module["Model"]()
    network.load_state_dict(state)
    found = network(torch.tensor([[7.0, 8.0, 9.0]])).detach().numpy()
    np.testing.assert_array_equal(found, [[4, 5, 6]])


def test_a_squeeze_of_whatever_is_one() -> None:
    """onnxruntime gives another rank for a batch of one, while a program has one rank."""
    proto = onnx.parser.parse_model(HEAD + "(float[b, 1, 3] x) => (float[b, 3] y) { y = Squeeze (x) }")
    with pytest.raises(Unsupported, match="Squeeze: no axes, of dims that only the run tells"):
        export_model(ir.from_proto(proto))
    proto = onnx.parser.parse_model(HEAD + "(float[2, 1, 3] x) => (float[2, 3] y) { y = Squeeze (x) }")
    assert export_model(ir.from_proto(proto)).module()(torch.ones(2, 1, 3))["y"].shape == (2, 3)


def test_a_group_norm_of_maps_of_one_place() -> None:
    proto = onnx.parser.parse_model(
        HEAD
        + "(float[b, 4, h, w] x) => (float[b, 4, 1, h, w] y) <float[4] scale = {1, 2, 3, 4}, int64[1] place = {2}> "
        "{ u = Unsqueeze (x, place) y = GroupNormalization <num_groups = 1> (u, scale, scale) }"
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    program = export_model(ir.from_proto(proto))
    for dims in ((1, 4, 1, 1), (2, 4, 1, 3), (3, 4, 5, 2)):
        x = np.random.default_rng(0).normal(size=dims).astype(np.float32)
        found = program.module()(torch.from_numpy(x))["y"].detach().numpy()
        np.testing.assert_allclose(found, session.run(["y"], {"x": x})[0], rtol=1e-5, atol=1e-5)


def test_a_rest_beside_nothing_is_refused() -> None:
    """ONNX Runtime rejects this too; PyTorch would divide by zero."""
    text = """(float[4, 3] x) => (float[m, n] y) <int64[1] two = {2}, int64[2] shape = {0, -1}> {
        nothing = Slice (x, two, two) y = Reshape (nothing, shape)
    }"""
    model = ir.serde.deserialize_model(onnx.parser.parse_model(HEAD + text))
    with pytest.raises(Unsupported, match="-1 beside a dim of 0"):
        export_model(model)
