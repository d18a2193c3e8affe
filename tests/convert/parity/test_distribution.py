"""Random outputs of two sides: equal distributions are never called different, and different ones are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict
from convert.parity.compare.distribution import (
    SAMPLES,
    distribution_difference,
    judge_distributions,
    varies_between_runs,
)

SIGNAL = np.random.default_rng(0).standard_normal((4, 100))
Draw = Callable[[np.random.Generator], np.ndarray]

DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda r: SIGNAL + r.standard_normal(SIGNAL.shape),
    "one noise for all": lambda r: SIGNAL + r.standard_normal(),
    "dropout": lambda r: SIGNAL * 2 * (r.random(SIGNAL.shape) < 0.5),
    "rare": lambda r: SIGNAL * (r.random(SIGNAL.shape) < 0.001),
    "once in many runs": lambda r: SIGNAL * (r.random() < 0.01),
    "without moments": lambda r: SIGNAL + r.standard_cauchy(SIGNAL.shape),
    "skewed": lambda r: SIGNAL * r.exponential() ** 3,
    "places": lambda r: r.integers(0, 9, 5),
    "flags": lambda r: r.random(7) < 0.3,
    "one number": lambda r: r.standard_normal(1),
    "nearly none": lambda r: SIGNAL + 1e-12 * r.standard_normal(SIGNAL.shape),
}


def drawn(draw: Draw, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [draw(generator) for _ in range(SAMPLES)]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_sides_that_draw_alike_are_not_called_different(name: str) -> None:
    draw = DISTRIBUTIONS[name]
    for seed in range(8):
        assert distribution_difference(drawn(draw, seed), drawn(draw, 100 + seed)) == ""
    assert varies_between_runs(drawn(draw, 0)) or name in ("rare", "once in many runs")


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a weight 5 % off": lambda a: a * 1.05,
    "a bias": lambda a: a + 0.2 * (np.arange(a.size).reshape(a.shape) % 2),
    "one element": lambda a: a + 3.0 * (np.arange(a.size).reshape(a.shape) == 7),
    "a sign": lambda a: -a,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["normal", "dropout"])
def test_another_function_behind_noise_is_seen(name: str, change: str) -> None:
    draw = DISTRIBUTIONS[name]
    other = [CHANGES[change](a) for a in drawn(draw, 1)]
    assert distribution_difference(drawn(draw, 0), other).endswith("of the output's size")


def test_more_noise_is_seen() -> None:
    more = drawn(lambda r: SIGNAL + 1.2 * r.standard_normal(SIGNAL.shape), 1)
    assert distribution_difference(drawn(DISTRIBUTIONS["normal"], 0), more).startswith("the spread of 256 draws")


def test_more_noise_of_one_element_is_seen() -> None:
    """One of 400 noisy elements has more noise; the direction of the test is chosen from the first samples."""
    louder = np.where(np.arange(SIGNAL.size).reshape(SIGNAL.shape) == 7, 5.0, 1.0)
    one = drawn(lambda r: SIGNAL + louder * r.standard_normal(SIGNAL.shape), 1)
    for pair in ((drawn(DISTRIBUTIONS["normal"], 0), one), (one, drawn(DISTRIBUTIONS["normal"], 0))):
        assert distribution_difference(*pair).startswith("the spread of 256 draws")


@pytest.mark.parametrize(("ours", "theirs", "share"), [(3, 5, 4 / 3), (5, 3, 4 / 5), (13, 12, 5 / 13)])
def test_how_far_apart_two_spreads_are(ours: int, theirs: int, share: float) -> None:
    """The distance is the root of the difference of their squares, relative to the output's size."""
    signs = np.where(np.arange(SAMPLES) % 2, 1.0, -1.0)
    sides = ([np.full(7, number * sign) for sign in signs] for number in (ours, theirs))
    assert distribution_difference(*sides) == f"the spread of 256 draws differs, by {share:.1e} of the output's size"


