"""Dtypes of TensorFlow graphs: float16, bfloat16, float64 and int64 are neither widened nor narrowed."""

from __future__ import annotations

import pytest

from tests.frontends.tensorflow.ops.dtypes import KINDS, check_dtype
from tests.frontends.tensorflow.ops.test_rules import CASES

SAMPLE = (
    *("MatMul", "Conv2D", "BiasAdd", "FusedBatchNormV3", "Softmax", "Sum", "Cumsum", "Bucketize", "Lgamma", "Where"),
    *("Gather", "GatherV2", "TopKV2", "OneHot", "Range", "Pad", "SegmentMean", "Unique", "AddN", "FloorMod", "Pow"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_operators(kind: str) -> None:
    rows = {row.operator: row for row in CASES if row.operator in SAMPLE and not row.reason}
    assert sum(check_dtype(row, kind) for row in rows.values()) >= 5


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_every_case_that_tensorflow_takes_in_another_dtype(kind: str) -> None:
    failures, taken = [], set()
    for row in CASES:
        if row.reason:
            continue
        try:
            if check_dtype(row, kind):
                taken.add(row.operator)
        except AssertionError as error:
            failures.append(f"{row.operator} {row.label}: {error}")
    assert not failures
    assert len(taken) >= TAKEN[kind]


TAKEN = {"float16": 190, "bfloat16": 160, "float64": 210, "int64": 60}
"""Minimum number of rows per dtype, below the number that TensorFlow 2.21 accepts, to notice a test that skips rows."""
