"""The table of the TensorFlow Lite reader's rules has a row in a test module next to this one for each rule."""

from __future__ import annotations

from convert.frontends.tensorflow.lite import ops  # noqa: F401  (fills the table)
from convert.frontends.tensorflow.lite.rules import tflite_op

from tests.frontends.tensorflow.lite.ops.lite_files import schema
from tests.frontends.tensorflow.lite.ops.test_recurrent import STEPS
from tests.support.cases import rows_of_package


def test_every_rule_has_a_case() -> None:
    """QUANTIZE and DEQUANTIZE stand around quantized networks (test_tensorflow_lite_reader.py). No interpreter here has
    MediaPipe's operator: test_conv.py compares it with TensorFlow's.
    """
    rows = {row.operator for row in (*rows_of_package(__package__), *STEPS)}
    assert set(tflite_op.entries) == rows | {"QUANTIZE", "DEQUANTIZE", "custom Convolution2DTransposeBias"}


def test_every_operator_has_a_rule_or_a_reason() -> None:
    names = {k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    assert names - tflite_op.entries.keys() - tflite_op.gaps.keys() == {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
    assert tflite_op.gaps.keys() <= names
