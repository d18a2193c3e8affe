"""The rows of the TensorFlow backend's table as TensorFlow Lite models: right, or refused by name, never wrong.

A sample by default, all rows behind the marker `long`, each in a child process that a crash of the converter ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from convert.backends.tensorflow.lite.gaps import GAPS, LIMITS

from tests.backends.tensorflow.ops.support import DYNAMIC, STATIC, assert_same, expected, feeds_of, model_of
from tests.support.cases import Case, params, rows_of_package
from tests.support.merged_cases import merged, with_dims_apart

CASES = rows_of_package("tests.backends.tensorflow.ops")

NOT_A_NUMBER = ("Max", "Min")
"""TensorFlow Lite's kernels for these ignore a NaN on one side: rows with NaN are left out."""

SAMPLE = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Cast", "Clip", "Concat",
    "ConstantOfShape", "Conv", "ConvTranspose", "Cosh", "CumSum", "DepthToSpace", "Det", "Div", "DynamicQuantizeLinear",
    "Einsum", "Erf", "GRU",
    "Gather", "Gemm", "GlobalAveragePool", "HardSwish", "IsInf", "LSTM", "LayerNormalization", "LogSoftmax", "Loop",
    "MatMul", "MaxPool", "MaxUnpool", "Mod", "Neg", "PRelu", "Pad", "QuantizeLinear", "RNN", "Range", "Reciprocal",
    "ReduceMean",
    "Resize", "Scan", "ScatterElements", "ScatterND", "Sign", "Sinh", "Slice", "Softmax", "Split", "Squeeze", "Sub",
    "Tan", "Tile", "TopK", "Transpose", "Where", "Celu", "Elu", "Mish", "Pow", "Selu", "Softplus",
)  # fmt: skip


def quiet() -> None:
    """The converter prints what it thinks of each graph."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


Outcome = list[np.ndarray] | str
"""Outputs of a row, or why it is refused."""


def computed(index: int, variant: int) -> Outcome:
    """What becomes of one row; runs in the child process."""
    return computed_together([index], variant)[index]


def computed_together(indices: list[int], variant: int) -> dict[int, Outcome]:
    """What becomes of rows in one model, without those that the errors name, which are refused."""
    from convert.errors import Unsupported

    found: dict[int, Outcome] = {}
    while indices:
        try:
            return {**found, **encoded(indices, variant)}
        except Unsupported as error:
            why = {i: p.why for p in error.problems for i in indices if p.at.node.startswith(f"c{i}_")}
            if not why and len(indices) == 1:
                return {**found, indices[0]: str(error)}
        except Exception as error:
            if len(indices) == 1:
                raise AssertionError(f"{CASES[indices[0]]}: {error}") from error
            why = {}
        found.update(why)
        indices = [i for i in indices if i not in why]
        if not why:  # nobody is named: one half at a time
            half = len(indices) // 2
            return {**found, **computed_together(indices[:half], variant), **computed_together(indices[half:], variant)}
    return found


def encoded(indices: list[int], variant: int) -> dict[int, Outcome]:
    """The outputs of rows of one opset from one TensorFlow Lite model."""
    import onnx_ir as ir

    from tests.support.tensorflow_lite_helper import encode, run

    models = {i: with_dims_apart(i, model_of(CASES[i], variant)) for i in indices}
    outputs = {i: [y.name for y in model.graph.output] for i, model in models.items()}
    opset = models[indices[0]].opset_import[0].version
    feeds = {f"c{i}_{name}": x for i in indices for name, x in feeds_of(CASES[i]).items()}
    with tempfile.TemporaryDirectory() as folder:
        got = run(encode(ir.from_proto(merged(list(models.items()), opset)), Path(folder)), feeds)
    return {i: [got[f"c{i}_{name}"] for name in names] for i, names in outputs.items()}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, get_context("spawn"), quiet) as executor:
        yield executor


def has_nan(row: Case) -> bool:
    return any(isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isnan(x).any() for x in row.inputs)


def first_rows() -> list[int]:
    return [next(i for i, row in enumerate(CASES) if row.operator == operator) for operator in SAMPLE]


def check(index: int, got: Outcome) -> None:
    row = CASES[index]
    if isinstance(got, str):
        assert row.operator in (*GAPS, *LIMITS), got
        assert "no built-in" in got or "TensorFlow" in got
        return
    assert row.operator not in GAPS
    if row.operator not in NOT_A_NUMBER or not has_nan(row):
        assert_same(got, expected(row))


@pytest.mark.parametrize("index", first_rows(), ids=SAMPLE)
def test_sample(index: int, pool: ProcessPoolExecutor) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")
    check(index, pool.submit(computed, index, STATIC).result(timeout=600))


@pytest.mark.slow
def test_every_rule_of_tensorflow_lite_alone_is_in_the_sample() -> None:
    pytest.importorskip("tensorflow")
    from convert.backends.tensorflow import ops  # noqa: F401
    from convert.backends.tensorflow.rules import onnx_op as table

    ours = {name.removeprefix("convert.lite::") for name in table.entries if name.startswith("convert.lite::")}
    assert ours
    assert ours <= set(SAMPLE)  # MaxPool's is for 8 bits: test_tensorflow_lite.py


@pytest.fixture(scope="module")
def outcomes(pool: ProcessPoolExecutor) -> dict[tuple[int, int], Outcome]:
    """Of every row with known and with unknown dims, forty to a model."""
    pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")
    by_opset: dict[int, list[int]] = {}
    for i, row in enumerate(CASES):
        by_opset.setdefault(model_of(row).opset_import[0].version, []).append(i)
    packs = [rows[k : k + PACK] for rows in by_opset.values() for k in range(0, len(rows), PACK)]
    found: dict[tuple[int, int], Outcome] = {}
    for variant in (STATIC, DYNAMIC):
        for pack in packs:
            results = pool.submit(computed_together, pack, variant).result(timeout=1200)
            found.update({(i, variant): got for i, got in results.items()})
    return found


PACK = 40


@pytest.mark.long
@pytest.mark.parametrize("variant", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(param.id) for param in params(CASES)])
def test_row(index: int, variant: int, outcomes: dict[tuple[int, int], Outcome]) -> None:
    check(index, outcomes[index, variant])
