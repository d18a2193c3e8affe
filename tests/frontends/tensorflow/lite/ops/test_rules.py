"""Every rule of the TensorFlow Lite reader against ai-edge-litert."""

from __future__ import annotations

import pytest
from convert.frontends.tensorflow.lite import ops  # noqa: F401  (fills the table)
from convert.frontends.tensorflow.lite.rules import tflite_op

from tests.frontends.tensorflow.lite.ops import cases as numbers
from tests.frontends.tensorflow.lite.ops import cases_array as arrays
from tests.frontends.tensorflow.lite.ops.lite_files import schema
from tests.frontends.tensorflow.lite.ops.lite_support import check
from tests.support.cases import Case, params

CASES = [*numbers.ROWS, *arrays.ROWS]


@pytest.mark.parametrize("row", params(CASES))
def test_operator(row: Case) -> None:
    check(row)


def test_every_rule_has_a_case() -> None:
    """QUANTIZE and DEQUANTIZE stand around quantised networks (test_tensorflow_lite_reader.py)."""
    assert set(tflite_op.entries) == {c.operator for c in CASES} | {"QUANTIZE", "DEQUANTIZE"}


def test_every_operator_has_a_rule_or_a_reason() -> None:
    names = {k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    assert names - tflite_op.entries.keys() - tflite_op.gaps.keys() == {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
    assert tflite_op.gaps.keys() <= names
