"""A whole verification whose source and target are Python functions: the runs, the comparison, the side at fault."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity import verify as verification
from convert.parity.locate import profile
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts
from convert.parity.runs import source_runs
from convert.parity.verify import unavailable_reason, verify
from convert.processes.run_here import Limits
from convert.request import stored as stored_as
from convert.request.given_arrays import load_inputs
from convert.request.options import Options
from convert.request.source import Source
from tests.support.sides import SOURCE, TARGET, Arrays, F, Function, Side, Sides, graph, raises, refuses, scaled


def sides(
    monkeypatch: pytest.MonkeyPatch, source: Side | None = None, target: Side | None = None, **more: Any
) -> tuple[Verdict, Side, Side, Sides]:
    """Return the verdict, both sides, and their recorded calls; `of_target` are the options of the target."""
    source = source or Side(float32=scaled(2.0), float64=scaled(2.0, np.float64))
    target = target or Side(float32=scaled(2.0))
    both = Sides(monkeypatch, source, target)
    if "of_target" in more:
        more["target"] = more.pop("of_target")
    verdict = verify(SOURCE, TARGET, more.pop("graph", None) or graph(), more.pop("options", Options()),
                     VerifyMethod(**more) if more else None)  # fmt: skip
    return verdict, source, target, both


def test_both_sides_run_on_the_same_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, source, target, both = sides(monkeypatch)
    assert (verdict.status, verdict.notes, verdict.divergence, verdict.profile) == (PASS, [], None, None)
    assert (verdict.stored, verdict.reference) == ("", "the source in float64")
    # Three seeds, large numbers, numbers far from zero, many rows, the special values; no smaller sizes, because one
    # seed has a batch of one.
    assert [f.partition(",")[0] for f in verdict.feeds[:3]] == ["seed 0", "seed 1", "seed 2"]
    assert [f.partition(" (")[0] for f in verdict.feeds[3:]] == [
        "seed 5, uniform, n=1, 2048 times as large, the first channel 64 times more",
        "seed 7, uniform, n=2, 1000 added",
        "seed 4, normal, n=65, the last rows 16 times as large",
        "special values",
    ]  # fmt: skip
    assert len(source.given) == len(target.given) == 7
    assert all(np.array_equal(a["x"], b["x"], equal_nan=True) for a, b in zip(source.given, target.given, strict=True))
    assert (source.stopped, target.stopped) == (1, 1)
    assert both.located == []


@pytest.mark.parametrize(("seeds", "count"), [(1, 1), (2, 2), (3, 7), (4, 8)])
def test_three_seeds_or_more_are_followed_by_the_edges(seeds: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(sides(monkeypatch, seeds=seeds)[1].given) == count


def test_a_target_that_is_off_is_located_on_the_worst_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(arrays: Arrays) -> dict[str, np.ndarray]:
        return {"y": scaled(2.0)(arrays)["y"] + np.float32(0.5 if arrays["x"].shape[0] == 3 else 0.1)}

    verdict, source, _, both = sides(monkeypatch, target=Side(float32=wrong), of_target=Options(model="m"))
    assert (verdict.status, verdict.at_fault, verdict.divergence) == (FAIL, "backend", "in the target")
    ((_, artefact, feed, options, ends),) = both.located
    assert (artefact, options.model, feed.arrays["x"].shape) == (TARGET, "m", (3, 6))
    assert ends.inputs == {"x": "x"}
    # Each side runs twice more on those, to see whether its outputs repeat.
    assert [a["x"].shape[0] for a in source.given[-2:]] == [3, 3]
    assert source.stopped == 2


def test_a_graph_that_is_off_is_located_in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _, _, both = sides(monkeypatch, graph=graph(2.001))
    assert (verdict.status, verdict.at_fault, verdict.divergence) == (FAIL, "frontend", "in the source")
    ((_, artefact, _, distance, _, limits),) = both.located
    assert artefact is SOURCE
    assert limits == Limits()
    # The largest element of one set, relative to its root mean square: a tanh is at most 1.
    assert distance == verdict.outputs[0].twin
    assert 5e-4 < distance < 2e-3


def test_a_side_that_does_not_repeat_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1, 100))
    moody = Side(float32=lambda arrays: {"y": scaled(2.0 + next(numbers))(arrays)["y"]})
    verdict = sides(monkeypatch, target=moody)[0]
    assert verdict.notes == [
        "the target gives other numbers for 'y' each time that it is run on the same inputs: it draws some"
    ]
    numbers = iter(range(1, 100))
    moody.functions["float64"] = scaled(2.0, np.float64)
    assert sides(monkeypatch, source=moody)[0].notes[-1].startswith("the source gives other numbers for 'y'")


def test_a_target_that_does_not_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = sides(monkeypatch, target=Side(float32=raises(BadInput("no such file"))))[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert verdict.reason == "the target does not run: no such file"
    assert len(verdict.feeds) == 7
    with pytest.raises(BadInput, match="no such file"):  # no side is at fault, because convert did not make the target
        sides(monkeypatch, target=Side(float32=raises(BadInput("no such file"))), theirs=True)


def test_a_graph_that_does_not_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    made = graph(dims=(3, 6))
    # A target with a shape of its own: the executor cannot multiply [3, 6] by [4].
    made.graph.node(1).replace_input_with(
        1, ir.Value(name="c", const_value=ir.Tensor(np.ones(4, np.float32), name="c"))
    )
    made.graph.register_initializer(made.graph.node(1).inputs[1])
    verdict = sides(monkeypatch, graph=made)[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")
    assert verdict.reason.startswith("the shared graph does not run: ")


def test_a_graph_that_contradicts_itself_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    g.output(g.Gather(g.input("x", ir.DataType.FLOAT, [3, 6]), np.array([99]), axis=1), "y")
    verdict = sides(monkeypatch, graph=g.model())[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "")
    assert verdict.reason.startswith("the model contradicts itself, at Gather")


def test_a_source_that_does_not_run_is_an_error_where_inputs_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Side(float32=raises(BadInput("it fails")), float64=raises(BadInput("it fails")))
    with pytest.raises(BadInput, match=r"it fails \(the source of the comparison\)"):
        sides(monkeypatch, source=source, arrays={"x": np.zeros((2, 6), np.float32)})
    assert source.stopped == 1


def test_other_sizes_are_searched_for_where_the_source_refuses_those(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_seven(dtype: type) -> Function:
        def function(arrays: Arrays) -> dict[str, np.ndarray]:
            if arrays["x"].shape[0] != 7:
                raise BadInput("seven")
            return scaled(2.0, dtype)(arrays)

        return function

    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(source_runs, "search_sizes", lambda *given: asked.append(given) or [{"n": 7}])
    source = Side(float32=only_seven(np.float32), float64=only_seven(np.float64))
    verdict = sides(monkeypatch, source=source, seeds=4)[0]
    assert verdict.status == PASS
    drawn = [f"seed {i}, {('normal', 'uniform')[i % 2]}, n=7" for i in range(4)]
    assert verdict.feeds == [*drawn[:2], f"{drawn[2]}, the last row negative", drawn[3]]
    assert verdict.notes[0].startswith("the source does not run at the sizes that are usual: compared at n=7")
    ((_, _, error, _, _, count, _),) = asked
    assert (error.message, count) == ("seven (the source of the comparison)", 4)


def test_what_the_source_refuses_at_the_edge_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Side(float32=refuses(None, scaled(2.0)), float64=refuses(None, scaled(2.0, np.float64)))
    verdict = sides(monkeypatch, source=source)[0]
    assert (verdict.status, len(verdict.feeds), verdict.notes) == (PASS, 3, [])


def test_special_values_that_only_the_target_refuses_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _, target, _ = sides(monkeypatch, target=Side(float32=refuses(None, scaled(2.0))))
    assert (verdict.status, len(verdict.feeds)) == (PASS, 6)
    assert verdict.notes == ["special values are not verified: the source takes them, and the target does not"]
    assert target.stopped == 2


def test_a_smallest_size_that_only_the_target_refuses_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    made = graph(dims=("n", "h"))
    verdict = sides(monkeypatch, graph=made)[0]
    assert verdict.feeds[-1].partition(" (")[0] == "special values"
    assert verdict.feeds[-2].endswith("h=1")
    verdict = sides(monkeypatch, target=Side(float32=refuses(1, scaled(2.0))), graph=made)[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert verdict.reason.startswith("the target does not run: the source takes seed 3, ")
    assert verdict.reason.endswith("h=1, and this does not")


def test_where_the_source_has_no_float64_on_the_last_the_graph_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Side(float32=scaled(2.0), float64=refuses(1, scaled(2.0, np.float64)))
    verdict = sides(monkeypatch, source=source, graph=graph(dims=("n", "h")))[0]
    assert (verdict.status, len(verdict.feeds)) == (PASS, 9)
    assert verdict.notes[0].endswith("n=1, h=1: there the graph is compared with itself")
    no_double = Side(float32=scaled(2.0), float64=raises(Unsupported("no double")))
    assert sides(monkeypatch, source=no_double)[0].reference == "the shared graph in float64"


def test_a_lack_of_kernels_on_both_sides_is_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = Side(float32=raises(Unsupported("no kernel")), float64=raises(Unsupported("no kernel")))
    verdict = sides(monkeypatch, source=lacking, target=Side(float32=raises(Unsupported("nor here"))))[0]
    assert (verdict.status, verdict.reason) == (FAIL, "the target does not run: nor here")
    with pytest.raises(Unsupported, match="no kernel"):
        sides(monkeypatch, source=lacking)


def test_a_layout_moves_what_goes_in_and_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = graph(dims=("n", 3, 4, 5))

    def last(arrays: Arrays) -> dict[str, np.ndarray]:
        assert arrays["x"].shape[1:] == (4, 5, 3)
        return scaled(2.0)(arrays)

    verdict = sides(monkeypatch, target=Side(float32=last), graph=made, options=Options(layout="nhwc"))[0]
    assert verdict.status == PASS
    wrong = Side(float32=lambda a: {"y": last(a)["y"] + np.float32(1)})
    verdict, _, _, both = sides(monkeypatch, target=wrong, graph=made, options=Options(layout="nhwc"), profile=True)
    assert verdict.divergence == "the target has another layout than the graph: without --layout the place is found"
    assert (verdict.profile, both.located) == (None, [])
    kept = Side(float32=lambda a: {"y": last(a)["y"].transpose(0, 3, 1, 2)})
    assert "shape" in sides(monkeypatch, target=kept, graph=made, options=Options(layout="nhwc"))[0].reason


def test_counterparts_have_their_own_names_dtypes_and_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.DOUBLE, ["n", 6])
    g.output(g.Tanh(x), "y")
    pairs = Counterparts({"x": "p"}, {"y": "q"}, ["r", "q"], [1], {"x": np.dtype(np.float32)})

    def both(arrays: Arrays) -> dict[str, np.ndarray]:
        assert np.array_equal(arrays["x"], arrays["x"].astype(np.float32), equal_nan=True)
        return {"extra": arrays["x"], "y": np.tanh(arrays["x"])}

    def target(arrays: Arrays) -> dict[str, np.ndarray]:
        assert arrays["p"].dtype == np.float32
        return {"r": arrays["p"], "q": np.tanh(arrays["p"].astype(np.float64))}

    verdict = sides(monkeypatch, Side(float32=both, float64=both), Side(float32=target), graph=g.model(),
                    counterparts=pairs)[0]  # fmt: skip
    assert (verdict.status, [r.name for r in verdict.outputs], len(verdict.feeds)) == (PASS, ["y"], 3)


def test_pairs_that_leave_nothing_out_are_held_to_special_values_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = Counterparts({"x": "p"}, {"y": "q"}, ["q"], [0])
    target = Side(float32=lambda arrays: {"q": scaled(2.0)({"x": arrays["p"]})["y"]})
    verdict = sides(monkeypatch, target=target, counterparts=pairs)[0]
    assert (verdict.status, len(verdict.feeds)) == (PASS, 7)


def test_examples_of_the_users_come_before_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    example = np.full((5, 6), 0.5, np.float32)
    verdict, source, _, _ = sides(monkeypatch, options=Options(examples={0: example}))
    assert source.given[0]["x"] is example
    assert verdict.feeds[:2] == ["given inputs", "seed 0, normal, n=2"]


def test_several_sets_of_inputs_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    one = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    verdict, source, _, _ = sides(monkeypatch, arrays={"x": one})
    assert (verdict.feeds, len(source.given)) == (["given inputs"], 1)
    verdict = sides(monkeypatch, arrays={"x": one, "x@1": 2 * one})[0]
    assert verdict.feeds == ["given inputs, set 0", "given inputs, set 1"]


def test_inputs_are_saved_before_and_after(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This includes verdicts in which nothing runs; the saved inputs are those of the verdict, without special
    values.
    """
    file = tmp_path / "x.npz"
    sides(monkeypatch, save=file)
    assert sorted(load_inputs(file)) == ["x", "x@1", "x@2", "x@3", "x@4", "x@5"]
    with pytest.raises(BadInput):
        sides(monkeypatch, save=(other := tmp_path / "y.npz"), source=Side(float32=raises(BadInput("no"))),
              arrays={"x": np.zeros((2, 6), np.float32)})  # fmt: skip
    assert list(load_inputs(other)) == ["x"]


