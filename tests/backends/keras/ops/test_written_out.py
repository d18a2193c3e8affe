"""Operators without a Keras rule, written out in operators that have one, against onnxruntime."""

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
from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, case, f32, i64, params, rows_of_package
from tests.support.lowered_rows import ROWS as MORE

ROWS = [
    row
    for row in (*rows_of_package("tests.backends.tensorflow.ops"), *MORE)
    if row.operator in LOWERINGS and row.operator not in table
]


def _computes_sizes(row: Case) -> bool:
    """Return whether an image size, a block size or a length is known at run time only."""
    return row.operator in ("CenterCropPad", "Col2Im", "DFT") and any(
        isinstance(x, np.ndarray) and x.dtype.kind == "i" for x in row.inputs[1:]
    )


def _has_four_bits(row: Case) -> bool:
    """Return whether an input has a dtype of four bits, which Keras lacks."""
    arrays = (x.array if isinstance(x, Const) else x for x in row.inputs if x is not None)
    return any(x.dtype.name in ("int4", "uint4") for x in arrays)


TAKEN = [row for row in ROWS if not _computes_sizes(row) and not _has_four_bits(row)]
STATIC = ("CenterCropPad", "MaxUnpool", "TensorScatter")
"""Operators that Keras does not take for every batch size: sizes of images, or the number of indices, are computed."""


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True])
def test_rows(batch: bool, tmp_path: Path) -> None:
    """batch: the first dim of each input is unknown."""
    rows = [row for row in TAKEN if not (batch and row.operator in STATIC)]
    assert {row.operator for row in rows} >= {"Col2Im", "DFT", "GridSample", "RotaryEmbedding", "STFT"}
    for row, got in zip(rows, run_together(rows, tmp_path, batch=batch), strict=True):
        assert_same(got, expected(row))


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", params([row for row in TAKEN if row.operator in STATIC[1:] and all(x is not None for x in row.inputs)])
)
def test_an_unknown_number_of_indices_is_refused(row: Case, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="indices of dynamic number"):
        run_together([row], tmp_path, batch=True)


@pytest.mark.parametrize("row", params([row for row in ROWS if _computes_sizes(row)]))
def test_sizes_of_the_run_are_refused_with_the_reason(row: Case) -> None:
    with pytest.raises(Unsupported, match=rf"^{row.operator}, node 'the_node': (sizes|an axis) that (is|are) computed"):
        check_model(model_of(row))


def test_no_operator_that_is_written_out_is_a_gap() -> None:
    assert not set(table.gaps) & set(LOWERINGS) - {"ai.onnx.ml::LabelEncoder"}


DECLINED = [
    case("ArgMax", np.array([[1, 3], [2, 3], [2, 0]], np.float32), axis=0, select_last_index=1),
    case("ArgMin", np.array([[1, 3], [1, 0], [2, 0]], np.float32), axis=0, select_last_index=1, keepdims=0),
    case("QuantizeLinear", f32(4, 6, low=-9, high=9), f32(2, 6, low=0.1), axis=0, block_size=2),
    case("DequantizeLinear", i64(4, 6).astype(np.int8), f32(4, 2, low=0.1), axis=1, block_size=3),
]
"""Nodes that the rules of their operators decline, some only if the first dim is unknown."""


@pytest.mark.parametrize("batch", [False, True])
def test_declined_nodes(batch: bool, tmp_path: Path) -> None:
    for row, got in zip(DECLINED, run_together(DECLINED, tmp_path, batch=batch), strict=True):
        assert_same(got, expected(row))
