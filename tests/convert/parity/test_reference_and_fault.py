"""Which of four runs is the reference, and which side is at fault, on planted outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from convert.errors import Unsupported
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from tests.support.onnx_support import info, model, read
from tests.support.verdict_on import verdict_on

RNG = np.random.default_rng(5)
FEEDS = [Feed(label, {"x": RNG.normal(size=(3, 100)).astype(np.float32)}) for label in ("first", "second")]
NONE = Unsupported("no double")
EXACT = {"a": [f.arrays["x"] * 3.0 for f in FEEDS], "b": [f.arrays["x"] - 1.0 for f in FEEDS]}


def graph(kind: int = TensorProto.FLOAT) -> ir.Model:
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])]
    return read(model(nodes, [info("x", ["n", 100], kind)], [info(n, ["n", 100], kind) for n in "ab"]))


def double(off: float = 0.0, feed: int = 1) -> list[dict[str, np.ndarray]]:
    """Return outputs in float64; one element of `a` on one feed is off by this many root mean squares."""
    made = [{n: EXACT[n][i].astype(np.float64) for n in "ab"} for i in range(2)]
    made[feed]["a"][1, 7] += off * np.sqrt(np.mean(made[feed]["a"] ** 2))
    return made


def single(off: float = 0.0, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Return outputs in float32 with a rounding error each; those of `a` are too large by a share."""
    rng = np.random.default_rng(seed)
    made = [{n: EXACT[n][i] * (1 + 2.0**-23 * rng.standard_normal((3, 100))) for n in "ab"} for i in range(2)]
    return [{"a": (o["a"] * (1 + off)).astype(np.float32), "b": o["b"].astype(np.float32)} for o in made]


def judged(source: Any, exact: Any, target: Any, own: Any, method: VerifyMethod | None = None) -> Verdict:
    runs = RunOutputs({"float32": source, "float64": exact}, target, own)
    return verdict_on(graph(), FEEDS, runs, method or VerifyMethod())


@pytest.mark.parametrize("feed", [0, 1])
@pytest.mark.parametrize(("off", "status"), [(0.9e-9, PASS), (1.1e-9, FAIL)])
def test_the_graph_in_float64_is_held_to_the_source_in_float64(off: float, status: str, feed: int) -> None:
    found = judged(single(), double(), single(seed=1), double(off, feed))
    assert found.status == status
    assert found.reference == "the source in float64"
    assert found.outputs[0].twin == pytest.approx(off, rel=1e-3)
    assert found.outputs[1].twin == 0.0
    assert found.at_fault == ("frontend" if status == FAIL else "")
    if status == FAIL:
        assert found.reason.startswith("a: in float64 the graph is 1.1e-09 away from the source")
        assert found.reason.endswith(f"on {FEEDS[feed].label}")
    assert found.outputs[1].status == PASS


def test_without_a_source_in_float64_the_graph_is_the_reference_and_not_compared_with_itself() -> None:
    found = judged(single(), NONE, single(seed=1), double(1e-3))
    assert found.reference == "the shared graph in float64"
    assert [row.twin for row in found.outputs] == [None, None]
    assert judged(single(), NONE, single(seed=1), double()).status == PASS


def test_without_any_float64_the_source_as_deployed_is_the_reference() -> None:
    found = judged(single(), NONE, single(), NONE)
    assert (found.status, found.reference) == (PASS, "the source in float32 (no float64 to be had)")
    assert judged(single(), NONE, single(1e-3), NONE).status == FAIL


def test_without_the_graph_in_float64_nobody_is_blamed() -> None:
    found = judged(single(), double(), single(1e-3), NONE)
    assert (found.status, found.at_fault, found.outputs[0].twin) == (FAIL, "", None)


@pytest.mark.parametrize(
    ("target", "own", "at_fault"),
    [(1e-3, 0.0, "backend"), (1e-3, 1e-3, "frontend"), (1e-3, 0.9e-9, "backend"), (1e-3, 1.1e-9, "frontend")],
)
def test_who_is_at_fault(target: float, own: float, at_fault: str) -> None:
    found = judged(single(), double(), single(target), double(own))
    assert (found.status, found.at_fault) == (FAIL, at_fault)
    assert found.reason.startswith("a: error 1.00e-03 is")
    assert [row.status for row in found.outputs] == [FAIL, PASS]


