"""Rows with several run-time inputs, each of which becomes a constant of the model in turn: right, or refused before
writing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from convert.errors import Unsupported
from tests.backends.keras.ops.keras_support import check_model, dynamic, run_together
from tests.backends.tensorflow.ops.onnx_cases import Const, const
from tests.backends.tensorflow.ops.support import assert_same, expected, model_of
from tests.support.cases import Case, case, f32, rows_of_package

SEVERAL = 40
"""Number of rows in one model; a wrong row is easier to find among few."""


def _variants() -> Iterator[Case]:
    rows = {id(row): row for row in rows_of_package("tests.backends.keras.ops")}
    for row in rows.values():
        places = [i for i, x in enumerate(row.inputs) if isinstance(x, np.ndarray)]
        if row.reason or len(places) < 2:
            continue
        for place in places:
            inputs = tuple(Const(x) if i == place else x for i, x in enumerate(row.inputs))
            yield replace(row, inputs=inputs, label=f"{row.label} constant {place}".strip())


def _check(rows: list[Case], folder: Path, *, batch: bool) -> int:
    """Return how many rows are right; the others are refused before anything is written."""
    taken = []
    for row in rows:
        model = dynamic(model_of(row)) if batch else model_of(row)
        try:
            check_model(model)
        except Unsupported:
            continue
        taken.append(row)
    for start in range(0, len(taken), SEVERAL):
        several = taken[start : start + SEVERAL]
        (place := folder / f"{batch}{start}").mkdir()
        for row, found in zip(several, run_together(several, place, batch=batch, as_graph=True), strict=True):
            assert_same(found, expected(row))
    return len(taken)


def test_a_constant_first_input(tmp_path: Path) -> None:
    """The first input is a constant of the model, and the others are inputs."""
    x = f32(2, 3, 4)
    rows = [
        case("PRelu", const(x), f32(3, 1)),
        case("Conv", const(x), f32(5, 3, 2), f32(5)),
        case("LayerNormalization", const(x), f32(4), f32(4)),
        case("Mod", const(x), f32(4) + 3, fmod=1),
        case("GRU", const(x), const(f32(1, 18, 4)), const(f32(1, 18, 6)), None, None, f32(1, 3, 6), hidden_size=6),
    ]
    assert _check(rows, tmp_path, batch=False) == len(rows)


@pytest.mark.long
@pytest.mark.parametrize("batch", [False, True])
def test_each_input_a_constant(batch: bool, tmp_path: Path) -> None:
    assert _check(list(_variants()), tmp_path, batch=batch) > 300
