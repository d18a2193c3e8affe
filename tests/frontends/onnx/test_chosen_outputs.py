"""`--outputs` makes inner tensors of an ONNX model its outputs, in the graph and in the runs of the source."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import convert
from convert.errors import UsageError
from convert.outcome.verdict import PASS

TEXT = """<ir_version: 10, opset_import: ["": 20]>
joined (float[n, 4] boxes, float[n, 2] scores) => (float[n, 6] all) {
    wide = Exp (boxes) odds = Relu (scores) all = Concat <axis = 1> (wide, odds)
}"""


def test_inner_tensors_become_outputs_and_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    for source in (path, onnx.load(path)):
        report = convert.convert(source, "onnx", tmp_path / "parts.onnx", outputs=("odds", "wide"), force=True)
        assert report.verdict is not None
        assert report.verdict.status == PASS, report.verdict.reason
        assert [row.name for row in report.verdict.outputs] == ["odds", "wide"]
    assert [v.name for v in onnx.load(tmp_path / "parts.onnx").graph.output] == ["odds", "wide"]


def test_what_the_chosen_outputs_do_not_need_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    convert.convert(onnx.parser.parse_model(TEXT), "onnx", path, outputs=("odds",), verify=False)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["Relu"]


def test_a_name_that_no_node_computes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="computes no 'scores'"):
        convert.convert(onnx.parser.parse_model(TEXT), "onnx", tmp_path / "m.onnx", outputs=("scores",))
