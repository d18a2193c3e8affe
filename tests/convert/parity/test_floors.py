"""A noise floor has to be explained by rounding: what a misread source, or another float64 run, is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from convert.frontends.onnx import functions
from onnx import helper
from torch import nn
from torch.nn import functional

import convert
from convert.errors import ConvertError, Unsupported
from convert.graph import Graph
from convert.parity.floors import (
    MOST,
    distance,
    excuse_cancelled,
    excuse_order,
    explained_floors,
    hold_floors,
    without_foreign_float64,
)
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.parity.moves import moved_array
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, SetErrors, Verdict
from tests.support.onnx_support import array, info, model, read

NONE = Unsupported("no double")
RNG = np.random.default_rng(0)
FEEDS = [Feed(f"seed {i}", {"x": RNG.uniform(1, 2, (3, 40)).astype(np.float32)}) for i in range(2)]


def graph(*operators: tuple[str, float]) -> ir.Model:
    """x through operators with one number each."""
    nodes, name = [], "x"
    for i, (operator, _) in enumerate(operators):
        out = "y" if i == len(operators) - 1 else f"h{i}"
        nodes.append(helper.make_node(operator, [name, f"c{i}"], [out]))
        name = out
    weights = [array(f"c{i}", [[number]]) for i, (_, number) in enumerate(operators)]
    return read(model(nodes, [info("x", ["n", 40])], [info("y", ["n", 40])], weights))


def outputs(function: Any, dtype: type = np.float64, feeds: Sequence[Feed] = FEEDS) -> list[dict[str, np.ndarray]]:
    return [{"y": np.asarray(function(f.arrays["x"].astype(dtype)), dtype)} for f in feeds]


def triple(x: np.ndarray) -> np.ndarray:
    return x * x.dtype.type(3)


def steep(x: np.ndarray) -> np.ndarray:
    """All but a millionth of the number is taken away: a rounding of the input moves the output by 1e-2 or so."""
    return ((x + x.dtype.type(1e5)) - x.dtype.type(1e5)) * x.dtype.type(1e-3)


THREEFOLD = (("Mul", 3.0),)
STEEP = (("Add", 1e5), ("Sub", 1e5), ("Mul", 1e-3))


def held(
    made: ir.Model,
    single: Any,
    double: Any,
    graph_float64: Any,
    respond: Any = None,
    status: str = PASS,
    target: Any = None,
    steps: bool = False,
) -> Verdict:
    verdict = Verdict(status, outputs=[OutputVerdict("y")])
    runs = RunOutputs({"float32": single, "float64": double}, target or single, graph_float64)
    hold_floors(verdict, made, FEEDS, runs, respond or (lambda feeds: single), steps=steps)
    return verdict


@pytest.mark.parametrize("status", [PASS, INCONCLUSIVE])
def test_a_source_that_is_another_function_than_the_graph_was_read_wrong(status: str) -> None:
    """The graph is its own reference: such a source would look like a noisy one."""
    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    found = held(graph(*THREEFOLD), single, NONE, outputs(triple), status=status)
    assert (found.status, found.guilty, found.outputs[0].status) == (FAIL, "frontend", FAIL)
    assert "1.0e-02 away from the shared graph in float64" in found.reason


def test_a_failure_stays_what_it_is() -> None:
    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    assert held(graph(*THREEFOLD), single, NONE, outputs(triple), status=FAIL).guilty == ""


@pytest.mark.parametrize(("off", "status"), [(1e-4, PASS), (1.1e-3, FAIL)])
def test_only_floors_that_are_high_are_looked_at(off: float, status: str) -> None:
    def never(feeds: Sequence[Feed]) -> Any:
        raise AssertionError("a run that nothing calls for")

    single = outputs(lambda x: triple(x) * (1 + off), np.float32)
    respond = never if status == PASS else None
    assert held(graph(*THREEFOLD), single, NONE, outputs(triple), respond).status == status


def test_a_source_that_is_another_function_in_float64_proves_nothing() -> None:
    """Unless the target does the same as the source, to the rounding."""
    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    other = outputs(lambda x: triple(x) * x.dtype.type(1.005), np.float32)
    assert held(graph(*THREEFOLD), single, outputs(triple), outputs(triple)).status == PASS
    found = held(graph(*THREEFOLD), single, outputs(triple), outputs(triple), target=other)
    assert (found.status, found.guilty) == (INCONCLUSIVE, "")
    assert "away from the source in float64" in found.reason


def test_a_graph_that_quantizes_may_round_to_another_step() -> None:
    made = graph(*THREEFOLD)
    made.graph.node(0).op_type = "UnheardInteger"
    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    assert held(made, single, NONE, outputs(triple)).status == INCONCLUSIVE


def test_a_source_that_rounds_to_steps_while_it_runs_proves_nothing() -> None:
    """TensorFlow Lite's products of weights in 8 bits round what meets them, of which the graph shows nothing."""
    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    found = held(graph(*THREEFOLD), single, NONE, outputs(triple), steps=True)
    assert (found.status, found.guilty) == (INCONCLUSIVE, "")


