"""Differences on special inputs, number by number, and the outputs that are compared separately."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.note_codes import ACTION
from convert.outcome.notes import visible_notes
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity.compare.special_verdict import (
    SpecialRun,
    _with_denormals,
    judge_special,
    operators_behind,
    take_special,
)
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.special import special_difference
from convert.parity.method import VerifyMethod
from convert.parity.verify import Compared, keeps_special_values
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.differences import Difference

NAN, INF = np.nan, np.inf


def difference(source: Any, got: Any, exact: Any = None, graph: Any = None, dtype: type = np.float32) -> str:
    """Compare numbers in `dtype`. exact and graph are in float64, by default the source's own numbers."""
    given = np.array(source, dtype)
    exact = given.astype(np.float64) if exact is None else np.array(exact, np.float64)
    own = None if graph is None else np.array(graph, np.float64)
    return special_difference(given, exact, own, np.array(got, dtype))


@pytest.mark.parametrize(
    ("source", "got", "differs"),
    [
        # A hundredth of the number itself, and a hundredth of the largest number of its row.
        ([1.0], [1.019], False),
        ([1.0], [1.021], True),
        ([1.0, 100.0], [2.0, 100.0], False),
        ([1.0, 100.0], [2.1, 100.0], True),
        ([[1.0, 100.0], [1.0, 1.0]], [[2.0, 100.0], [1.0, 1.0]], False),
        ([[1.0, 1.0], [1.0, 100.0]], [[2.0, 1.0], [1.0, 100.0]], True),
        ([[[1.0], [100.0]], [[1.0], [1.0]]], [[[2.0], [100.0]], [[1.0], [1.0]]], False),
        ([[[1.0], [1.0]], [[1.0], [100.0]]], [[[2.0], [1.0]], [[1.0], [100.0]]], True),
        (1.0, 1.019, False),
        (1.0, 1.021, True),
        ([-1.0], [-1.021], True),
        ([-1.0], [1.0], True),
        ([0.0], [0.0], False),
        ([0.0], [1e-3], True),
        # A number above 1e30 counts as infinite: it has no size, and gives none to its row.
        ([1e31], [2e31], False),
        ([9e29], [1.1e30], True),
        ([1.0, 1e31], [1.5, 1e31], True),
        ([[1.0, 1e31]], [[1.5, 1e31]], True),
        ([1e31], [INF], True),
        ([INF], [-INF], True),
        ([INF, 1.0], [INF, 1.0], False),
        ([INF, 1.0], [INF, 1.5], True),
        ([NAN, 1.0], [NAN, 1.0], False),
        ([NAN], [INF], True),
        ([NAN], [0.0], True),
        ([0.0], [NAN], True),
        ([], [], False),
    ],
)
def test_numbers_are_about_the_same(source: Any, got: Any, differs: bool) -> None:
    assert bool(difference(source, got)) == differs


@pytest.mark.parametrize(
    ("exact", "got", "differs"),
    [
        # Sixteen times the error of float32, of the number and of its row: 0.02 + 16 · (0.01 + 0.01).
        ([1.01, 1.0], [1.3, 1.0], False),
        ([1.01, 1.0], [1.4, 1.0], True),
        ([1.01, 1.0], [1.0, 1.17], False),
        ([1.01, 1.0], [1.0, 1.2], True),
        ([INF, 1.0], [5.0, 1.0], False),
        ([NAN, 1.0], [INF, 1.0], False),
        ([NAN, 1.0], [INF, 2.0], True),
    ],
)
def test_what_float32_does_is_allowed(exact: Any, got: Any, differs: bool) -> None:
    assert bool(difference([1.0, 1.0], got, exact)) == differs
    assert bool(difference([1.0, 1.0], got, [1.0, 1.0], exact)) == differs, "the graph counts as the source does"


def test_what_differs_is_counted_and_shown() -> None:
    assert (
        difference([1.0, 2.0, 3.0], [1.0, 5.0, NAN]) == "2 of 3 elements differ, such as 5.0 where the source has 2.0"
    )
    assert difference([1, 2], [1, 9], dtype=np.int32).startswith("1 of 2 elements differ, such as 9 where")


def test_other_shapes_are_told_and_strings_are_not_looked_at() -> None:
    assert difference([1.0, 2.0], [1.0]) == "shape [1] where the source has [2]"
    assert difference([1.0, 2.0], [1.0], exact=[1.0]) == ""  # the float64 run has another shape: not compared
    text = np.array(["a"], object)
    assert special_difference(text, text, None, np.array(["b"], object)) == ""


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool])
def test_integers_are_the_same_where_all_agree(dtype: type) -> None:
    assert difference([1, 0], [1, 1], dtype=dtype)
    assert not difference([1, 0], [1, 1], exact=[1, 1], dtype=dtype)
    assert not difference([1, 0], [1, 1], graph=[1, 1], dtype=dtype)
    assert not difference([1, 0], [1, 0], exact=[1, 1], dtype=dtype)
    none = special_difference(np.array([1, 0]), None, None, np.array([1, 1]))
    assert none.startswith("1 of 2 elements differ")


