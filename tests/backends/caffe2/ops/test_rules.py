"""Every operator of the Caffe2 backend, run by the real Caffe2 and compared with ONNX Runtime."""

from __future__ import annotations

import pytest
from convert.backends import caffe2
from convert.backends.caffe2.rules import onnx_op

from tests.backends.caffe2.ops.caffe2_models import MODELLED
from tests.backends.caffe2.ops.cases_data import DATA_CASES
from tests.backends.caffe2.ops.cases_layers import LAYER_CASES
from tests.backends.caffe2.ops.cases_math import MATH_CASES
from tests.backends.caffe2.ops.cases_sampled import SAMPLED_CASES
from tests.support.caffe2_support import Nets, Row, assert_same, both, reference

ROWS = both([*MATH_CASES, *LAYER_CASES, *DATA_CASES, *SAMPLED_CASES])


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, caffe2_outcomes: Nets) -> None:
    outcome = caffe2_outcomes.outcome(row)
    if outcome.error is not None:
        raise outcome.error
    assert outcome.outputs is not None
    assert_same(outcome.outputs, reference(row))


def test_every_rule_has_a_case() -> None:
    caffe2.operators("caffe2")
    tested = MODELLED | {param.values[0].case.operator for param in ROWS if not param.values[0].reason}
    assert sorted(set(onnx_op.entries) - tested) == []
