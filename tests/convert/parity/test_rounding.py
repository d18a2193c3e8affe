"""Differences that rounding explains or not: pairs of outputs on graphs with known rounding errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

import convert
from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import CANCELLING_KEY
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity.evidence import RunOutputs
from convert.parity.explain.rounding import Estimates, NoisyRuns
from convert.parity.inputs.feeds import Feed
from convert.parity.judge import without_foreign_float64
from convert.parity.method import VerifyMethod
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from convert.reference.quantized import NarrowedOutputs
from convert.request import stored
from convert.runtimes.differences import Difference
from tests.support.verdict_on import verdict_on

F, D = ir.DataType.FLOAT, ir.DataType.DOUBLE
RNG = np.random.default_rng(3)
NONE = Unsupported("no double")
Outputs = list[dict[str, np.ndarray]]


def evaluated(graph: ir.Model, feeds: Sequence[Feed], wide: bool = True) -> Outputs:
    """Return outputs of a graph in float64, or in its own dtypes."""
    model = widen_model(graph) if wide else graph
    return [
        {n: np.asarray(a) for n, a in run(model, {k: v.astype(np.float64) if wide and v.dtype.kind == "f" else v
                                                  for k, v in feed.arrays.items()}).items()}
        for feed in feeds
    ]  # fmt: skip


def target_verdict(
    graph: ir.Model, feeds: Sequence[Feed], target: Callable[[np.ndarray], Any], **method: Any
) -> Verdict:
    """Return the verdict on a target whose outputs are `target` of the graph's outputs in its own dtypes."""
    exact, single = evaluated(graph, feeds), evaluated(graph, feeds, wide=False)
    got = [{"y": np.asarray(target(o["y"].copy()), o["y"].dtype)} for o in single]
    return verdict_on(
        graph, feeds, RunOutputs({"float32": single, "float64": exact}, got, exact), VerifyMethod(**method)
    )


# -- elements that are far smaller than others ------------------------------------------------------------------------

FEEDS = [Feed(f"seed {i}", {"x": RNG.normal(size=(3, 20)).astype(np.float32)}) for i in range(2)]
SIGNS = np.where(np.arange(20) % 2, 1.0, -1.0)


def beside(build: Callable[[Graph, ir.Value], ir.Value], factor: float = 2.0**40) -> ir.Model:
    """Return a graph whose output joins what `build` makes of x with x times `factor`."""
    g = Graph()
    x = g.input("x", F, ["n", 20])
    g.output(g.Concat(build(g, x), g.Mul(x, np.float32(factor)), axis=1), "y")
    return g.model()


