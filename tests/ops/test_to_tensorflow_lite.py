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

from tests.ops.cases import Case
from tests.ops.tensorflow_backend_cases import CASES
from tests.ops.test_to_tensorflow import DYNAMIC, STATIC, assert_same, expected, feeds_of, model_of

NEVER = (
    "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "ConvInteger", "CumProd", "DFT", "DeformConv", "Det",
    "Loop", "MatMulInteger", "MelWeightMatrix", "NonMaxSuppression", "QLinearConv", "QLinearMatMul", "RegexFullMatch",
    "STFT", "Scan", "StringConcat", "StringSplit", "Unique",
)  # fmt: skip
"""Operators that are refused whatever their inputs: TensorFlow Lite has no built-in operators to make them of."""

SOMETIMES = (
    "Abs", "AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "Div", "Einsum", "Exp", "MatMul", "MaxPool",
    "Mod", "Pad", "Pow", "ScatterElements", "ScatterND", "Shrink", "Sigmoid", "Sign", "SpaceToDepth", "Split",
    "StringNormalizer", "TopK",
)  # fmt: skip
"""Operators that are refused for some dtypes, ranks or attributes."""

NOT_A_NUMBER = ("Max", "Min")
"""TensorFlow Lite's kernels for these ignore a NaN on one side: rows with NaN are left out."""

SAMPLE = (
    "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Cast", "Clip", "Concat", "Conv",
    "ConvTranspose", "Cosh", "CumSum", "DepthToSpace", "Det", "Erf", "Gather", "Gemm",
    "GlobalAveragePool", "HardSwish", "IsInf", "LayerNormalization", "LogSoftmax", "MatMul", "MaxPool", "Pad",
    "PRelu", "ReduceMean", "Resize", "Sinh", "Slice", "Softmax", "Split", "Tan", "TopK",
    "Transpose", "Where",
)  # fmt: skip


def quiet() -> None:
    """The converter prints what it thinks of each graph."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def computed(index: int, variant: int) -> list[np.ndarray] | str:
    """Outputs of a row, or why it is refused; runs in the child process."""
    import onnx_ir as ir

    from convert.errors import Unsupported
    from tests.tensorflow_lite_helper import encode, run

    model = ir.from_proto(model_of(CASES[index], variant))
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(run(encode(model, Path(folder)), feeds_of(CASES[index])).values())
        except Unsupported as error:
            return str(error)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, get_context("spawn"), quiet) as executor:
        yield executor


def has_nan(row: Case) -> bool:
    return any(isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isnan(x).any() for x in row.inputs)


def first_rows() -> list[int]:
    return [next(i for i, row in enumerate(CASES) if row.operator == operator) for operator in SAMPLE]


def check(index: int, variant: int, pool: ProcessPoolExecutor) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")
    row = CASES[index]
    got = pool.submit(computed, index, variant).result(timeout=600)
    if isinstance(got, str):
        assert row.operator in (*NEVER, *SOMETIMES), got
        assert "no built-in" in got or "TensorFlow" in got
        return
    assert row.operator not in NEVER
    if row.operator not in NOT_A_NUMBER or not has_nan(row):
        assert_same(got, expected(row))


@pytest.mark.parametrize("index", first_rows(), ids=SAMPLE)
def test_sample(index: int, pool: ProcessPoolExecutor) -> None:
    check(index, STATIC, pool)


def test_every_rule_of_tensorflow_lite_alone_is_in_the_sample() -> None:
    pytest.importorskip("tensorflow")
    from convert.backends.tensorflow.ops import onnx as table

    ours = {name.removeprefix("convert.lite::") for name in table.entries if name.startswith("convert.lite::")}
    assert ours
    assert ours <= set(SAMPLE)  # MaxPool's is for 8 bits: test_tensorflow_lite.py


@pytest.mark.long
@pytest.mark.parametrize("variant", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("index", range(len(CASES)), ids=lambda i: f"{CASES[i].operator}-{i}")
def test_row(index: int, variant: int, pool: ProcessPoolExecutor) -> None:
    check(index, variant, pool)
