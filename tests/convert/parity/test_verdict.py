"""The verdict on planted outputs: rounding passes, defects fail, and what proves nothing is inconclusive."""

from __future__ import annotations

import numpy as np
import pytest

from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.compare.outputs import compare, float64_error

RNG = np.random.default_rng(0)
EXACT = [RNG.standard_normal((4, 100)) for _ in range(2)]
ROUNDED = [e.astype(np.float32) + (2.0**-22 * RNG.standard_normal(e.shape)).astype(np.float32) for e in EXACT]


def other_rounding() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [e.astype(np.float32) + (2.0**-22 * rng.standard_normal(e.shape)).astype(np.float32) for e in EXACT]


def test_another_rounding_passes_and_reports_error_and_floor() -> None:
    row = compare("y", EXACT, ROUNDED, other_rounding())
    assert row.status == PASS
    assert 1e-8 < row.error < 1e-6
    assert 1e-8 < row.floor < 1e-6


def plant(kind: str) -> list[np.ndarray]:
    target = other_rounding()
    array = target[1]
    if kind == "sign":
        array *= -1
    elif kind == "scale":
        array *= np.float32(1 + 1e-5)
    elif kind == "one element":
        array[2, 50] += 1e-4
    elif kind == "nan":
        array[0, 0] = np.nan
    elif kind == "inf":
        array[0, 0] = np.inf
    elif kind == "shape":
        target[1] = array[:, :99]
    elif kind == "transposed":
        target[1] = array.T
    elif kind == "dtype":
        target[1] = array.astype(np.float64)
    elif kind == "swapped rows":
        target[1] = array[[1, 0, 2, 3]]
    return target


@pytest.mark.parametrize(
    "kind", ["sign", "scale", "one element", "nan", "inf", "shape", "transposed", "dtype", "swapped rows"]
)
def test_defects_fail(kind: str) -> None:
    row = compare("y", EXACT, ROUNDED, plant(kind))
    assert row.status == FAIL
    assert row.reason


def test_nan_and_infinity_on_both_sides_agree() -> None:
    exact, source, target = EXACT[0].copy(), ROUNDED[0].copy(), other_rounding()[0]
    for array in (exact, source, target):
        array[0, :3] = [np.nan, np.inf, -np.inf]
    assert compare("y", [exact], [source], [target]).status == PASS
    target[0, 1] = -np.inf
    assert compare("y", [exact], [source], [target]).status == FAIL


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 3), np.float32),
        np.full((3, 3), np.nan, np.float32),
        np.full(9, 2.5, np.float32),
        np.zeros((0, 3), np.float32),
    ],
)
def test_agreement_on_nothing_is_inconclusive(array: np.ndarray) -> None:
    row = compare("y", [array.astype(np.float64)] * 2, [array] * 2, [array] * 2)
    assert row.status == INCONCLUSIVE


def test_an_output_that_ignores_its_inputs_is_inconclusive() -> None:
    row = compare("y", [EXACT[0]] * 2, [ROUNDED[0]] * 2, [ROUNDED[0]] * 2)
    assert row.status == INCONCLUSIVE
    assert "does not depend" in row.reason


def test_integers_are_exact_except_where_the_source_itself_is_inside_its_noise() -> None:
    exact = np.array([3, 1, 4, 1, 5])
    source = np.array([3, 1, 4, 2, 5])
    assert compare("i", [exact], [source], [np.array([3, 1, 4, 1, 5])]).status == PASS
    assert compare("i", [exact], [source], [np.array([3, 1, 4, 2, 6])]).status == FAIL


def test_tolerances_replace_the_bound() -> None:
    target = [r + np.float32(1e-3) for r in ROUNDED]
    assert compare("y", EXACT, ROUNDED, target).status == FAIL
    assert compare("y", EXACT, ROUNDED, target, atol=2e-3).status == PASS
    assert compare("y", EXACT, ROUNDED, target, rtol=1e-9).status == FAIL


def test_twin_error_separates_a_wrong_operator_from_rounding() -> None:
    def erf_gelu(x: np.ndarray) -> np.ndarray:
        from math import erf

        return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))

    tanh_gelu = 0.5 * EXACT[0] * (1 + np.tanh(np.sqrt(2 / np.pi) * (EXACT[0] + 0.044715 * EXACT[0] ** 3)))
    assert float64_error(erf_gelu(EXACT[0]), erf_gelu(EXACT[0]) * (1 + 1e-15)) < 1e-14
    assert float64_error(erf_gelu(EXACT[0]), tanh_gelu) > 1e-5
    assert float64_error(EXACT[0], EXACT[0].T) == np.inf
    assert float64_error(np.array([1, 2]), np.array([1, 3])) == np.inf