def off_by(share: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that moves the first half of each row by a share of 1, alternately up and down."""
    return lambda y: np.concatenate([y[:, :20] + np.float32(share) * SIGNS, y[:, 20:]], 1)


@pytest.mark.parametrize(("share", "status"), [(0.0, PASS), (1e-7, PASS), (1e-4, FAIL), (1e-2, FAIL), (0.5, FAIL)])
@pytest.mark.parametrize("factor", [2.0**40, 1000])
def test_smaller_elements_are_judged_by_themselves(share: float, status: str, factor: float) -> None:
    """Masked logits next to others, and boxes in pixels next to scores."""
    found = target_verdict(beside(lambda g, x: g.Mul(x, np.float32(3)), factor), FEEDS, off_by(share))
    assert (found.status, found.at_fault) == (status, "backend" if status == FAIL else "")
    if factor > 1000 and status == FAIL:
        assert "elements that are far smaller than the others" in found.reason


def test_what_is_left_of_large_numbers_moves_with_them() -> None:
    """(50 x + 2^30) - 2^30 is off by up to 64 in float32, although this source happens to be exact."""
    large = np.float32(2.0**30)
    graph = beside(lambda g, x: g.Sub(g.Add(g.Mul(x, np.float32(50)), large), large))
    exact = evaluated(graph, FEEDS)
    single = [{"y": o["y"].astype(np.float32)} for o in exact]
    for by, status in ((40.0, PASS), (4e4, FAIL)):
        target = [{"y": off_by(by)(o["y"]).astype(np.float32)} for o in single]
        found = verdict_on(graph, FEEDS, RunOutputs({"float32": single, "float64": exact}, target, exact))
        assert found.status == status, found.reason


# -- the source's own error, and the graph in float64 -----------------------------------------------------------------


def chain(*operators: tuple[str, float]) -> ir.Model:
    g = Graph()
    value = g.input("x", F, ["n", 20])
    for operator, number in operators:
        value = getattr(g, operator)(value, np.float32(number))
    g.output(value, "y")
    return g.model()


def source_verdict(graph: ir.Model, share: float, exact: bool, factor: float = 1.0, **rest: Any) -> Verdict:
    """Return the verdict for a source that is off by a share of itself, and a target that is the source times a
    factor.
    """
    right = evaluated(graph, FEEDS)
    single = [{"y": (o["y"] * (1 + share)).astype(np.float32)} for o in right]
    target = [{"y": (o["y"] * np.float32(factor)).astype(np.float32)} for o in single]
    runs = RunOutputs({"float32": single, "float64": right if exact else NONE}, target, right)
    return verdict_on(graph, FEEDS, runs, **rest)


def test_a_source_that_is_another_function_than_the_graph_was_read_wrong() -> None:
    found = source_verdict(chain(("Mul", 3.0)), 0.01, exact=False)
    assert (found.status, found.at_fault, found.outputs[0].status) == (FAIL, "frontend", FAIL)
    assert "1.0e-02 away from the shared graph in float64, which rounding does not explain" in found.reason


def test_a_source_that_is_another_function_than_itself_in_float64_proves_nothing() -> None:
    """The exception is a target that does the same as the source, up to rounding."""
    found = source_verdict(chain(("Mul", 3.0)), 0.01, exact=True, factor=1.005)
    assert (found.status, found.at_fault) == (INCONCLUSIVE, "")
    assert source_verdict(chain(("Mul", 3.0)), 0.01, exact=True).status == PASS


def stored_in_steps(factor: float = 1.0) -> tuple[ir.Model, Outputs]:
    """Return a product with 8-bit weights, and the result of a runtime that rounds each row of x to 8 bits."""
    g, rng = Graph(), np.random.default_rng(0)
    integers = rng.integers(-127, 128, (20, 64)).astype(np.int8)
    g.output(g.MatMul(g.input("x", F, ["n", 20]), g.DequantizeLinear(integers, np.float32(0.01))), "y")
    outputs = []
    for feed in FEEDS:
        x = feed.arrays["x"].astype(np.float64)
        low, high = np.minimum(x.min(1, keepdims=True), 0), np.maximum(x.max(1, keepdims=True), 0)
        rounded = np.round(x / ((high - low) / 255)) * ((high - low) / 255)
        outputs.append({"y": (factor * rounded @ (0.01 * integers.astype(np.float64))).astype(np.float32)})
    return g.model(), outputs


@pytest.mark.parametrize(
    ("read_wrong", "written_wrong", "status", "at_fault"),
    [
        (1.0, 1.0, PASS, ""),
        (1.05, 1.0, INCONCLUSIVE, ""),
        (1.5, 1.0, FAIL, "frontend"),
        (1.0, 1.0001, FAIL, ""),
    ],
)
def test_a_source_that_rounds_to_steps_while_it_runs(
    read_wrong: float, written_wrong: float, status: str, at_fault: str
) -> None:
    """TensorFlow Lite's products with 8-bit weights round the other operand at run time; graph and target do not."""
    graph, single = stored_in_steps(read_wrong)
    exact = evaluated(graph, FEEDS)
    target = [{"y": (o["y"] * written_wrong).astype(np.float32)} for o in exact]
    found = verdict_on(
        graph, FEEDS, RunOutputs({"float32": single, "float64": NONE}, target, exact), steps=stored.WEIGHTS
    )
    assert (found.status, found.at_fault) == (status, at_fault), found.reason


@pytest.mark.parametrize(("share", "status"), [(0.0, PASS), (1e-7, PASS), (0.01, FAIL)])
def test_a_source_that_was_read_wrong_fails_with_a_narrow_target_too(share: float, status: str) -> None:
    """The target is compared with the graph alone, which is not what the source computes."""
    graph = chain(("Mul", 3.0))
    exact = evaluated(graph, FEEDS)
    single = [{"y": (o["y"] * (1 + share)).astype(np.float32)} for o in exact]
    target = [{"y": o["y"].astype(np.float32)} for o in exact]
    narrowed = NarrowedOutputs(exact, [{"y": o["y"] * (1 + 1e-3 * SIGNS)} for o in exact])
    found = verdict_on(graph, FEEDS, RunOutputs({"float32": single, "float64": NONE}, target, exact, narrowed))
    assert found.status == status, found.reason
    assert found.at_fault == ("frontend" if status == FAIL else "")


@pytest.mark.parametrize(("shift", "selects", "status"), [(0, True, PASS), (1, True, INCONCLUSIVE), (1, False, FAIL)])
def test_8_bits_that_select_other_boxes(shift: int, selects: bool, status: str) -> None:
    """NonMaxSuppression of scores in 8 bits may select other boxes, here the next ones; a Gather may not."""
    g = Graph()
    boxes, scores = g.input("boxes", F, [1, 40, 4]), g.input("scores", F, [1, 1, 40])
    rows = np.array([[0, 0, i] for i in range(5)])
    if selects:
        rows = g.NonMaxSuppression(boxes, scores, np.array([5]), np.float32([1.0]))
    g.output(g.Gather(g.Squeeze(boxes, [0]), g.Gather(rows, np.array(2), axis=1), axis=0), "y")
    corners = RNG.random((2, 1, 40, 2))
    feeds = [
        Feed(
            f"seed {i}",
            {
                "boxes": np.concatenate([corners[i], corners[i] + 1], -1).astype(np.float32),
                "scores": np.linspace(1, 0, 40, dtype=np.float32).reshape(1, 1, 40),
            },
        )
        for i in range(2)
    ]
    graph = g.model()
    exact, single = evaluated(graph, feeds), evaluated(graph, feeds, wide=False)
    target = [{"y": np.roll(o["y"], shift, axis=0)} for o in single]
    narrowed = NarrowedOutputs(exact, [{"y": o["y"] + 1e-4 * (-1) ** np.arange(4)} for o in exact])
    found = verdict_on(graph, feeds, RunOutputs({"float32": single, "float64": exact}, target, exact, narrowed))
    assert found.status == status, found.reason
    assert ("--outputs boxes,scores" in found.reason) == (status == INCONCLUSIVE)


def test_a_noisy_source_is_right_where_rounding_explains_it() -> None:
    """All but 1e-5 of the number is subtracted: a rounding moves the output by about 1e-2 of its size."""
    graph = chain(("Add", 1e4), ("Sub", 1e4), ("Mul", 1e-3))
    assert target_verdict(graph, FEEDS, lambda y: y).status == PASS
    assert target_verdict(chain(("Add", 1e7), ("Sub", 1e7)), FEEDS, lambda y: y).status == INCONCLUSIVE


@pytest.mark.parametrize(("share", "status"), [(1e-11, PASS), (1e-7, FAIL), (0.5, FAIL)])
def test_the_graph_in_float64_is_held_to_the_source(share: float, status: str) -> None:
    graph = chain(("Mul", 3.0))
    exact = evaluated(graph, FEEDS)
    single = [{"y": o["y"].astype(np.float32)} for o in exact]
    own = [{"y": o["y"] * (1 + share)} for o in exact]
    found = verdict_on(graph, FEEDS, RunOutputs({"float32": single, "float64": exact}, single, own))
    assert (found.status, found.at_fault) == (status, "frontend" if status == FAIL else "")


def test_a_float64_run_of_another_function_is_set_aside() -> None:
    """Examples are a program that depends on its dtype, and an evaluator that does not know an operator's meaning at an
    old opset.
    """
    graph, x = chain(("Mul", 3.0)), FEEDS[0].arrays["x"].astype(np.float64)

    def kept(single: float, double: Any, own: float) -> Any:
        wide = double if isinstance(double, Unsupported) else [{"y": x * double}]
        runs = RunOutputs({"float32": [{"y": (x * single).astype(np.float32)}], "float64": wide}, [], [{"y": x * own}])
        return without_foreign_float64(graph, runs).source["float64"]

    assert isinstance(kept(3, 3.1, 3), Unsupported)
    assert not isinstance(kept(3, 3, 3.1), Unsupported), "the graph is what is wrong"
    assert not isinstance(kept(3.05, 3.1, 3), Unsupported), "nobody can tell"
    assert not isinstance(kept(3, 3 + 1e-6, 3), Unsupported), "below the rounding of float32"
    assert kept(3, NONE, 3) is NONE


def angles() -> ir.Model:
    """Return a graph of the angle between each two rows, which is NaN or nearly 0 between a row and itself."""
    g = Graph()
    x = g.input("x", F, ["n", 8])
    unit = g.Div(x, g.Sqrt(g.ReduceSum(g.Mul(x, x), np.array([1]), keepdims=1)))
    g.output(g.Acos(g.MatMul(unit, g.Transpose(unit, perm=[1, 0]))), "y")
    return g.model()


@pytest.mark.parametrize(
    ("change", "right"),
    [
        (lambda y: y, True),
        (lambda y: y + 1e-6 * (np.arange(81).reshape(9, 9) == 1), False),
        (lambda y: y + 1e-3 * np.eye(9), False),
        (lambda y: np.where(np.arange(81).reshape(9, 9) == 1, np.nan, y), False),
    ],
)
def test_what_a_rounding_of_float64_moves_by_as_much_is_no_error(
    change: Callable[[np.ndarray], np.ndarray], right: bool
) -> None:
    x = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)
    graph, feeds, wide = angles(), [Feed("one", {"x": x})], x.astype(np.float64)
    unit = wide[:, ::-1] / np.linalg.norm(wide, axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        exact = np.arccos((unit[:, None, :] * unit[None, :, :]).sum(-1))
    own, single = evaluated(graph, feeds), evaluated(graph, feeds, wide=False)
    runs = RunOutputs({"float32": single, "float64": [{"y": change(exact)}]}, single, own)
    assert (verdict_on(graph, feeds, runs).status != FAIL) == right


# -- sums -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 16.0])
@pytest.mark.parametrize("count", [300, 65536])
def test_sums_taken_one_number_after_the_other_are_rounding(count: int, offset: float) -> None:
    """onnxruntime's average pools and TensorFlow's convolutions add in this way; PyTorch's pairwise sums are far more
    exact.
    """
    x = (np.random.default_rng(0).normal(size=(16, count)) + offset).astype(np.float32)
    exact = x.astype(np.float64).sum(1)
    in_turn, by_halves = np.add.accumulate(x, 1)[:, -1], x.sum(1)
    g = Graph()
    g.output(g.ReduceSum(g.input("x", F, ["n", "k"]), np.array([1]), keepdims=0), "y")
    feeds = [Feed("one", {"x": x})]
    for error, status in ((1, PASS), (60, FAIL)):
        target = [{"y": (exact + error * (in_turn - exact)).astype(np.float32)}]
        runs = RunOutputs({"float32": [{"y": by_halves}], "float64": [{"y": exact}]}, target, [{"y": exact}])
        found = verdict_on(g.model(), feeds, runs)
        assert found.status == status, found.reason


def test_a_factor_behind_a_long_sum_is_no_rounding() -> None:
    x = np.random.default_rng(0).normal(size=(2, 8, 64, 64)).astype(np.float32)
    g = Graph()
    value = g.input("x", F, [2, 8, 64, 64])
    g.output(g.InstanceNormalization(value, np.ones(8, np.float32), np.zeros(8, np.float32), epsilon=1e-5), "y")
    feeds = [Feed("one", {"x": x})]
    assert target_verdict(g.model(), feeds, lambda y: y * np.float32(1 + 2e-6)).status == PASS
    assert target_verdict(g.model(), feeds, lambda y: y * np.float32(1.001)).status == FAIL


@pytest.mark.parametrize("operator", ["LayerNormalization", "GroupNormalization"])
@pytest.mark.parametrize(("marked", "status"), [(True, PASS), (False, INCONCLUSIVE)])
def test_a_source_whose_variances_cancel_is_explained_by_rounding(operator: str, marked: bool, status: str) -> None:
    """A source far from its float64 run proves something only if the graph knows that its variance is E[x²] − E[x]²."""
    x = (np.random.default_rng(0).normal(size=(6, 4, 8)) + 300).astype(np.float32)
    given = x if operator == "LayerNormalization" else x.reshape(6, 2, 16)
    mean, square = (np.mean(a, -1, keepdims=True) for a in (given, given * given))
    quick = ((given - mean) / np.sqrt(np.maximum(square - mean * mean, 0) + 1e-5)).reshape(x.shape) + 1
    g = Graph()
    ones = np.ones(8 if operator == "LayerNormalization" else 4, np.float32)
    attributes = {"axis": -1} if operator == "LayerNormalization" else {"num_groups": 2}
    value = g.node(operator, [g.input("x", F, ["n", 4, 8]), ones, ones], {**attributes, "epsilon": 1e-5})
    if marked:
        value.producer().metadata_props[CANCELLING_KEY] = "E[x²] − E[x]²"
    g.output(value, "y")
    feeds = [Feed("one", {"x": x})]
    exact, single = evaluated(g.model(), feeds), evaluated(g.model(), feeds, wide=False)
    runs = RunOutputs({"float32": [{"y": quick}], "float64": exact}, single, exact)
    assert verdict_on(g.model(), feeds, runs).status == status


def test_sums_in_float64_have_the_rounding_of_float64() -> None:
    rng = np.random.default_rng(0)
    g, w = Graph(), rng.standard_normal((20000, 6))
    g.output(g.MatMul(g.input("x", D, ["n", 20000]), w), "y")
    feeds = [Feed("one", {"x": rng.standard_normal((5, 20000))})]
    terms = feeds[0].arrays["x"][:, :, None] * w
    forwards, backwards = (np.add.accumulate(t, 1)[:, -1] for t in (terms, terms[:, ::-1]))
    for error, status in ((0.0, PASS), (1.0, PASS), (400.0, FAIL)):
        target = [{"y": forwards + error * (backwards - forwards)}]
        runs = RunOutputs({"float32": [{"y": forwards}], "float64": [{"y": forwards}]}, target, [{"y": forwards}])
        assert verdict_on(g.model(), feeds, runs).status == status


def test_an_epsilon_that_a_format_rounds_to_float32_is_rounding() -> None:
    """ONNX files store attributes in float32, for any dtype of the model."""
    g = Graph()
    g.output(g.LayerNormalization(g.input("x", D, ["n", 8]), np.ones(8), np.zeros(8), axis=-1, epsilon=1e-5), "y")
    x = np.random.default_rng(0).standard_normal((5, 8))
    centred = x - x.mean(-1, keepdims=True)

    def normal(epsilon: float) -> Outputs:
        return [{"y": centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)}]

    exact, feeds = normal(1e-5), [Feed("one", {"x": x})]
    for epsilon, status in ((float(np.float32(1e-5)), PASS), (1.0001e-5, FAIL)):
        runs = RunOutputs({"float32": exact, "float64": exact}, normal(epsilon), exact)
        assert verdict_on(g.model(), feeds, runs).status == status


