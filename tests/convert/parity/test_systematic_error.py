"""Distinguish a systematic scale error from rounding, for weights in 4, 8 and 16 bits with two ways of rounding."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import OutputVerdict
from convert.parity.compare.narrow import Arrays, NarrowOutput, judge_slices


def rounded_weight(weight: np.ndarray, bits: int, *, symmetric: bool) -> np.ndarray:
    """Round each column of a weight to 2**bits steps, around zero or between its ends."""
    low = -np.abs(weight).max(0) if symmetric else weight.min(0)
    step = (np.abs(weight).max(0) - low if symmetric else np.ptp(weight, 0)) / (2**bits - 1)
    return np.round((weight - low) / step) * step + low


def outputs(seed: int, bits: int, features: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return a dense layer's output in float64, with rounded weights, and with weights rounded in another way."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((32, features)) / 6
    inputs = [rng.standard_normal((rows, 32)) for rows in (2, 1, 3)]
    weights = (weight, rounded_weight(weight, bits, symmetric=True), rounded_weight(weight, bits, symmetric=False))
    exact, rounded, target = ([np.maximum(x @ w, 0) for x in inputs] for w in weights)
    return exact, rounded, target


def wrong_scale(exact: Arrays, rounded: Arrays, targets: Arrays, held: Arrays | None = None) -> str:
    """Return the reason given for an output of these numbers, or ''."""
    g, row = Graph(), OutputVerdict("y")
    g.output(g.Identity(g.input("x", ir.DataType.FLOAT, ["n", *exact[0].shape[1:]])), "y")
    output = NarrowOutput(exact, rounded, targets, held)
    return judge_slices(row, g.model(), g.model().graph.outputs[0], [], output, roundoff=1e-6).reason


@pytest.mark.parametrize(("bits", "factor"), [(4, 1.5), (8, 1.05), (16, 1.003)])
@pytest.mark.parametrize("features", [8, 64])
def test_no_alarm_and_no_miss(bits: int, factor: float, features: int) -> None:
    alarms = misses = 0
    for seed in range(200):
        exact, rounded, target = outputs(seed, bits, features)
        alarms += bool(wrong_scale(exact, rounded, target))
        misses += not wrong_scale(exact, rounded, [factor * array for array in target])
    assert (alarms, misses) == (0, 0)


def test_what_it_says() -> None:
    exact, rounded, target = outputs(0, 8, 64)
    told = wrong_scale(exact, rounded, [0.9 * array for array in target])
    assert told.startswith("the scale is off by -9.")


@pytest.mark.parametrize("samples", [16, 128])
@pytest.mark.parametrize(("what", "factor", "offset"), [("scale", 1.05, 0.0), ("offset", 1.0, 1.5), ("", 1.0, 0.0)])
def test_one_channel_is_told_where_weights_are_known(what: str, factor: float, offset: float, samples: int) -> None:
    """Values are rounded to steps of 1/20; offsets are in steps."""
    rng = np.random.default_rng(samples)
    told = []
    for _ in range(20):
        held = [rng.standard_normal((samples, 24))]
        rounded, target = ([np.round(20 * a + rng.uniform(-1, 1, a.shape)) / 20 for a in held] for _ in range(2))
        target[0][:, 7] = factor * target[0][:, 7] + offset / 20
        told.append(wrong_scale(held, rounded, target, held))
    if samples > 100 or not what:
        assert all(f"the {what} of channel 7 of axis 1" in each if what else not each for each in told)


def test_places_that_are_not_finite_are_left_out() -> None:
    exact, rounded, target = outputs(0, 8, 64)
    target[0][0, 0] = np.inf
    exact[1][0, 1] = np.nan
    assert wrong_scale(exact, rounded, target) == ""


@pytest.mark.parametrize("array", [np.zeros((2, 3)), np.array([[1, 2, 3]]), np.array([["a"]], object), np.float64(3.0)])
def test_what_has_no_scale(array: np.ndarray) -> None:
    assert wrong_scale([array], [array], [array]) == ""


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_channels_of_zeros_hide_no_other(factor: float) -> None:
    """Detections beyond the last one found are zeros in all samples, and only some of these become numbers."""
    rng, held = np.random.default_rng(0), np.zeros((128, 24))
    held[:, :4] = rng.standard_normal((128, 4))
    rounded, target = held.copy(), held.copy()
    for array in (rounded, target):
        array[:, :4] = np.round(20 * held[:, :4] + rng.uniform(-1, 1, (128, 4))) / 20
    rounded[0, 20] = 1.0
    target[:, 2] *= factor
    told = wrong_scale([held], [rounded], [target], [held])
    assert told.startswith("the scale of channel 2 of axis 1") if factor != 1 else told == ""