@pytest.mark.parametrize(("off", "status"), [(3e-6, PASS), (5e-6, INCONCLUSIVE)])
def test_a_source_far_from_a_graph_that_is_its_own_reference_is_doubted(off: float, status: str) -> None:
    """16 times four roundings is 3.8e-6: a target that is this exact does not make the source suspicious."""
    target = [{n: v.astype(np.float32) for n, v in o.items()} for o in double()]
    assert judged(single(off), NONE, target, double()).status == status
    assert judged(single(off), double(), target, double()).status == PASS
    assert judged(single(off), NONE, target, double(), VerifyMethod(rtol=1e-4)).status == PASS


def renamed(outputs: Sequence[dict[str, Any]], **names: str) -> list[dict[str, Any]]:
    return [{names.get(n, n): v for n, v in o.items()} for o in outputs]


@pytest.mark.parametrize(
    ("source", "target", "at_fault", "text"),
    [
        ([{"a": o["a"]} for o in single()], single(), "frontend", "the source has 1 outputs, the graph 2"),
        ([single()[0], {"a": single()[1]["a"]}], single(), "frontend", "the source has 1 outputs, the graph 2"),
        ([{"a": single()[0]["a"]}, single()[1] | {"c": single()[1]["a"]}], single(), "frontend",
         "the source has 1 outputs, the graph 2"),
        (double(), single(), "frontend", "output 'a' is float32 in the graph and float64 in the source"),
        (single(), renamed(single(), b="c"), "backend", r"the outputs of the target are ['a', 'c']"),
        (single(), [single()[0], {"a": single()[1]["a"]}], "backend", r"the outputs of the target are ['a']"),
    ],
    ids=["fewer", "fewer once", "fewer, then more", "dtype", "another name", "lacking once"],
)  # fmt: skip
def test_the_contract_comes_first(source: Any, target: Any, at_fault: str, text: str) -> None:
    found = judged(source, double(), target, double())
    assert (found.status, found.at_fault, found.outputs) == (FAIL, at_fault, [])
    assert text in found.reason


def test_names_of_the_source_are_its_own() -> None:
    """The source's outputs are matched by position, the target's by name."""
    target = [{"b": o["b"], "a": o["a"]} for o in single(seed=1)]
    assert judged(renamed(single(), a="y", b="x"), renamed(double(), a="p", b="q"), target, double()).status == PASS


def constant(outputs: Sequence[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{n: np.full_like(v, 2.5) if n in names else v for n, v in o.items()} for o in outputs]


def test_one_constant_output_proves_nothing_about_itself_only() -> None:
    one = judged(*(constant(o, "b") for o in (single(), double(), single(seed=1), double())))
    assert (one.status, one.outputs[1].status) == (PASS, INCONCLUSIVE)
    both = judged(*(constant(o, "a", "b") for o in (single(), double(), single(seed=1), double())))
    assert both.status == INCONCLUSIVE
    assert both.reason == "a: the output has one value everywhere, 2.5, so agreement proves nothing"


def test_an_output_whose_size_rounding_decides_proves_nothing_beside_others() -> None:
    shorter = [{"a": o["a"], "b": o["b"][:2]} for o in single()]
    found = judged(shorter, double(), shorter, NONE)
    assert found.status == INCONCLUSIVE
    assert "rounding decides how many elements there are" in found.reason


def test_integers_that_tolerances_let_through_are_not_asked_for_ties() -> None:
    whole = [{n: i + np.arange(300).reshape(3, 100) for n in "ab"} for i, _ in enumerate(FEEDS)]
    other = [{n: v + 1 for n, v in o.items()} for o in whole]
    runs = RunOutputs({"float32": whole, "float64": whole}, other, whole)
    made = graph(TensorProto.INT64)
    feeds = [Feed(f.label, {"x": np.zeros((3, 100), np.int64)}) for f in FEEDS]
    assert verdict_on(made, feeds, runs, VerifyMethod(atol=1.0)).status == PASS
    assert verdict_on(made, feeds, runs, VerifyMethod(atol=0.5)).status == FAIL


def test_the_worst_elements_are_told_with_the_inputs_they_came_from() -> None:
    target = single()
    target[1]["a"][2, 3] += 1.0
    found = judged(single(), double(), target, double())
    worst = found.outputs[0].elements[0]
    assert (worst.index, worst.feed) == ((2, 3), "second")
    assert found.feeds == ["first", "second"]