# -- NaN and infinities -----------------------------------------------------------------------------------------------

STEEP = [Feed("one", {"x": np.linspace(10, 22, 60, dtype=np.float32).reshape(6, 10)})]


def complement() -> ir.Model:
    """Return a graph of log(1 - sigmoid(x)), which is minus infinity beyond 17 in float32."""
    g = Graph()
    g.output(g.Log(g.Sub(np.float32(1), g.Sigmoid(g.input("x", F, ["n", 10])))), "y")
    return g.model()


def at_first_infinity(by: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(y: np.ndarray) -> np.ndarray:
        y.flat[int(np.flatnonzero(np.isinf(y))[0]) + by] = value
        return y

    return change


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda y: y, PASS),
        (at_first_infinity(-1, -np.inf), INCONCLUSIVE),
        (at_first_infinity(-1, np.nan), FAIL),
        (lambda y: np.full_like(y, np.nan), FAIL),
        (lambda y: y * np.where(np.arange(60).reshape(6, 10) < 10, 1.5, 1), FAIL),
    ],
)
def test_infinities_that_rounding_decides(change: Callable[[np.ndarray], np.ndarray], status: str) -> None:
    found = target_verdict(complement(), STEEP, change)
    assert found.status == status, found.reason
    if status == INCONCLUSIVE:
        assert "rounding decides which elements are NaN or infinite (1 are otherwise)" in found.reason


