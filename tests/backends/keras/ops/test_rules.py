"""The table of the Keras backend's rules has rows in the test modules next to this one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("keras", reason="the Keras backend writes with Keras")
from convert.backends import keras as backend
from convert.backends.keras import ops  # noqa: F401
from convert.backends.keras.rules import onnx_op as table

from convert.errors import Unsupported
from tests.backends.keras.ops.keras_support import check_model, refused, run_together
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, case, f32, params, rows_of_package

backend.operators("keras")
CASES = rows_of_package("tests.backends.tensorflow.ops")


@pytest.mark.parametrize("row", params([row for row in CASES if row.operator in table.gaps]))
def test_gaps_are_refused_by_name(row: Case, tmp_path: Path) -> None:
    """A gap may also be right, if the operator can be written out: a loop of known length, a transform of real
    numbers.
    """
    refusal = ""
    try:
        check_model(model_of(row))
    except Unsupported as error:
        refusal = str(error)
    if not refusal:
        (got,) = run_together([row], tmp_path, batch=False)
        assert_same(got, expected(row))
    else:
        assert table.gaps[row.operator] in refusal or "STRING" in refusal


def test_every_rule_has_a_case() -> None:
    rules = {operator for operator in table.entries if not operator.startswith("convert.")}
    assert rules - {row.operator for row in rows_of_package(__package__) if not refused(row, False)} == set()
    assert len(rules) >= 140


@pytest.mark.parametrize("shapes", [((4, 4), (4, 1)), ((1, 4), (4, 1)), ((3, 4, 4), (1, 4, 1)), ((2, 4, 4, 6), (4, 1))])
def test_sums_whose_second_operand_keras_would_take_for_a_bias(shapes: tuple, tmp_path) -> None:
    row = case("Add", *(f32(*shape) for shape in shapes))
    for batch in (False, True):
        folder = tmp_path / str(batch)
        folder.mkdir()
        (got,) = run_together([row], folder, batch=batch)
        assert_same(got, expected(row))