def test_what_the_graph_itself_does_in_its_dtypes_is_rounding() -> None:
    """Even where the source does not move: its inputs are integers, say."""
    single = outputs(steep, np.float32)
    floor = distance(single[0]["y"], outputs(steep)[0]["y"])
    assert 1e-3 < floor < MOST
    assert held(graph(*STEEP), single, NONE, outputs(steep)).status == PASS


def test_what_the_source_does_on_inputs_near_by_is_rounding() -> None:
    """Even where the graph does not run in its own dtypes."""

    def difference(x: np.ndarray) -> np.ndarray:
        return x * x.dtype.type(1.1) - x.dtype.type(1.1e5)

    near = [Feed("near", {"x": (1e5 + FEEDS[0].arrays["x"]).astype(np.float32)})]
    single, double, made = outputs(difference, np.float32, near), outputs(difference, feeds=near), graph(*THREEFOLD)
    made.graph.node(0).op_type = "Unheard"
    runs = RunOutputs({"float32": single, "float64": NONE}, single, double)
    for answer, status in ((lambda feeds: single, FAIL), (lambda feeds: outputs(difference, np.float32, feeds), PASS)):
        verdict = Verdict(PASS, outputs=[OutputVerdict("y")])
        hold_floors(verdict, made, near, runs, answer)
        assert verdict.status == status


def test_a_source_that_does_not_run_on_inputs_near_by_explains_nothing() -> None:
    def fails(feeds: Sequence[Feed]) -> Any:
        raise ConvertError("no")

    single = outputs(lambda x: triple(x) * x.dtype.type(1.01), np.float32)
    assert held(graph(*THREEFOLD), single, NONE, outputs(triple), fails).status == FAIL


def test_a_floor_near_the_output_itself_is_never_a_pass() -> None:
    def chaotic(x: np.ndarray) -> np.ndarray:
        return ((x + x.dtype.type(1e7)) - x.dtype.type(1e7)) * x.dtype.type(1e-3)

    found = held(graph(("Add", 1e7), ("Sub", 1e7), ("Mul", 1e-3)), outputs(chaotic, np.float32), NONE, outputs(chaotic))
    assert (found.status, found.guilty) == (INCONCLUSIVE, "")
    assert "rounding alone moves the output" in found.reason


def test_explained_is_at_least_a_few_roundings_of_the_dtype() -> None:
    for dtype, least in ((np.float32, 2.0**-22), (np.float16, 2.0**-9)):
        single = [{"y": np.ones((3, 40), dtype)}]
        runs = RunOutputs({"float32": single, "float64": NONE}, single, NONE)
        feeds = [Feed("one", {"x": np.arange(3)})]
        assert explained_floors(graph(*THREEFOLD), feeds, runs, lambda feeds: []) == {0: least}