def test_infinities_where_no_rounding_makes_any_are_wrong() -> None:
    g = Graph()
    g.output(g.Log(g.Sub(g.input("x", F, ["n", 10]), np.float32(9))), "y")
    assert target_verdict(g.model(), STEEP, lambda y: np.where(STEEP[0].arrays["x"] > 15, -np.inf, y)).status == FAIL


# -- decisions --------------------------------------------------------------------------------------------------------

APART = np.array([[4, 1, 0], [4, 0, 1], [0, 4, 1], [1, 0, 4]], np.float32)
NEAR = np.array([[17.0, 17.5, 0], [17.5, 17.0, 0]], np.float32)
"""Logits of three experts that saturate: their sigmoids differ by less than a float32 rounding."""


def counts(picker: str = "TopK") -> ir.Model:
    """Return a graph that counts how many rows prefer each of three positions over the others."""
    g = Graph()
    scores = g.Sigmoid(g.input("x", F, ["n", 3]))
    if picker == "TopK":
        places = g.node("TopK", [scores, np.array([1])], outputs=2)[1]
    else:
        places = g.ArgMax(g.Transpose(scores, perm=[1, 0]), axis=0)
    ones = g.OneHot(places, np.int64(3), np.array([0, 1]))
    g.output(g.ReduceSum(g.Reshape(ones, np.array([-1, 3])), np.array([0]), keepdims=0), "y")
    return g.model()


