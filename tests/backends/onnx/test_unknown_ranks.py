"""Inputs and outputs of unknown rank are written without a shape, and are right for every rank."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from convert.backends import onnx as backend

import convert
from convert.errors import UnknownRank
from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import model


def of_unknown_rank(name: str) -> onnx.ValueInfoProto:
    kind = onnx.TypeProto.Tensor(elem_type=onnx.TensorProto.FLOAT)
    return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=kind))


def graph() -> onnx.ModelProto:
    nodes = [onnx.helper.make_node("Softsign", ["x"], ["s"]), onnx.helper.make_node("Add", ["s", "x"], ["y"])]
    return model(nodes, [of_unknown_rank("x")], [of_unknown_rank("y")])


def test_it_is_written_without_a_shape_and_runs_at_every_rank(tmp_path: Path) -> None:
    shared = Graph()
    x = shared.input("x", ir.DataType.FLOAT, None)
    shared.output(shared.Add(shared.Softsign(x), x), "y")
    path, report = tmp_path / "m.onnx", Report("test")
    backend.write(shared.model(), path, "onnx", Options(), report)
    proto = onnx.load(path)
    assert [v.type.tensor_type.HasField("shape") for v in (*proto.graph.input, *proto.graph.output)] == [False, False]
    assert any("number of dims of x, y is not known" in note for note in report.notes)
    session = onnxruntime.InferenceSession(path)
    for shape in [(), (3,), (2, 3), (2, 1, 3, 2)]:
        given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        (got,) = session.run(None, {"x": given})
        assert got.shape == shape
        np.testing.assert_allclose(got, given / (1 + abs(given)) + given, rtol=1e-6)


def test_it_is_verified_at_several_ranks(tmp_path: Path) -> None:
    onnx.save(graph(), tmp_path / "source.onnx")
    report = convert.convert(tmp_path / "source.onnx", "onnx", tmp_path / "m.onnx", opset=13)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"


def test_a_rule_that_needs_the_rank_asks_for_it() -> None:
    g = Graph()
    with pytest.raises(UnknownRank, match="how many dims x has is not known") as error:
        g.rank(g.input("x", ir.DataType.FLOAT, None))
    assert "--input" in error.value.hint
