"""Every operator of the Caffe2 backend, run by the real Caffe2 and compared with ONNX Runtime."""

from __future__ import annotations

import pytest
from caffe2_cases_layers import LAYER_CASES
from caffe2_cases_math import MATH_CASES
from caffe2_support import Outcome, Row, assert_same, both, needs_caffe2, reference, run_rows
from convert.backends import caffe2
from convert.backends.caffe2.rules import onnx

ROWS = both([*MATH_CASES, *LAYER_CASES])


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Outcome]:
    """What the real Caffe2 makes of every row, run together because a start takes longer than all of them."""
    if reason := needs_caffe2():
        pytest.skip(reason)
    rows = [param.values[0] for param in ROWS]
    return dict(zip(map(id, rows), run_rows(rows, tmp_path_factory.mktemp("nets")), strict=True))


@pytest.mark.caffe2
@pytest.mark.parametrize("row", ROWS)
def test_operator(row: Row, outcomes: dict[int, Outcome]) -> None:
    outcome = outcomes[id(row)]
    if outcome.error is not None:
        raise outcome.error
    assert outcome.outputs is not None
    assert_same(outcome.outputs, reference(row))


def test_every_rule_has_a_case() -> None:
    caffe2.operators()
    # If has subgraphs: tests/test_caffe2_files.py.
    tested = {"If"} | {param.values[0].case.operator for param in ROWS if not param.values[0].reason}
    assert sorted(set(onnx.entries) - tested) == []
