"""Places of NaN and infinities that rounding decides, and the noise floor of sources that are float64 as deployed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.parity.float64_noise import with_float64_noise
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs, VerifyMethod, judge
from convert.parity.nonfinite import excuse_nonfinite
from convert.reference.executor import run
from convert.verdict import FAIL, INCONCLUSIVE, PASS, Verdict

F, D = ir.DataType.FLOAT, ir.DataType.DOUBLE
FEEDS = [Feed("one", {"x": np.linspace(10, 22, 60, dtype=np.float32).reshape(6, 10)})]
Change = Callable[[np.ndarray], np.ndarray]


def complement(scale: float = 1.0) -> ir.Model:
    """log(1 - sigmoid(x)): beyond 17 minus infinity in float32."""
    g = Graph()
    y = g.Log(g.Sub(np.float32(1), g.Sigmoid(g.input("x", F, ["n", 10]))))
    g.output(g.Mul(y, np.float32(scale)), "y")
    return g.model()


def judged(change: Change, graph: ir.Model | None = None, moved: bool = True) -> Verdict:
    graph = graph or complement()
    single = run(graph, FEEDS[0].arrays)["y"]
    x = FEEDS[0].arrays["x"].astype(np.float64)
    exact = [{"y": np.log(1 - 1 / (1 + np.exp(-x)))}]
    runs = RunOutputs({"float32": [{"y": single}], "float64": exact}, [{"y": change(single.copy())}], exact)
    verdict = judge(graph, FEEDS, runs, VerifyMethod())

    def respond(feeds: Sequence[Feed]) -> Any:
        if not moved:
            raise ConvertError("no")
        return [run(graph, f.arrays) for f in feeds]

    excuse_nonfinite(verdict, graph, FEEDS, runs, respond, VerifyMethod())
    return verdict


def first_infinite(y: np.ndarray) -> int:
    return int(np.flatnonzero(np.isinf(y))[0])


def later(y: np.ndarray) -> np.ndarray:
    """The first that is infinite is a number, and not the one that float64 has."""
    y.flat[first_infinite(y)] = -12
    return y


def sooner(y: np.ndarray) -> np.ndarray:
    """One more is infinite."""
    y.flat[first_infinite(y) - 1] = -np.inf
    return y


@pytest.mark.parametrize("change", [later, sooner])
def test_infinities_that_rounding_decides_are_no_failure_and_no_pass(change: Change) -> None:
    found = judged(change)
    assert (found.status, found.guilty) == (INCONCLUSIVE, "")
    assert found.reason == "y: rounding decides which elements are NaN or infinite (1 are otherwise)"
    assert judged(change, moved=False).status == INCONCLUSIVE, "float64 has them elsewhere than float32"


def test_other_errors_are_failures_all_the_same() -> None:
    def off(y: np.ndarray) -> np.ndarray:
        y[0] *= 1.5
        return later(y)

    assert judged(off).status == FAIL
    assert judged(lambda y: np.full_like(y, np.nan)).status == FAIL
    assert judged(lambda y: y).status == PASS


def test_many_more_places_than_rounding_explains_are_a_failure() -> None:
    g = Graph()
    g.output(g.Log(g.Sub(g.input("x", F, ["n", 10]), np.float32(9))), "y")
    x = FEEDS[0].arrays["x"]
    exact = [{"y": np.log(x.astype(np.float64) - 9)}]
    single = [{"y": run(g.model(), FEEDS[0].arrays)["y"]}]
    target = [{"y": np.where(x > 15, -np.inf, single[0]["y"]).astype(np.float32)}]
    runs = RunOutputs({"float32": single, "float64": exact}, target, exact)
    verdict = judge(g.model(), FEEDS, runs, VerifyMethod())
    excuse_nonfinite(verdict, g.model(), FEEDS, runs, lambda f: single, VerifyMethod())
    assert verdict.status == FAIL


@pytest.mark.parametrize("kernel", ["of this machine", "from the first", "from the last"])
def test_what_is_float64_as_deployed_has_the_noise_of_sums_taken_one_by_one(kernel: str) -> None:
    """Also of a source whose kernel adds so itself, as OpenBLAS's for small matrices and AVX-512 does."""
    rng = np.random.default_rng(0)
    g, w = Graph(), rng.standard_normal((20000, 6))
    g.output(g.MatMul(g.input("x", D, ["n", 20000]), w), "y")
    feeds = [Feed("one", {"x": rng.standard_normal((5, 20000))})]
    terms = feeds[0].arrays["x"][:, :, None] * w
    forwards, backwards = (np.add.accumulate(t, 1)[:, -1] for t in (terms, terms[:, ::-1]))
    kernels = {
        "of this machine": feeds[0].arrays["x"] @ w, "from the first": forwards, "from the last": backwards,
    }  # fmt: skip
    exact = [{"y": kernels[kernel]}]
    another = forwards if kernel == "from the last" else backwards
    for error, status in ((0.0, PASS), (1.0, PASS), (40.0, FAIL)):
        target = [{"y": exact[0]["y"] + error * (another - exact[0]["y"])}]
        runs = RunOutputs({"float32": exact, "float64": exact}, target, exact)
        if error:
            assert judge(g.model(), feeds, runs, VerifyMethod()).status == FAIL
        held, notes = with_float64_noise(g.model(), feeds, runs)
        assert (held is runs) == (notes == []) == (error == 0)
        assert judge(g.model(), feeds, held, VerifyMethod()).status == status
    far = RunOutputs({"float32": exact, "float64": exact}, [{"y": exact[0]["y"] * 1.001}], exact)
    assert with_float64_noise(g.model(), feeds, far) == (far, []), "that is no rounding of float64"
    none = RunOutputs({"float32": exact, "float64": Unsupported("no")}, exact, exact)
    assert with_float64_noise(g.model(), feeds, none) == (none, [])


def test_an_epsilon_that_a_format_rounds_to_float32_is_noise() -> None:
    g = Graph()
    one, zero = np.ones(8), np.zeros(8)
    g.output(g.LayerNormalization(g.input("x", D, ["n", 8]), one, zero, axis=-1, epsilon=1e-5), "y")
    x = np.random.default_rng(0).standard_normal((5, 8))
    centred = x - x.mean(-1, keepdims=True)

    def normal(epsilon: float) -> list[dict[str, np.ndarray]]:
        return [{"y": centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)}]

    exact, feeds = normal(1e-5), [Feed("one", {"x": x})]
    for epsilon, status in ((float(np.float32(1e-5)), PASS), (1.00001e-5, FAIL)):
        runs = RunOutputs({"float32": exact, "float64": exact}, normal(epsilon), exact)
        assert judge(g.model(), feeds, with_float64_noise(g.model(), feeds, runs)[0], VerifyMethod()).status == status