def test_outputs_without_rows_are_the_same() -> None:
    assert special_difference(np.zeros((0, 4), np.float32), np.zeros((0, 4)), None, np.zeros((0, 4), np.float32)) == ""


def test_complex_numbers_are_finite_or_not() -> None:
    source = np.array([1 + 1j, complex(NAN, 1)], np.complex64)
    assert special_difference(source, source, None, source) == ""
    assert special_difference(source, source, None, np.array([1 + 1j, 1 + 1j], np.complex64))
    assert special_difference(source, source, None, np.array([1 + 2j, complex(NAN, 1)], np.complex64))
    assert special_difference(source, source, None, np.array([1 + 1j, complex(1, INF)], np.complex64)) == ""


# -- keeping them apart -----------------------------------------------------------------------------------------------


def numbered(count: int, first: int = 0) -> list[dict[str, np.ndarray]]:
    return [{"y": np.array(float(first + i))} for i in range(count)]


def values(outputs: Any) -> list[float]:
    return [float(o["y"]) for o in outputs]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_special_set_is_taken_out_of_every_run(at: int) -> None:
    feeds = [Feed(f"set {i}", {}, special=i == at) for i in range(3)]
    ways = {"whole": numbered(3, 40), "once": numbered(1, 50)}
    runs = RunOutputs({"float32": numbered(3), "float64": numbered(3, 10)}, numbered(3, 20), numbered(3, 30), None, "",
                      ways)  # fmt: skip
    plain, rest, special = take_special(feeds, runs)
    left = [i for i in range(3) if i != at]
    assert [f.label for f in plain] == [f"set {i}" for i in left]
    assert values(rest.source["float32"]) == left
    assert values(rest.source["float64"]) == [10 + i for i in left]
    assert (values(rest.target), values(rest.graph_float64)) == ([20 + i for i in left], [30 + i for i in left])
    assert values(rest.others["whole"]) == [40 + i for i in left]
    assert values(rest.others["once"]) == ([] if at == 0 else [50])
    assert special is not None
    assert (special.label, special.refused) == (f"set {at}", "")
    assert (special.exact, special.graph) == (None, None)
    assert values([special.source, special.target]) == [at, 20 + at]


def test_runs_without_float64_stay_so() -> None:
    none = Unsupported("none")
    feeds = [Feed("a", {}), Feed("b", {}, special=True)]
    plain, rest, special = take_special(feeds, RunOutputs({"float32": numbered(2), "float64": none}, numbered(2), none))
    assert (len(plain), rest.source["float64"], rest.graph_float64) == (1, none, none)
    assert special is not None
    assert (special.exact, special.graph) == (None, None)


def test_without_a_special_set_nothing_changes() -> None:
    runs = RunOutputs({"float32": numbered(1), "float64": numbered(1)}, numbered(1), numbered(1))
    feeds = [Feed("a", {})]
    assert take_special(feeds, runs) == (feeds, runs, None)
    refused = RunOutputs(runs.source, runs.target, runs.graph_float64, refused="it says no")
    special = take_special(feeds, refused)[2]
    assert special is not None
    assert special.refused == "it says no"


def model() -> ir.Model:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 3])
    g.output(g.Neg(x), "y")
    g.output(g.Abs(x), "z")
    return g.model()


ONE = np.array([[1.0, NAN, 3.0]], np.float32)
OTHER = np.array([[1.5, NAN, 3.0]], np.float32)
LOST = np.array([[1.0, 0.0, 3.0]], np.float32)


def special_run(y: np.ndarray, z: np.ndarray = ONE, exact: Any = ONE, graph: Any = (ONE, ONE)) -> SpecialRun:
    meant = None if graph is None else {"y": graph[0], "z": graph[1]}
    double = None if exact is None else {"p": exact, "q": exact}
    return SpecialRun("special", {"p": ONE, "q": ONE}, double, meant, {"z": z, "y": y})


NEG = [Difference(("Neg",), "why", integers=False)]
ABS = [Difference(("Abs",), "why", integers=False)]