@pytest.mark.parametrize("picker", ["TopK", "ArgMax"])
@pytest.mark.parametrize(
    ("rows", "right", "target", "status"),
    [
        ([APART, NEAR], [3, 2, 1], [4, 1, 1], PASS),
        ([APART, NEAR], [3, 2, 1], [2, 3, 1], PASS),
        ([APART, NEAR], [3, 2, 1], [5, 0, 1], FAIL),
        ([APART, NEAR], [3, 2, 1], [2, 2, 2], FAIL),
        ([APART], [2, 1, 1], [1, 2, 1], FAIL),
    ],
)
def test_counts_of_picked_places(
    picker: str, rows: list[np.ndarray], right: list[int], target: list[int], status: str
) -> None:
    """Three changed rows would have to be in the third row of the table, of which two are close; in the fourth
    none is.
    """
    feeds, exact = [Feed("one", {"x": np.concatenate(rows)})], [{"y": np.array(right)}]
    runs = RunOutputs({"float32": exact, "float64": exact}, [{"y": np.array(target)}], exact)
    found = verdict_on(counts(picker), feeds, runs)
    assert found.status == status, found.reason


@pytest.mark.parametrize(
    ("scores", "target", "status"),
    [
        ([3.0, 3.0 + 2**-21, 1.0], [[10, 11, 12]], PASS),
        ([3.0, 3.0 + 2**-21, 1.0], [[20, 21, 22]], PASS),
        ([3.0, 3.0 + 2**-21, 1.0], [[10, 21, 12]], PASS),
        ([3.0, 3.0 + 2**-21, 1.0], [[10, 99, 12]], INCONCLUSIVE),
        ([3.0, 2.0, 1.0], [[20, 21, 22]], FAIL),
    ],
)
def test_words_that_follow_from_a_pick(scores: list[float], target: list[list[int]], status: str) -> None:
    """In a beam search, if one pick is undecided, other words of the row may follow from it."""
    g = Graph()
    best = g.ArgMax(g.Mul(g.input("x", F, [1, 3]), np.float32(1.1)), axis=1, keepdims=0)
    g.output(g.Gather(np.array([[10, 11, 12], [20, 21, 22], [30, 31, 32]]), best, axis=0), "y")
    feeds = [Feed("one", {"x": np.array([scores], np.float32)})]
    exact = evaluated(g.model(), feeds)
    runs = RunOutputs({"float32": exact, "float64": exact}, [{"y": np.array(target)}], exact)
    assert verdict_on(g.model(), feeds, runs).status == status


