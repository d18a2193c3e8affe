"""The verdict on given runs: the side at fault, the reference, and the conditions on inputs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.evidence import RunOutputs, reference_outputs
from convert.parity.inputs.feeds import Feed
from convert.parity.method import VerifyMethod
from tests.support.verdict_on import verdict_on

X = np.random.default_rng(0).standard_normal((2, 3000))
NONE = Unsupported("not to be had")


def graph(*names: str, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3000])
    for name in names or ("y",):
        g.output(g.facts(g.Tanh(x), dtype, [3000]), name)
    return g.model()


def single(share: float = 0.0, scale: float = 1.0) -> list[dict[str, np.ndarray]]:
    """Return the output `y` of both feeds in float32, scaled, and off by a share of its size up and down."""
    signs = np.where(np.arange(3000) % 2, 1.0, -1.0)
    return [{"y": (scale * x + share * signs * np.sqrt(np.mean(x**2))).astype(np.float32)} for x in X]


def double(scale: float = 1.0) -> list[dict[str, np.ndarray]]:
    return [{"y": scale * x} for x in X]


FEEDS = [Feed("one", {"x": X[0]}), Feed("two", {"x": X[1]})]


@pytest.mark.parametrize(
    ("exact", "own", "target", "status", "at_fault"),
    [
        (double(), double(), single(1e-7), PASS, ""),
        (double(), double(1 + 1e-10), single(1e-7), PASS, ""),
        (double(), double(1 + 1e-6), single(1e-7), FAIL, "frontend"),  # within float32's rounding, but not a rounding
        (double(), double(), single(1e-4), FAIL, "backend"),
        (double(), double(1 + 1e-4), single(1e-4), FAIL, "frontend"),
        (double(), NONE, single(1e-4), FAIL, ""),
        (double(), NONE, single(1e-7), PASS, ""),
        (NONE, double(), single(1e-4), FAIL, ""),
        (NONE, double(), single(1e-7), PASS, ""),
        (NONE, NONE, single(), PASS, ""),
        (NONE, NONE, single(1e-4), FAIL, ""),
    ],
)
def test_who_is_at_fault(exact: object, own: object, target: list, status: str, at_fault: str) -> None:
    runs = RunOutputs({"float32": single(), "float64": exact}, target, own)  # type: ignore[dict-item, arg-type]
    found = verdict_on(graph(), FEEDS, runs, VerifyMethod())
    assert (found.status, found.at_fault) == (status, at_fault), found
    known = not isinstance(exact, Unsupported) and not isinstance(own, Unsupported)
    assert (found.outputs[0].twin is not None) == known
    names = ["the source in float64", "the shared graph in float64", "the source in float32 (no float64 to be had)"]
    at = 0 if not isinstance(exact, Unsupported) else 1 if not isinstance(own, Unsupported) else 2
    assert found.reference == reference_outputs(runs)[0] == names[at]


def test_a_graph_that_departs_on_one_feed_names_it() -> None:
    own = [{"y": X[0]}, {"y": X[1] * (1 + 1e-6)}]
    found = verdict_on(
        graph(), FEEDS, RunOutputs({"float32": single(), "float64": double()}, single(), own), VerifyMethod()
    )
    assert found.status == FAIL
    assert found.reason.startswith("y: in float64 the graph is ")
    assert found.reason.endswith("(bound 1e-09): not rounding, on two")


def run_one(model: ir.Model, source: list, target: list, exact: list | None = None, **method: float) -> object:
    runs = RunOutputs({"float32": source, "float64": exact or source}, target, exact or source)
    return verdict_on(model, FEEDS, runs, VerifyMethod(**method))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "source", "target", "at_fault", "reason"),
    [
        (graph("y", "z"), single(), single(), "frontend", "the source has 1 outputs, the graph 2"),
        (graph(dtype=ir.DataType.INT32), single(), single(), "frontend",
         "output 'y' is int32 in the graph and float32 in the source"),
        (graph(), single(), [{"z": o["y"]} for o in single()], "backend",
         "the outputs of the target are ['z'], those of the source ['y']"),
        (graph(), single(), [single()[0], {}], "backend",
         "the outputs of the target are [], those of the source ['y']"),
    ],
)  # fmt: skip
def test_contracts(model: ir.Model, source: list, target: list, at_fault: str, reason: str) -> None:
    found = run_one(model, source, target)
    assert (found.status, found.at_fault, found.reason) == (FAIL, at_fault, reason)  # type: ignore[attr-defined]


def test_outputs_are_paired_by_place_with_the_source_and_by_name_with_the_target() -> None:
    a, b = single()[0]["y"], single()[1]["y"]
    model = graph("y", "z")
    source = [{"Identity": a, "Identity_1": b}, {"Identity": 2 * a, "Identity_1": 2 * b}]
    target = [{"z": b, "y": a}, {"z": 2 * b, "y": 2 * a}]
    exact = [{k: v.astype(np.float64) for k, v in o.items()} for o in source]
    own = [{k: v.astype(np.float64) for k, v in o.items()} for o in target]
    found = verdict_on(model, FEEDS, RunOutputs({"float32": source, "float64": exact}, target, own), VerifyMethod())
    assert found.status == PASS
    assert [r.name for r in found.outputs] == ["y", "z"]
    swapped = [{"z": a, "y": b}, {"z": 2 * a, "y": 2 * b}]
    runs = RunOutputs({"float32": source, "float64": exact}, swapped, own)
    assert verdict_on(model, FEEDS, runs, VerifyMethod()).status == FAIL


def test_a_constant_output_beside_one_that_moves_is_a_property_of_the_model() -> None:
    model, one = graph("y", "z"), np.ones(3000, np.float32)
    outputs = [o | {"z": one} for o in single()]
    exact = [{k: v.astype(np.float64) for k, v in o.items()} for o in outputs]
    assert run_one(model, outputs, outputs, exact).status == PASS  # type: ignore[attr-defined]
    still = [{"y": one, "z": one}] * 2
    found = run_one(model, still, still, [{k: v.astype(np.float64) for k, v in o.items()} for o in still])
    assert found.status == INCONCLUSIVE  # type: ignore[attr-defined]
    assert found.reason == "y: the output has one value everywhere, 1.0, so agreement proves nothing"  # type: ignore


@pytest.mark.parametrize(("given", "tolerant"), [({}, False), ({"rtol": 0.0}, True), ({"atol": 1e-3}, True)])
def test_tolerances(given: dict[str, float], tolerant: bool) -> None:
    method = VerifyMethod(**given)  # type: ignore[arg-type]
    assert method.tolerant == tolerant
    wanted = PASS if given.get("atol") else FAIL
    runs = RunOutputs({"float32": single(), "float64": double()}, single(1e-4), double())
    assert verdict_on(graph(), FEEDS, runs, method).status == wanted


def draws(label: str, count: int) -> list[Feed]:
    return [Feed(f"{label}{i}", {"x": X[0]}, draw_of=label) for i in range(count)]