def test_weights_are_moved_where_inputs_are_integers() -> None:
    """x + 1e5 - 1e5 is exact on small integers, and a unit in the last place of 1e5 is 2**-7."""
    g = Graph()
    x = g.Cast(g.input("x", ir.DataType.INT64, [40]), to=ir.DataType.FLOAT)
    large = [g.initializer(name, ir.Tensor(np.full(40, 1e5, np.float32))) for name in ("a", "b")]
    g.output(g.Sub(g.Add(x, large[0]), large[1]), "y")
    numbers = np.arange(1, 41)
    exact = [{"y": numbers.astype(np.float64)}]
    runs = RunOutputs({"float32": [{"y": numbers.astype(np.float32)}], "float64": NONE}, exact, exact)
    found = explained_floors(g.model(), [Feed("one", {"x": numbers})], runs, lambda feeds: [])
    unit = 2.0**-7 / np.sqrt(np.mean(numbers**2.0))
    assert 0.3 * unit < found[0] < 2.1 * unit


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_move_to_their_neighbors(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    numbers = np.array([1.5, -1.5, 0.0, np.inf, -np.inf, np.nan, *RNG.normal(size=500)]).astype(dtype)
    moved = moved_array(numbers, np.random.default_rng(1))
    assert moved.dtype == dtype
    wide, other = numbers.astype(np.float64), moved.astype(np.float64)
    assert np.array_equal(wide[2:6], other[2:6], equal_nan=True)
    unit = float(ml_dtypes.finfo(dtype).eps)
    steps = np.delete(np.abs(other - wide) / np.abs(np.where(wide == 0, 1, wide)), [2, 3, 4, 5])
    assert (steps > 0.24 * unit).all()
    assert (steps <= unit).all()
    assert 0.3 < np.mean(other > wide) < 0.7
    largest = np.array([ml_dtypes.finfo(dtype).max] * 20, dtype)
    assert np.isfinite(moved_array(largest, np.random.default_rng(1)).astype(np.float64)).all()


def test_integers_and_what_is_empty_do_not_move() -> None:
    for same in (np.arange(5), np.array([True]), np.zeros((0, 2), np.float32)):
        assert moved_array(same, RNG) is same


def test_distances_leave_out_what_is_not_finite_on_either_side() -> None:
    a, b = np.array([1.0, np.nan, 3.0, np.inf]), np.array([1.0, 2.0, 4.0, 5.0])
    assert distance(a, b) == pytest.approx(np.sqrt(0.5) / np.sqrt(8.5))
    assert distance(a, b[:2]) == np.inf
    assert distance(np.ones(2), np.zeros(2)) == 1.0


def kept(single: Any, double: Any, graph_float64: Any) -> Any:
    runs = RunOutputs({"float32": single, "float64": double}, single, graph_float64)
    return without_foreign_float64(graph(*THREEFOLD), runs).source["float64"]


def test_a_float64_run_of_another_function_is_set_aside() -> None:
    """A program that asks for its dtype; an evaluator that does not know what an operator meant at an old opset."""
    single, right, wrong = outputs(triple, np.float32), outputs(triple), outputs(lambda x: x * 3.1)
    assert isinstance(kept(single, wrong, right), Unsupported)
    assert kept(single, right, wrong) is right  # the graph is what is wrong
    assert kept(single, right, right) is right
    assert kept(outputs(lambda x: x * 3.05, np.float32), wrong, right) is wrong  # nobody can tell
    assert kept(single, outputs(lambda x: x * (3 + 1e-8)), right)  # nor below the rounding of float32
    assert not isinstance(kept(single, outputs(lambda x: x * (3 + 1e-6)), right), Unsupported)
    assert kept(single, wrong, NONE) is wrong
    assert kept(single, NONE, right) is NONE


def test_integers_do_not_set_a_float64_run_aside() -> None:
    single = [{"y": np.arange(4)}]
    double = [{"y": np.arange(4) + 1}]
    assert kept(single, double, single) is double


def leaky(default: float) -> onnx.ModelProto:
    """A function whose slope comes from its attribute's default."""
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT))
    body = helper.make_function("mine", "Leaky", ["a"], ["b"], [inner], [helper.make_opsetid("", 20)], [],
                                [helper.make_attribute("alpha", default)])  # fmt: skip
    nodes = [helper.make_node("Leaky", ["x"], ["y"], domain="mine")]
    return model(nodes, [info("x", ["n", 8])], [info("y", ["n", 8])], domains=["mine"], functions=[body], ir_version=10)


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize("evaluator", [True, False], ids=["with the evaluator", "without"])
def test_a_reader_that_drops_an_attribute_is_found_out(
    evaluator: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the file in float64; where nothing evaluates that, by a floor that rounding does not explain."""
    from convert.reference import onnx_file

    proto, wrong, right = leaky(0.3), tmp_path / "wrong.onnx", tmp_path / "right.onnx"
    if not evaluator:
        monkeypatch.setattr(onnx_file, "open_model", lambda thing: 1 / 0)
    convert.convert(proto, "onnx", right, verify=False)
    with monkeypatch.context() as patched:
        patched.setattr(functions, "_fill_defaults", lambda nodes, bodies: None)
        convert.convert(proto, "onnx", wrong, verify=False)
        found = convert.verify(proto, wrong).verdict
    assert found is not None
    assert (found.status, found.guilty) == (FAIL, "frontend")
    clean = convert.verify(proto, right).verdict
    assert clean is not None
    assert clean.status == PASS
    assert clean.reference == ("the source in float64" if evaluator else "the shared graph in float64")


# -- outputs of which nothing is left ---------------------------------------------------------------------------------


class Divergence(nn.Module):
    """Of a distribution from itself: 0 but for rounding; `scale` tells the second from the first."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 5)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dense(x)
        return functional.kl_div(functional.log_softmax(y, -1), functional.softmax(y * self.scale, -1))


@pytest.fixture(scope="module")
def divergences(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    folder = tmp_path_factory.mktemp("divergences")
    made = {}
    for scale in (1.0, 1.01):
        torch.manual_seed(0)
        made[scale] = folder / f"{scale}.pt2"
        torch.export.save(torch.export.export(Divergence(scale).eval(), (torch.ones(4, 8),)), made[scale])
    return made


@pytest.mark.slow
def test_a_loss_of_nothing_but_rounding_is_no_failure(divergences: dict[float, Path], tmp_path: Path) -> None:
    report = convert.convert(divergences[1.0], "onnx", tmp_path / "m.onnx")
    assert report.verdict is not None
    assert report.verdict.status == INCONCLUSIVE
    assert "nothing but rounding" in report.verdict.reason or "rounding alone" in report.verdict.reason


@pytest.mark.slow
def test_another_loss_is_a_failure(divergences: dict[float, Path], tmp_path: Path) -> None:
    convert.convert(divergences[1.01], "onnx", tmp_path / "m.onnx", verify=False)
    verdict = convert.verify(divergences[1.0], tmp_path / "m.onnx").verdict
    assert verdict is not None
    assert verdict.status == FAIL


def excused(error: float, twin: float | None, made: ir.Model = graph(*STEEP)) -> Verdict:  # noqa: B008
    """What becomes of a failed output of `made`, which has this error and this distance in float64."""
    verdict = Verdict(FAIL, outputs=[OutputVerdict("y", FAIL, "why", error=error, twin=twin)], guilty="backend")
    exact = outputs(lambda x: x * 1e-30)  # next to nothing of what rounding leaves
    target = outputs(lambda x: x * np.float32(1e-30), np.float32)
    runs = RunOutputs({"float32": outputs(steep, np.float32), "float64": exact}, target, exact)
    excuse_cancelled(verdict, made, FEEDS, runs, lambda feeds: outputs(steep, np.float32, feeds))
    return verdict


@pytest.mark.parametrize(("error", "twin", "status"), [(1.0, None, INCONCLUSIVE), (1.0, 0.0, INCONCLUSIVE),
                                                       (1e40, 0.0, FAIL), (1.0, 1e35, FAIL)])  # fmt: skip
def test_what_rounding_leaves_excuses_as_much(error: float, twin: float | None, status: str) -> None:
    verdict = excused(error, twin)
    assert (verdict.status, verdict.outputs[0].status) == (status, status)
    assert verdict.guilty == ("" if status == INCONCLUSIVE else "backend")


def test_another_dtype_or_shape_is_not_excused() -> None:
    for target in (outputs(steep), [{"y": o["y"][:1]} for o in outputs(steep, np.float32)]):
        verdict = Verdict(FAIL, outputs=[OutputVerdict("y", FAIL, "why", error=1.0, twin=0.0)], guilty="backend")
        exact = outputs(lambda x: x * 1e-30)
        runs = RunOutputs({"float32": outputs(steep, np.float32), "float64": exact}, target, exact)
        excuse_cancelled(verdict, graph(*STEEP), FEEDS, runs, lambda feeds: outputs(steep, np.float32, feeds))
        excuse_order(verdict, graph(*STEEP), FEEDS, runs)
        assert (verdict.status, verdict.guilty) == (FAIL, "backend")


def test_an_output_of_its_own_size_is_not_excused() -> None:
    verdict = Verdict(FAIL, outputs=[OutputVerdict("y", FAIL, "why", error=1e-3, twin=0.0)], guilty="backend")
    exact = outputs(triple)
    runs = RunOutputs({"float32": outputs(triple, np.float32), "float64": exact}, exact, exact)
    excuse_cancelled(verdict, graph(*THREEFOLD), FEEDS, runs, lambda feeds: outputs(triple, np.float32, feeds))
    assert verdict.status == FAIL


@pytest.mark.parametrize(
    ("error", "twin", "guilty", "before", "after"),
    [
        (1e-9, 0.0, "backend", FAIL, INCONCLUSIVE),
        (0.5, 0.0, "backend", FAIL, FAIL),
        (1e-9, 1e-3, "backend", FAIL, FAIL),
        (1e-9, None, "backend", FAIL, FAIL),
        (1e-9, 0.0, "frontend", FAIL, FAIL),
        (1e-9, 0.0, "backend", PASS, PASS),
    ],
)
def test_sums_number_after_number_excuse_as_much(
    error: float, twin: float | None, guilty: str, before: str, after: str
) -> None:
    g = Graph()
    g.output(g.ReduceSum(g.input("x", ir.DataType.FLOAT, ("n", 40)), [1], keepdims=1), "y")
    verdict = Verdict(before, outputs=[OutputVerdict("y", FAIL, "why", error=error, twin=twin)], guilty=guilty)
    verdict.outputs[0].sets = [SetErrors(0.0, 1.0, 0.0), SetErrors(error, 1e-12, error)]
    exact = outputs(lambda x: x.sum(1, keepdims=True))
    single = outputs(lambda x: x.sum(1, keepdims=True), np.float32)
    excuse_order(verdict, g.model(), FEEDS, RunOutputs({"float32": single, "float64": exact}, single, exact))
    assert (verdict.status, verdict.outputs[0].status) == (after, after if before == FAIL else FAIL)
