"""The rows of the TensorFlow backend's table as TensorFlow Lite models: right, or refused by name, never wrong.

Forty rows share a model, in a child process that a crash of the converter ends. By default rows have known dims. Rows
with unknown dims, and a sample of rows in models of their own, are slow tests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.backends.tensorflow.lite.gaps import GAPS, LIMITS

from tests.backends.tensorflow.ops.onnx_cases import Const
from tests.backends.tensorflow.ops.support import DYNAMIC, OPSET, STATIC, assert_same, expected, feeds_of, model_of
from tests.support.cases import Case, params, rows_of_package
from tests.support.merged_cases import merged, with_dims_apart

CASES = rows_of_package("tests.backends.tensorflow.ops")

NOT_A_NUMBER = ("Max", "Min")
"""TensorFlow Lite's kernels for these ignore a NaN on one side: rows with NaN are left out."""

SAMPLE = (
    "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Cast", "Clip", "Concat",
    "ConstantOfShape", "Conv", "ConvInteger", "ConvTranspose", "Cosh", "CumSum", "DepthToSpace", "Det", "Div",
    "DynamicQuantizeLinear", "Einsum", "Erf", "GRU",
    "Equal", "Greater", "GreaterOrEqual", "HardSigmoid", "Less", "LessOrEqual",
    "Gather", "Gemm", "GlobalAveragePool", "HardSwish", "IsInf", "LSTM", "LayerNormalization", "LogSoftmax", "Loop",
    "MatMul", "MatMulInteger", "MaxPool", "MaxUnpool", "Mod", "Neg", "NonMaxSuppression", "PRelu", "Pad",
    "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RNN", "Range", "Reciprocal", "ReverseSequence",
    "ReduceMean",
    "Resize", "Scan", "ScatterElements", "ScatterND", "Sign", "Sinh", "Slice", "Softmax", "Split", "Squeeze", "Sub",
    "Tan", "Tile", "TopK", "Transpose", "Where", "Celu", "Elu", "Mish", "Pow", "Selu", "Softplus",
)  # fmt: skip


SLOW = ("DeformConv", "MaxRoiPool", "RoiAlign")
"""Operators whose rows become thousands of TensorFlow operations."""

PACK = 40
"""Number of rows in one model, because most of the time of a single row is spent on the model itself."""


def packs_of_rows() -> list[list[int]]:
    """Group rows of one opset. Rows that are refused share a group, because their model is written a second time."""

    def kind(index: int) -> tuple[int, str, bool]:
        row = CASES[index]
        newer = not onnx.defs.has(row.operator, OPSET, "")
        opset = onnx.defs.get_schema(row.operator).since_version if newer else OPSET
        first = next((x.array if isinstance(x, Const) else x for x in row.inputs if x is not None), np.zeros(0))
        reason = {**GAPS, **LIMITS}.get(row.operator, "")
        if row.operator in SLOW:
            reason += row.operator
        return opset, reason, first.dtype not in (np.float32, np.int64, np.int32, np.bool_)

    groups = [list(rows) for _, rows in groupby(sorted(range(len(CASES)), key=kind), kind)]
    return [rows[k : k + PACK] for rows in groups for k in range(0, len(rows), PACK)]


PACKS = packs_of_rows()


def quiet() -> None:
    """Silence the converter, which prints messages about each graph."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


Outcome = list[np.ndarray] | str
"""Outputs of a row, or the reason of a refusal."""


def computed_together(indices: list[int], variant: int) -> dict[int, Outcome]:
    """Return the outcomes of rows in one model.

    Rows that an error names count as refused, and the others run without them.
    """
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
        if not why:  # the error names no row: try each half
            half = len(indices) // 2
            return {**found, **computed_together(indices[:half], variant), **computed_together(indices[half:], variant)}
    return found


def encoded(indices: list[int], variant: int) -> dict[int, Outcome]:
    """Return the outputs of rows of one opset from one TensorFlow Lite model."""
    import onnx_ir as ir

    from tests.support.tensorflow_lite_helper import encode, run

    models = {i: with_dims_apart(i, model_of(CASES[i], variant)) for i in indices}
    outputs = {i: [y.name for y in model.graph.output] for i, model in models.items()}
    opset = models[indices[0]].opset_import[0].version
    feeds = {f"c{i}_{name}": x for i in indices for name, x in feeds_of(CASES[i]).items()}
    with tempfile.TemporaryDirectory() as folder:
        got = run(encode(ir.from_proto(merged(list(models.items()), opset)), Path(folder)), feeds)
    return {i: [got[f"c{i}_{name}"] for name in names] for i, names in outputs.items()}


@dataclass
class Outcomes:
    """The outcomes of rows; asking for one row runs its whole group."""

    found: dict[tuple[int, int], Outcome] = field(default_factory=dict)
    pool: ProcessPoolExecutor | None = None

    def of(self, index: int, variant: int) -> Outcome:
        if (index, variant) not in self.found:
            pack = next(rows for rows in PACKS if index in rows)
            self.found.update({(i, variant): got for i, got in self.together(pack, variant).items()})
        return self.found[index, variant]

    def together(self, indices: list[int], variant: int) -> dict[int, Outcome]:
        """Return the outcomes of rows in one model; if that crashes the process, each row gets its own model."""
        self.pool = self.pool or ProcessPoolExecutor(1, get_context("spawn"), quiet)
        try:
            return self.pool.submit(computed_together, indices, variant).result(timeout=600)
        except BrokenProcessPool:
            self.pool = None
            if len(indices) == 1:
                return {indices[0]: "the process died"}
            return {i: got for index in indices for i, got in self.together([index], variant).items()}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[Outcomes]:
    pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")
    outcomes = Outcomes()
    yield outcomes
    if outcomes.pool is not None:
        outcomes.pool.shutdown()


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
    if row.operator == "QuantizeLinear" and row.inputs[0].dtype == np.float16:  # the quotient is computed in float32
        assert all(np.abs(a.astype(int) - b).max() <= 1 for a, b in zip(got, expected(row), strict=True))
        return
    if row.operator not in NOT_A_NUMBER or not has_nan(row):
        assert_same(got, expected(row))


@pytest.mark.slow
@pytest.mark.parametrize("index", first_rows(), ids=SAMPLE)
def test_sample(index: int, outcomes: Outcomes) -> None:
    check(index, outcomes.together([index], STATIC)[index])


@pytest.mark.slow
def test_every_rule_of_tensorflow_lite_alone_is_in_the_sample() -> None:
    pytest.importorskip("tensorflow")
    from convert.backends.tensorflow import ops  # noqa: F401
    from convert.backends.tensorflow.rules import onnx_op as table

    ours = {name.removeprefix("convert.lite::") for name in table.entries if name.startswith("convert.lite::")}
    assert ours
    assert ours <= set(SAMPLE)  # the MaxPool here is for 8 bits: test_tensorflow_lite.py


NAMES = [str(param.id) for param in params(CASES)]
ROWS_BY_PACK = [
    pytest.param(index, id=NAMES[index], marks=pytest.mark.slow if CASES[index].operator in SLOW else ())
    for pack in PACKS
    for index in pack
]


@pytest.mark.parametrize("index", ROWS_BY_PACK)
@pytest.mark.parametrize(
    "variant", [pytest.param(STATIC, id="static"), pytest.param(DYNAMIC, id="dynamic", marks=pytest.mark.slow)]
)
def test_row(index: int, variant: int, outcomes: Outcomes) -> None:
    check(index, outcomes.of(index, variant))
