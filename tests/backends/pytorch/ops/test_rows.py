"""The rules of the PyTorch backend on the rows that all backends share, against onnxruntime and ONNX's evaluator.

All inputs, including shapes and axes, come at run time; a slow test makes them constants.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from convert.backends.pytorch import ops  # noqa: F401  (fills the table)
from convert.backends.pytorch.rules import onnx_op

from tests.backends.pytorch.ops.support import RowsTogether, assert_right
from tests.backends.tensorflow.ops.support import CONSTANT, STATIC, assert_same, expected
from tests.support.cases import Case, params, rows_of_package

_TEXT = onnx.TensorProto.STRING


def _has_text(row: Case) -> bool:
    return row.attributes.get("to") == _TEXT or any(
        isinstance(x, np.ndarray) and x.dtype.kind in "OU" for x in row.inputs
    )


ROWS = [
    row
    for row in rows_of_package("tests.backends.tensorflow.ops")
    if row.operator in onnx_op.entries and not _has_text(row)
]

SLOW = (
    "Attention", "AveragePool", "Col2Im", "Conv", "DFT", "DeformConv", "Div", "GRU", "GridSample", "LSTM", "MaxPool",
    "MaxRoiPool", "NonMaxSuppression", "Pad", "RNN", "Range", "Resize", "RoiAlign", "STFT", "Slice", "TfIdfVectorizer",
)  # fmt: skip


ALL = params(ROWS, SLOW)
QUICK = [p.values[0] for p in ALL if not p.marks]
OTHERS = [p.values[0] for p in ALL if p.marks and not p.values[0].reason]
TOGETHER = {variant: RowsTogether((QUICK, OTHERS), variant) for variant in (STATIC, CONSTANT)}


@pytest.mark.parametrize("variant", [STATIC, pytest.param(CONSTANT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("row", ALL)
def test_operator(row: Case, variant: int) -> None:
    if row.reason:
        assert_right(row, variant)
    else:
        assert_same(TOGETHER[variant].outputs(row), expected(row))