def test_of_equal_scores_the_first_is_picked() -> None:
    """The exception is a runtime that is declared to pick any of them; the first and the last of the first row are
    copies.
    """
    g = Graph()
    scores = g.Sigmoid(g.input("x", F, ["n", 3]))
    g.output(g.ArgMax(scores, axis=1, keepdims=0), "y")
    feeds = [Feed("one", {"x": np.array([[5, 0, 5], [0, 6, 1]], np.float32)})]
    exact = [{"y": np.array([0, 1])}]
    runs = RunOutputs({"float32": exact, "float64": exact}, [{"y": np.array([2, 1])}], exact)
    declared = VerifyMethod(declared=[Difference(("ArgMax",), "any of equal elements", equal=True)])
    assert verdict_on(g.model(), feeds, runs, declared).status == PASS
    copies = Graph()
    x = copies.input("x", F, ["n", 2])
    doubled = copies.Sigmoid(x)
    copies.output(copies.ArgMax(copies.Concat(doubled, doubled, axis=1), axis=1, keepdims=0), "y")
    feeds = [Feed("one", {"x": np.array([[5, 0.3], [0.2, 6]], np.float32)})]
    runs = RunOutputs({"float32": exact, "float64": exact}, [{"y": np.array([2, 1])}], exact)
    assert verdict_on(copies.model(), feeds, runs).status == FAIL


QUANTIZED = [Feed("one", {"x": np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)})]


def averages(scale: float = 0.03) -> ir.Model:
    """Return averages of four steps, quantized with the same scale, times 0.3 and quantized again: many lie half
    way.
    """
    g = Graph()
    step, zero = g.const(np.float32(scale)), g.const(np.uint8(128))

    def steps(value: ir.Value) -> ir.Value:
        return g.DequantizeLinear(g.QuantizeLinear(value, step, zero), step, zero)

    mean = steps(g.AveragePool(steps(g.input("x", F, ["n", 3, 8, 8])), kernel_shape=[2, 2], strides=[2, 2]))
    g.output(g.QuantizeLinear(g.Mul(mean, np.float32(0.3)), step, zero), "y")
    return g.model()


def test_steps_that_rounding_decides_may_be_either() -> None:
    graph = averages()
    exact, single = evaluated(graph, QUANTIZED), evaluated(graph, QUANTIZED, wide=False)
    assert (exact[0]["y"] != single[0]["y"]).any(), "else there is nothing to explain"
    runs = RunOutputs({"float32": exact, "float64": exact}, single, exact)
    assert verdict_on(graph, QUANTIZED, runs).status == PASS
    for scale in (0.0303, 0.029):
        other = evaluated(averages(scale), QUANTIZED)
        assert (
            verdict_on(graph, QUANTIZED, RunOutputs({"float32": exact, "float64": exact}, other, exact)).status == FAIL
        )
    for by in (3, -3):
        wrong = [{"y": (single[0]["y"].astype(int) + by * (np.arange(96).reshape(2, 3, 4, 4) == 50)).astype(np.uint8)}]
        assert (
            verdict_on(graph, QUANTIZED, RunOutputs({"float32": exact, "float64": exact}, wrong, exact)).status == FAIL
        )