def test_rounding_that_goes_one_way_is_no_difference() -> None:
    draw = DISTRIBUTIONS["nearly none"]
    assert distribution_difference(drawn(draw, 0), [a * (1 + 1e-6) for a in drawn(draw, 1)]) == ""


def test_what_is_the_same_each_time_does_not_redraw() -> None:
    assert not varies_between_runs([SIGNAL] * SAMPLES)
    assert not varies_between_runs([np.full(3, np.nan)] * 3)
    assert not varies_between_runs([SIGNAL, SIGNAL[:2]])


def held(theirs: list[np.ndarray], status: str = INCONCLUSIVE) -> Verdict:
    """Return the verdict on the output `y` of a random graph whose source samples numbers around 1."""
    g = Graph()
    g.output(g.Add(g.input("x", ir.DataType.FLOAT, [3]), g.RandomNormal(shape=[3])), "y")
    rng = np.random.default_rng(0)
    ours = [{"y": 1 + 0.1 * rng.standard_normal(3)} for _ in range(SAMPLES)]
    verdict = Verdict(status, "as it was", outputs=[OutputVerdict("y", INCONCLUSIVE)])
    return judge_distributions(verdict, g.model(), ours, [{"y": a} for a in theirs])


def test_a_verdict_on_draws() -> None:
    around = [1 + 0.1 * np.random.default_rng([1, i]).standard_normal(3) for i in range(SAMPLES)]
    alike = held(around)
    assert (alike.status, alike.reason, alike.outputs[0].status) == (INCONCLUSIVE, "as it was", INCONCLUSIVE)
    assert alike.notes == ["output 'y': 256 draws of source and target have one mean and spread"]
    off = held([2 * a for a in around])
    row = off.outputs[0]
    assert (off.status, row.status, off.notes, off.reason) == (FAIL, FAIL, [], f"y: {row.reason}")
    assert row.reason.startswith("the mean of 256 draws differs, by ")
    assert row.reason.endswith(", which chance does once in 1,000,000 cases at the most")
    # An output that has already failed keeps its reason.
    before = held([2 * a for a in around], FAIL)
    assert (before.status, before.reason, before.outputs[0].status) == (FAIL, "as it was", FAIL)


def test_what_is_not_compared_hides_no_output_behind_it() -> None:
    """Outputs are skipped if they are not random, judged already, strings, of another shape, or random on one side
    only.
    """
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3])
    for name in ("still", "judged", "words", "shape", "alone", "off"):
        g.output(g.Neg(x) if name == "still" else g.Add(x, g.RandomNormal(shape=[3])), name)
    rng = np.random.default_rng(0)

    def draws(mean: float, only: bool) -> list[dict[str, np.ndarray]]:
        """Return samples; `only` is the side on which the numbers of `alone` vary."""
        return [
            {
                "still": np.ones(3),
                "judged": mean + 0.1 * rng.standard_normal(3),
                "words": np.array([str(n), "b"], object),
                "shape": 1 + 0.1 * rng.standard_normal(3 if only else 2),
                "alone": 1 + 0.1 * only * rng.standard_normal(3),
                "off": mean + 0.1 * rng.standard_normal(3),
            }
            for n in range(SAMPLES)
        ]

    names = ("still", "judged", "words", "shape", "alone", "off")
    rows = [OutputVerdict(name, PASS if name == "judged" else INCONCLUSIVE) for name in names]
    verdict = Verdict(INCONCLUSIVE, "as it was", outputs=rows)
    verdict = judge_distributions(verdict, g.model(), draws(1.0, True), draws(2.0, False))
    assert [row.name for row in verdict.outputs if row.status == FAIL] == ["off"]
    assert verdict.notes == ["output 'alone': in 256 runs only the source gives other numbers"]
    assert (verdict.status, verdict.reason) == (FAIL, f"off: {verdict.outputs[5].reason}")
