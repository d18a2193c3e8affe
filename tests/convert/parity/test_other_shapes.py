"""Arrays of another shape or dtype, on either side, are never compared number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE
from convert.parity.compare.outputs import compare
from convert.parity.compare.randomness import describe_repeats, judge_random
from convert.parity.pairing.weights import _apart

F = ir.DataType.FLOAT
PAIRS = [((2,), (3,)), ((1, 4), (4, 4)), ((4, 5), (5, 4)), ((20,), (4, 5)), ((4, 5), (4, 5, 1)), ((4, 1), (4, 5)),
         ((), (1,)), ((4, 5), (5, 5))]  # fmt: skip
OTHER = pytest.mark.parametrize(("one", "other"), [*PAIRS, *(pair[::-1] for pair in PAIRS)])


def numbers(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    return np.linspace(1, 2, int(np.prod(shape))).reshape(shape).astype(dtype)


@OTHER
def test_a_target_of_another_shape_fails_and_a_reference_decides_nothing(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    for kind in (np.float32, np.int64):
        a, b = numbers(one, kind), numbers(other, kind)
        found = compare("y", [a], [a], [b])
        assert (found.status, found.reason) == (FAIL, f"shape {list(other)} where the source has {list(one)}")
        found = compare("y", [b, b * 2], [a, a * 2], [a, a * 2])
        assert found.status == INCONCLUSIVE
        assert found.reason == (
            f"rounding decides how many elements there are: {list(one)} in float32, {list(other)} in float64"
        )


@OTHER
def test_runs_of_another_shape_differ(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = numbers(one), numbers(other)
    assert len(describe_repeats({"y": a}, {"y": b})) == 1
    assert describe_repeats({"y": a}, {"y": a}) == []
    g = Graph()
    g.output(g.RandomNormal(shape=list(one)), "y")
    assert judge_random(g.model(), "y", "RandomNormal", [a], [b]).status == FAIL
    assert judge_random(g.model(), "y", "RandomNormal", [a], [a]).status == INCONCLUSIVE


@pytest.mark.parametrize(("one", "other"), [((4, 5), (5, 4)), ((20,), (4, 5)), ((2, 2, 5), (4, 5)), ((10, 2), (4, 5))])
def test_weights_of_another_shape_are_told_in_the_order_of_their_size(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    a, b = np.arange(20.0), np.arange(20.0)[::-1] + 0.5
    for shapes in ((one, other), (other, one)):
        np.testing.assert_array_equal(_apart(a, b, *shapes), np.full(20, 0.5))
    assert _apart(a, b, one, one).max() > 1


DTYPES = [(np.float32, np.float64), (np.float32, np.int32), (np.int32, np.int64), (np.uint8, np.int8),
          (np.float16, np.float32), (bool, np.uint8)]  # fmt: skip
