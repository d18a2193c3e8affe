"""The table of the Caffe2 backend's rules has a row in a test module next to this one for each rule."""

from __future__ import annotations

from convert.backends import caffe2
from convert.backends.caffe2.rules import onnx_op

from tests.backends.caffe2.ops.caffe2_models import MODELLED
from tests.support.cases import rows_of_package


def test_every_rule_has_a_case() -> None:
    caffe2.operators("caffe2")
    rows = [param.values[0] for param in rows_of_package(__package__)]
    tested = MODELLED | {row.case.operator for row in rows if not row.reason}
    assert sorted(set(onnx_op.entries) - tested) == []