def test_another_way_of_use_is_held_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first way runs on all feeds, the second on one here."""
    verdict = sides(monkeypatch, target=Side(one=scaled(2.0), two=scaled(2.0)))[0]
    assert verdict.status == PASS
    verdict = sides(monkeypatch, target=Side(one=scaled(2.0), two=scaled(2.1)))[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert verdict.reason.startswith("y: two: error")
    verdict = sides(monkeypatch, target=Side(one=scaled(2.1), two=scaled(2.0)))[0]
    assert verdict.reason.startswith("y: error")  # one feed is too few to prove the other way right


def test_a_floor_that_rounding_does_not_explain_is_the_frontends(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Side(float32=scaled(2.02), float64=raises(Unsupported("no double")))
    verdict = sides(monkeypatch, source=source, target=Side(float32=scaled(2.02)))[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "frontend")
    assert "rounding does not explain" in verdict.reason
    # Given tolerances replace the source's rounding.
    assert sides(monkeypatch, source=source, target=Side(float32=scaled(2.02)), rtol=1e-3)[0].status == PASS


def test_the_profile_is_of_the_worst_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(profile, "profile_errors", lambda *given: asked.append(given) or ["a row"])
    assert sides(monkeypatch, profile=True)[0].profile == ["a row"]
    # Nothing failed, so the smallest feed is used.
    assert asked[0][2].arrays["x"].shape == (1, 6)
    assert asked[0][1] is TARGET


def test_special_values_have_their_own_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(arrays: Arrays) -> dict[str, np.ndarray]:
        found = scaled(2.0)(arrays)["y"]
        return {"y": np.where(np.isinf(arrays["x"]), np.float32(0), found)}

    verdict = sides(monkeypatch, target=Side(float32=cut))[0]
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert verdict.reason.startswith("y: on special values")
    assert len(verdict.feeds) == 7


@pytest.mark.parametrize("stored", [stored_as.HALF, stored_as.WEIGHTS, stored_as.FULL])
def test_numbers_that_are_stored_in_fewer_bits(stored: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "net"
    path.touch()
    target = Source("onnx-object", path=path)
    monkeypatch.setattr(plugin, "runner_for", lambda kind: SimpleNamespace(stored=lambda source: stored))
    both = Sides(monkeypatch, Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)), Side(float32=scaled(2.0)))
    both.of[id(target)] = both.of[id(TARGET)]
    verdict = verify(SOURCE, target, graph(), Options())
    assert verdict.stored == stored
    if stored == stored_as.FULL:
        assert (verdict.status, verdict.outputs) == (INCONCLUSIVE, [])
        assert "give inputs that are like those" in verdict.reason
        arrays = {"x": np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)}
        verdict = verify(SOURCE, target, graph(), Options(), VerifyMethod(arrays=arrays))
        assert verdict.outputs[0].floor > 1e-4
        return
    assert (verdict.status, len(verdict.feeds)) == (PASS, 4)  # no special values, and no larger numbers
    assert verdict.feeds[-1] == "seed 4, normal, n=65"
    assert verdict.outputs[0].agreement == 1.0
    # A graph that quantizes is compared with its own arithmetic.
    own = graph()
    own.graph.node(0).op_type = "QuantizeSomething"
    assert verification._storage_format(target, own) == ""
    assert verification._storage_format(TARGET, graph()) == ""


def test_sequences_at_the_ends_are_not_compared() -> None:
    made = graph()
    made.graph.inputs[0].type = ir.SequenceType(ir.TensorType(F))
    made.graph.outputs[0].type = ir.OptionalType(ir.TensorType(F))
    verdict = verify(SOURCE, TARGET, made, Options())
    assert (verdict.status, verdict.reason) == (
        INCONCLUSIVE, "sequences and optionals at the ends of a model are not compared: x, y"
    )  # fmt: skip


def test_what_cannot_be_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"a": SimpleNamespace(available=lambda: ""), "b": SimpleNamespace(available=lambda: "b is not installed")}
    monkeypatch.setattr(plugin, "runner_for", found.get)
    assert unavailable_reason() == unavailable_reason("a", "a") == ""
    assert unavailable_reason("a", "b") == "b is not installed"
    assert unavailable_reason("c", "b") == "no runner executes a c"


@pytest.mark.parametrize(("own", "used"), [((), ("mine",)), (("theirs",), ("theirs",))])
def test_rules_of_the_source_are_the_targets_unless_it_has_its_own(
    own: tuple[str, ...], used: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(rules=("mine",))
    _, source, target, _ = sides(monkeypatch, options=options, of_target=Options(rules=own))
    assert (source.options[0].rules, target.options[0].rules) == (("mine",), used)