def layers_in_steps(*, integers: bool = False, read_wrong: bool = False, kernel: str = "") -> ir.Model:
    """Return two dense layers and Tanh, quantized, whose outputs are steps or numbers.

    read_wrong: permute the rows of the first weight. kernel: the additional error of an integer kernel, which adds a
    tenth of a step before it rounds, or subtracts it from the magnitude of a number.
    """
    g, rng = Graph(), np.random.default_rng(7)

    def steps(value: ir.Value, step: float, *, last: bool = False) -> ir.Value:
        scale, zero = np.float32(step), np.int8(3)
        if kernel == "up":
            value = g.Add(value, np.float32(0.1 * step))
        elif kernel == "towards 0":
            value = g.Sub(value, g.Mul(g.Sign(value), np.float32(0.1 * step)))
        quantized = g.QuantizeLinear(value, scale, zero)
        return quantized if last and integers else g.DequantizeLinear(quantized, scale, zero)

    first, second = (rng.normal(size=shape).astype(np.float32) for shape in ((20, 16), (16, 6)))
    x = g.DequantizeLinear(g.QuantizeLinear(g.input("x", F, ["n", 20]), np.float32(0.03), np.int8(0)),
                           np.float32(0.03), np.int8(0))  # fmt: skip
    hidden = steps(g.Tanh(steps(g.MatMul(x, first[::-1].copy() if read_wrong else first), 0.2)), 1 / 128)
    g.output(steps(g.MatMul(hidden, second), 0.1, last=True), "y")
    return g.model()


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("kernel", ["", "up", "towards 0"])
def test_kernels_that_compute_in_integers_are_off_by_part_of_a_step(integers: bool, kernel: str) -> None:
    """A source may round to other steps than the graph; a source that was read wrongly does not PASS."""
    graph = layers_in_steps(integers=integers)
    exact = evaluated(graph, FEEDS)
    single = evaluated(layers_in_steps(integers=integers, kernel=kernel), FEEDS, wide=False)
    target = evaluated(graph, FEEDS, wide=False)
    found = verdict_on(graph, FEEDS, RunOutputs({"float32": single, "float64": NONE}, target, exact), integers=True)
    assert found.status == PASS, found.reason
    misread = layers_in_steps(integers=integers, read_wrong=True)
    exact, target = evaluated(misread, FEEDS), evaluated(misread, FEEDS, wide=False)
    found = verdict_on(misread, FEEDS, RunOutputs({"float32": single, "float64": NONE}, target, exact), integers=True)
    assert found.status == INCONCLUSIVE
    assert "rounding does not explain" in found.reason


# -- how the runs are made --------------------------------------------------------------------------------------------


def test_numbers_of_a_dtype_are_no_matter_of_rounding() -> None:
    """Rules such as rounding halves to even must be followed exactly."""
    g = Graph()
    g.output(g.Round(g.Mul(g.input("x", F, ["n"]), np.float32(0.5))), "y")
    x = np.arange(64, dtype=np.float32)
    drawn = Estimates(g.model(), [Feed("one", {"x": x})]).drawn(0, "y")
    assert drawn is not None
    assert all(np.array_equal(draw, drawn.exact) for draw in drawn.runs)
    other = np.floor(x * 0.5 + 0.5)
    assert target_verdict(g.model(), [Feed("one", {"x": x})], lambda y: other).status == FAIL


@pytest.mark.parametrize(("dtype", "unit"), [(F, 2.0**-24), (ir.DataType.FLOAT16, 2.0**-11), (D, 2.0**-53)])
def test_errors_are_those_of_the_dtype(dtype: ir.DataType, unit: float) -> None:
    g = Graph()
    g.output(g.Div(g.input("x", dtype, ["n"]), g.const(np.asarray(3, dtype.numpy()))), "y")
    x = np.random.default_rng(0).uniform(1, 2, 4000).astype(dtype.numpy())
    drawn = Estimates(g.model(), [Feed("one", {"x": x})]).drawn(0, "y")
    assert drawn is not None
    moves = (np.stack(drawn.runs) - drawn.exact) / drawn.exact
    assert 0.2 * unit < np.sqrt(np.mean(moves**2)) / 8 < unit


def test_fewer_runs_do_where_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from convert.parity.explain import rounding
    from convert.reference import monte_carlo

    plain, made = monte_carlo.run_with_rounding, []

    def counted(*args: Any, **rest: Any) -> Any:
        made.append(args)
        if len(made) > 4:
            raise rounding.ResourceLimit("the time is over")
        return plain(*args, **rest)

    monkeypatch.setattr(monte_carlo, "run_with_rounding", counted)
    drawn = Estimates(chain(("Mul", 3.0)), FEEDS).drawn(0, "y")
    assert drawn is not None
    assert len(drawn.runs) == 3
    with pytest.raises(rounding.ResourceLimit):
        Estimates(chain(("Mul", 3.0)), FEEDS).drawn(0, "y")


def test_a_verdict_whose_estimate_takes_too_long_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    from convert.parity.explain import rounding
    from convert.reference import monte_carlo

    def late(*_: Any, **__: Any) -> Any:
        raise rounding.ResourceLimit("the time is over")

    monkeypatch.setattr(monte_carlo, "run_with_rounding", late)
    found = target_verdict(chain(("Mul", 3.0)), FEEDS, lambda y: y * np.float32(1.0001))
    assert found.status == INCONCLUSIVE
    assert "whether rounding explains it was not found out" in found.reason
    assert target_verdict(chain(("Mul", 3.0)), FEEDS, lambda y: y * np.float32(1.01)).status == FAIL


@pytest.mark.parametrize(("factor", "status"), [(1 + 2e-5, PASS), (1.05, INCONCLUSIVE), (40.0, FAIL)])
def test_agreement_proves_something_however_far_rounding_may_move_an_output(factor: float, status: str) -> None:
    """Kernels of Tanh may be off by a rounding of 1, which is all of a number near 1e-7; this source happens not
    to be.
    """
    g = Graph()
    g.output(g.Tanh(g.Mul(g.input("x", F, ["n", 20]), np.float32(1e-7))), "y")
    assert target_verdict(g.model(), FEEDS, lambda y: y * np.float32(factor)).status == status


