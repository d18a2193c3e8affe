"""`--layout`: inputs and outputs in the other layout than the source's, with the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends.onnx.lower import lower

import convert
from convert.errors import UsageError
from convert.graph import Graph
from convert.graph.metadata import LAYOUT_KEY
from convert.parity.method import VerifyMethod
from convert.passes.layout.boundary import boundary_permutations, permute_boundary
from tests.support.layout_support import conv, nodes, weights

F = ir.DataType.FLOAT


def network(last: bool) -> ir.Model:
    """Return two convolutions, a token for each channel, the input again, and an integer, in either layout."""
    g = Graph()
    shape = ["batch", 8, 6, 3] if last else ["batch", 3, 8, 6]
    x, count = g.input("x", F, shape), g.input("count", ir.DataType.INT64, ["batch", 2, 2])
    first = g.Transpose(x, perm=[0, 3, 1, 2]) if last else x
    y = conv(g, g.Relu(conv(g, first, 4)), 5, 1)
    g.output(g.Transpose(y, perm=[0, 2, 3, 1]) if last else y, "map")
    g.output(g.ReduceMean(y, [2, 3], keepdims=0), "scores")
    g.output(g.Neg(count), "less")
    model = g.model()
    if last:
        model.metadata_props[LAYOUT_KEY] = "nhwc"
    return model


def run(model: ir.Model, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "count": np.ones((2, 2, 2), np.int64)})


@pytest.mark.parametrize("last", [False, True])
def test_the_other_layout(last: bool) -> None:
    own, other = ("nhwc", "nchw") if last else ("nchw", "nhwc")
    move = (0, 3, 1, 2) if last else (0, 2, 3, 1)
    model, moved = network(last), network(last)
    assert permute_boundary(moved, own) == {}
    assert permute_boundary(moved, other) == boundary_permutations(model, other) == {"x": move, "map": move}
    assert moved.metadata_props[LAYOUT_KEY] == other
    assert permute_boundary(moved, other) == {}, "it is there already"
    x = np.random.default_rng(0).standard_normal([2, 8, 6, 3] if last else [2, 3, 8, 6]).astype(np.float32)
    features, *rest = run(model, x)
    got, *others = run(moved, np.ascontiguousarray(x.transpose(move)))
    np.testing.assert_allclose(got, features.transpose(move), rtol=1e-5, atol=1e-5)
    for a, b in zip(rest, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    assert moved.graph.outputs[0].shape is not None
    assert list(moved.graph.outputs[0].shape)[1:] == [features.shape[a] for a in move][1:]
    lower(moved, 20)
    assert len(nodes(moved, "Transpose")) == (0 if last else 2), "ONNX has its channels first"


def test_an_input_that_is_an_output() -> None:
    g = Graph()
    x = g.input("x", F, ["batch", 3, 4, 5])
    g.output(g.Mul(x, weights(5)), "y")
    model = g.model()
    model.graph.outputs.append(x)
    permute_boundary(model, "nhwc")
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert [[str(d) for d in v.shape] for v in model.graph.outputs] == [["batch", "4", "5", "3"]] * 2


def single() -> onnx.ModelProto:
    g = Graph()
    g.output(conv(g, g.input("x", F, ["batch", 3, 8, 6]), 4), "y")
    proto = ir.to_proto(g.model())
    proto.opset_import[0].version, proto.ir_version = 20, 9
    return proto


@pytest.mark.not_core
def test_the_verdict_knows_the_layout(tmp_path: Path) -> None:
    source, target = single(), tmp_path / "last.onnx"
    report = convert.convert(source, "onnx", target, layout="nhwc", verify=True, method=VerifyMethod(seeds=1))
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    assert any("--layout nhwc" in note for note in report.notes)
    written = onnx.load(target).graph
    ends = [*written.input, *written.output]
    dims = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in ends]
    assert [list(t.shape or ()) for t in (*report.inputs, *report.outputs)] == dims  # the contract is the output's
    (given,) = onnx.load(target).graph.input
    assert [d.dim_value for d in given.type.tensor_type.shape.dim][1:] == [8, 6, 3]


@pytest.mark.long
def test_verifying_an_artefact_in_the_other_layout(tmp_path: Path) -> None:
    source, target = single(), tmp_path / "last.onnx"
    convert.convert(source, "onnx", target, layout="nhwc", verify=False)
    assert convert.verify(source, target, layout="nhwc", method=VerifyMethod(seeds=1)).verdict.status == "PASS"
    with pytest.raises(UsageError, match="input 'x' has another layout") as caught:
        convert.verify(source, target, method=VerifyMethod(seeds=1))
    assert caught.value.hint.startswith("--layout nhwc says that")
