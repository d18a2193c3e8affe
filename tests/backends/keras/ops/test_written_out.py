"""Operators that Keras has no rule for, written out in those that it has, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("keras", reason="the Keras backend writes with Keras")
from convert.backends.keras import ops  # noqa: F401  (fills the table)
from convert.backends.keras.rules import onnx_op as table

from convert.errors import Unsupported
from convert.legalize.table import LOWERINGS
from tests.backends.keras.ops.keras_support import check_model, run_together
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, params, rows_of_package
from tests.support.lowered_rows import ROWS as MORE

ROWS = [
    row
    for row in (*rows_of_package("tests.backends.tensorflow.ops"), *MORE)
    if row.operator in LOWERINGS and row.operator not in table
]


def _computes_sizes(row: Case) -> bool:
    """Whether an image, a block or a length comes at run time."""
    return row.operator in ("CenterCropPad", "Col2Im", "DFT") and any(
        isinstance(x, np.ndarray) and x.dtype.kind == "i" for x in row.inputs[1:]
    )


TAKEN = [row for row in ROWS if not _computes_sizes(row)]


@pytest.mark.parametrize("batch", [False, True])
def test_rows(batch: bool, tmp_path: Path) -> None:
    """batch: the first dim of each input is unknown."""
    rows = [row for row in TAKEN if not (batch and row.operator == "CenterCropPad")]
    assert {row.operator for row in rows} >= {"Col2Im", "DFT", "GridSample", "RotaryEmbedding", "STFT"}
    for row, got in zip(rows, run_together(rows, tmp_path, batch=batch), strict=True):
        assert_same(got, expected(row))


@pytest.mark.parametrize("row", params([row for row in ROWS if _computes_sizes(row)]))
def test_sizes_of_the_run_are_refused_with_the_reason(row: Case) -> None:
    with pytest.raises(Unsupported, match=rf"^{row.operator}, node 'the_node': (sizes|an axis) that (is|are) computed"):
        check_model(model_of(row))


def test_no_operator_that_is_written_out_is_a_gap() -> None:
    assert not set(table.gaps) & set(LOWERINGS) - {"ai.onnx.ml::LabelEncoder"}
