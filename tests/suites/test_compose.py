"""Random graphs through every backend: a small sample with fixed seeds by default, a larger one behind `long`.

`compose_judge.py` judges the graphs. A graph that fails is reduced and printed as a script.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("torch", reason="half of the graphs are PyTorch's")

from tests.suites.compose import ALL, BAD, run_seeds
from tests.suites.compose_judge import FREE, fault, moved
from tests.suites.compose_onnx import references
from tests.suites.compose_program import Input, Program, Step


def bad(seeds: range, targets: tuple[str, ...], workers: int) -> dict[tuple[str, str], int]:
    """Return the number of graphs that are neither right nor refused, by format and status."""
    jobs = [(source, seed, seed % 4 != 3) for seed in seeds for source in ("pytorch", "onnx")]
    counts = run_seeds(jobs, targets, workers)
    assert sum(n for (_, status), n in counts.items() if status == "right") > len(jobs)
    return {key: n for key, n in counts.items() if key[1] in (*BAD, "failed")}


@pytest.mark.slow
def test_a_sample_is_right_or_refused() -> None:
    assert bad(range(8), ("onnx",), 1) == {}


@pytest.mark.long
def test_more_are_right_or_refused() -> None:
    targets = tuple(t for t in ALL if t != "caffe2" or os.environ.get("CONVERT_CAFFE2_PYTHON"))
    assert bad(range(100, 200), targets, 2) == {}


def test_the_judge_takes_rounding_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    want = rng.standard_normal(50)
    plain, noisy = want.astype(np.float32), [moved(want, seed) for seed in (1, 2, 3)]
    assert fault((want * (1 + 2.0**-23)).astype(np.float32), want, plain, noisy) == ""
    assert "times what rounding explains" in fault((want * (1 + 1e-5)).astype(np.float32), want, plain, noisy)
    assert "not finite" in fault(np.where(want > 1, np.nan, want).astype(np.float32), want, plain, noisy)
    assert "instead of" in fault(plain[None], want, plain, noisy)
    zero = np.zeros(50)
    assert "rounding explains none" in fault(zero.astype(np.float32) + 1, zero, zero.astype(np.float32), [zero], [zero])
    assert np.array_equal(moved(np.array([0.0, 2.0]), FREE), [0, 2])
    whole = np.arange(5)
    assert fault(whole, whole, whole, [whole, np.array([0, 1, 2, 3, 5])]) == ""
    assert fault(np.array([0, 1, 2, 3, 5]), whole, whole, [whole]) == "1 of 5 elements differ"
    assert fault(np.array([0, 1, 2, 3, 5]), whole, whole, [whole, np.array([0, 1, 2, 3, 5])]) == ""
    free = [np.array([0, 1, 2, 3, 5])]
    assert fault(np.array([0, 1, 2, 3, 5]), whole, whole, [whole], free) == ""
    assert fault(np.array([0, 1, 2, 5, 4]), whole, whole, [whole], free) == "1 of 5 elements differ"
    # A choice among equal numbers inside the graph is skipped only if it changes the outputs.
    chosen = want.copy()
    chosen[0] += 1
    middle, settled, beyond = (chosen.astype(np.float32) for _ in range(3))
    middle[0] -= 0.5
    settled[1] += 0.5
    beyond[0] += 0.5
    assert fault(middle, want, plain, noisy, [chosen]) == ""
    assert "times what rounding explains" in fault(settled, want, plain, noisy, [chosen])
    assert "times what rounding explains" in fault(beyond, want, plain, noisy, [chosen])
    assert "times what rounding explains" in fault(middle, want, plain, noisy)


def test_a_norm_of_equal_numbers_may_have_what_rounding_does_to_their_mean() -> None:
    code = "[node('LayerNormalization', ['x', 'k0', 'k1'], ['y'])]"
    layers = (("k0", "1 + floats(0, 3) * np.float32(0.2)"), ("k1", "floats(1, 3)"))
    x = np.repeat(np.array([[0.3], [-3], [1.7]], np.float32), 3, 1)
    step = Step("y", code, ("x",), layers, "layer_norm")
    program = Program("onnx", (Input("x", "float32", (3, 3)),), (step,), ("y",), [{"x": x}])
    want, plain, *noisy = references(program, 12)[0]["y"]

    def said(share: float) -> str:
        left = x * share / np.sqrt(1e-5)
        return fault((want + left).astype(np.float32), want, plain, noisy[:12], noisy[12:])

    assert said(2.0**-23) == ""
    assert "times what rounding explains" in said(1e-5)
    want *= 0  # the value before the bias is added
    noisy = [n - n.mean(0) for n in noisy]
    plain = want.astype(np.float32)
    assert said(2.0**-23) == ""
    assert "times what rounding explains" in said(1e-5)


def test_what_cancels_has_the_rounding_of_its_parts() -> None:
    """For a small x, x - tanh(x) is a third of x's cube: in float32 the rounding of tanh(x) may give it any sign."""
    x = np.array([-3.5e-4, -0.5, 2.0])
    exact = x - np.tanh(x)
    runs = np.stack([moved(exact, seed, "F.tanhshrink({x})") for seed in range(8)])
    assert set(np.floor(runs[:, 0])) == {-1.0, 0.0}
    np.testing.assert_allclose(runs[:, 1:], np.broadcast_to(exact[1:], (8, 2)), rtol=3e-6)
    assert np.all(np.stack([moved(exact, seed) for seed in range(8)])[:, 0] < 0)