# -- files ------------------------------------------------------------------------------------------------------------


def quantized_network(path: Path, seed: int, factor: float = 1.0) -> Path:
    """Return products and averages of steps as ONNX Runtime's quantizer writes them; factor: on one of the scales."""
    rng = np.random.default_rng(seed)
    weights: dict[str, Any] = {"w": rng.integers(-90, 90, (4, 3, 3, 3)).astype(np.int8), "i": np.int8(0)}
    weights |= {f"s{n}": np.float32(v) for n, v in enumerate((0.03, 0.005, 0.05, 0.045, 0.3 * factor, 0.3))}
    weights |= {f"z{n}": np.uint8(v) for n, v in enumerate((120, 30, 12, 50, 60))}
    contrib = "com.microsoft"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s0", "z0"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s0", "z0", "w", "s1", "i", "s2", "z1"], ["c"], pads=[1] * 4),
        helper.make_node("QLinearLeakyRelu", ["c", "s2", "z1", "s3", "z2"], ["l"], domain=contrib, alpha=0.2),
        helper.make_node("QLinearMul", ["c", "s2", "z1", "l", "s3", "z2", "s4", "z3"], ["m"], domain=contrib),
        helper.make_node("QLinearAveragePool", ["m", "s4", "z3", "s5", "z4"], ["a"], domain=contrib,
                         kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("DequantizeLinear", ["a", "s5", "z4"], ["y"]),
    ]  # fmt: skip
    tensors = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])
    ends = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None),
            helper.make_tensor_value_info("m", onnx.TensorProto.UINT8, None)]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [x], ends, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(contrib, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("seed", range(4))
def test_networks_of_quantized_operators(seed: int, tmp_path: Path) -> None:
    right = quantized_network(tmp_path / "right.onnx", seed)
    report = convert.convert(right, "onnx", tmp_path / "out.onnx")
    assert report.verdict is not None
    assert report.verdict.status != FAIL, report.verdict.reason
    wrong = convert.verify(right, quantized_network(tmp_path / "wrong.onnx", seed, 1.02)).verdict
    assert wrong is not None
    assert wrong.status == FAIL, wrong.reason


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("scale", [1.0, 1.01])
def test_a_loss_of_nothing_but_rounding_proves_nothing(scale: float, tmp_path: Path) -> None:
    """The divergence of a distribution from itself is 0 except for rounding; that from another distribution is not."""
    import torch
    from torch.nn import functional

    class Divergence(torch.nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.dense, self.scale = torch.nn.Linear(8, 5), scale

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.dense(x)
            return functional.kl_div(functional.log_softmax(y, -1), functional.softmax(y * self.scale, -1))

    for each in (1.0, scale):
        exported = torch.export.export(Divergence(each).eval(), (torch.ones(4, 8),))
        torch.export.save(exported, tmp_path / f"{each}.pt2")
    convert.convert(tmp_path / f"{scale}.pt2", "onnx", tmp_path / "m.onnx", verify=False)
    verdict = convert.verify(tmp_path / "1.0.pt2", tmp_path / "m.onnx").verdict
    assert verdict is not None
    assert verdict.status == (INCONCLUSIVE if scale == 1.0 else FAIL), verdict.reason


@pytest.mark.parametrize(
    ("others", "by", "explained"), [(0, 0, True), (1, 1, True), (3, 1, True), (4, 1, False), (1, 2, False)]
)
def test_some_steps_flip_in_no_run(others: int, by: int, explained: bool) -> None:
    """10 of 240 elements differ and flip in the perturbed runs; `others` differ by `by` steps and do not flip."""
    exact = np.random.default_rng(0).integers(-100, 100, (40, 6)).astype(np.int8)
    flipped, got = exact.copy(), exact.copy()
    flipped.flat[:40] += 1
    got.flat[:10] += 1
    got.flat[50 : 50 + others] += by
    for steps in (True, False):
        found = NoisyRuns(exact, [exact, flipped], steps=steps).explain(exact, got, exact, None)
        assert (found.reason == "") == (explained and (steps or not others))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("odd", ["got", "reference", "source"])
def test_another_shape_is_never_explained(dtype: type, odd: str) -> None:
    """This includes shapes that could be broadcast to the other's."""
    exact = np.ones((1, 2, 3), np.float64 if dtype is np.float32 else dtype)
    arrays = {
        name: np.ones((1, 1, 1) if name == odd else exact.shape, dtype) for name in ("reference", "got", "source")
    }
    found = NoisyRuns(exact, [exact, exact]).explain(arrays["reference"], arrays["got"], arrays["source"], None)
    assert found.reason.startswith("shape ")