@pytest.mark.parametrize(
    ("run", "of_target", "of_source", "status", "at_fault", "note"),
    [
        (special_run(ONE), [], [], PASS, "", ""),
        (special_run(OTHER), [], [], FAIL, "backend", ""),
        (special_run(ONE, OTHER), [], [], FAIL, "backend", ""),
        (special_run(OTHER, graph=(OTHER, ONE)), [], [], FAIL, "frontend", ""),
        (special_run(OTHER, graph=None), [], [], FAIL, "backend", ""),
        (special_run(OTHER, exact=None), [], [], FAIL, "backend", ""),
        # Here the graph is its own reference, and agrees with the target: the source is uncertain.
        (special_run(OTHER, exact=None, graph=(np.array([[INF, NAN, 3.0]]), ONE)), [], [], PASS, "", ""),
        (special_run(LOST), [], [], PASS, "", "its kernels lose a NaN"),
        (special_run(LOST, graph=(LOST, ONE)), [], [], FAIL, "frontend", ""),
        (special_run(OTHER), NEG, [], PASS, "", "special values in Neg differ"),
        (special_run(OTHER), ABS, [], FAIL, "backend", ""),
        (special_run(OTHER), [], NEG, PASS, "", "special values in Neg differ"),
        (special_run(OTHER, graph=(OTHER, ONE)), NEG, [], FAIL, "frontend", ""),
        (special_run(OTHER, graph=(OTHER, ONE)), [], NEG, PASS, "", "special values in Neg differ"),
    ],
)
def test_whose_difference_it_is(
    run: SpecialRun, of_target: Any, of_source: Any, status: str, at_fault: str, note: str
) -> None:
    verdict = Verdict(PASS)
    verdict = verdict.after(judge_special(model(), run, of_target, of_source))
    assert (verdict.status, verdict.at_fault) == (status, at_fault)
    details, shown = [n for n in verdict.notes if n.level != ACTION], visible_notes(verdict.notes, 0)
    assert len(details) == bool(note)
    assert not note or note in details[0]
    # An undeclared difference is one line by default.
    assert len(shown) == ("lose a NaN" in note)
    name = "z" if run.target["z"] is OTHER else "y"
    assert verdict.reason == "" if status == PASS else verdict.reason.startswith(f"{name}: on special, 1 of 3 elements")


def test_only_a_pass_is_taken_back() -> None:
    onnx, none = Source("onnx"), Unsupported("no float64")
    pair: Any = SimpleNamespace(graph=model(), source=onnx, target=onnx, options=Options(), method=VerifyMethod())
    runs, both = RunOutputs({"float64": none}, [], none), special_run(OTHER, OTHER)
    compared = Compared(pair, [], runs, both, drawn=True)
    for status, after, reason in ((INCONCLUSIVE, INCONCLUSIVE, "why"), (FAIL, FAIL, "why"), (PASS, FAIL, "y: ")):
        verdict = keeps_special_values(compared, Verdict(status, "why"))
        assert verdict.status == after
        assert verdict.reason.startswith(reason)  # the line of the first output
        assert verdict.feeds == ([] if status == FAIL else ["special"])


def test_a_branch_answers_for_its_own_output_only() -> None:
    g = Graph()
    x, c = g.input("x", ir.DataType.FLOAT, [3]), g.input("c", ir.DataType.BOOL, [])
    made = []
    for operators in (("Neg", "Abs"), ("Exp", "Tanh")):
        nodes = [ir.Node("", name, [x]) for name in operators]
        made.append(ir.Graph([], [n.outputs[0] for n in nodes], nodes=nodes))
    attributes = [ir.AttrGraph(n, b) for n, b in zip(("then_branch", "else_branch"), made, strict=True)]
    node = ir.Node("", "If", [c], attributes, num_outputs=2)
    held = g.model()
    held.graph.append(node)
    held.graph.outputs.extend(node.outputs)
    declared = [Difference(("Neg", "Tanh"), "why", integers=False)]
    assert [operators_behind(held, v, declared) for v in node.outputs] == [["Neg"], ["Tanh"]]


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 1), (6, 1, 3)])
def test_rows_of_denormals_that_are_as_rows_of_zeros_are_the_sources(shape: tuple[int, ...]) -> None:
    """The rows after the first three hold denormals; a runtime may flush each of them to zero."""
    source = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    target = source + 1
    target[2].flat[:] = 7, 8, NAN
    target[3:].reshape(-1, 3)[:] = 7, 9, NAN
    found = _with_denormals(target, source)
    expected = target.copy()
    expected[3:].reshape(-1, 3)[:, [0, 2]] = source[3:].reshape(-1, 3)[:, [0, 2]]
    np.testing.assert_array_equal(found, expected)
    assert _with_denormals(target.astype(np.float64), source).dtype == np.float64
    target[3:].reshape(-1, 3)[:, 2] = 5  # where the row of zeros gives NaN
    np.testing.assert_array_equal(_with_denormals(target, source)[3:].reshape(-1, 3)[:, 2], 5)
    for other in (target[:3], target[0], target.ravel()):
        assert _with_denormals(other, other) is other
