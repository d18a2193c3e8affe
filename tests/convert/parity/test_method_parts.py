"""Small parts of the method, on cases that distinguish them: settings, samples, dtypes, orders, constants."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import ConvertError, ResourceLimit, UsageError
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import PASS, Verdict
from convert.parity import two_artefacts
from convert.parity.compare.randomness import describe_repeats, random_outputs
from convert.parity.compare.special_verdict import take_special
from convert.parity.evidence import RunOutputs
from convert.parity.inputs import saved, size_search, special
from convert.parity.inputs.feeds import Feed, given_feed, sized_feed
from convert.parity.inputs.special import special_difference
from convert.parity.locate import places as locate
from convert.parity.locate import profile
from convert.parity.locate.pairing import trace_graph
from convert.parity.method import VerifyMethod
from convert.parity.pairing import weights
from convert.parity.pairing.counterparts import _check_pair, _Lists, find_counterparts
from convert.parity.runs import as_used, repeats
from convert.processes.run_here import Limits
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.trace import Trace

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
SOURCE = Source("onnx-object", model="source")


def model(*dims: int | str, dtype: ir.DataType = F) -> ir.Model:
    g = Graph()
    g.output(g.Neg(g.input("x", dtype, dims)), "y")
    return g.model()


def test_settings_are_named_where_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    child = SimpleNamespace(results=lambda: {"": [{}]}, stop=lambda: None)
    monkeypatch.setattr(as_used, "execute", lambda *given: asked.append(given[-1]) or child)
    for settings, names in (
        ([{}], [""]),
        ([{"A": "1"}], [""]),
        ([{"A": "1"}, {"A": "0", "B": "2"}], ["with A=1", "with A=0 B=2"]),
        ([{}, {"A": "0"}], ["", "with A=0"]),
    ):
        monkeypatch.setattr(as_used, "settings_of", lambda target, found=settings: found)
        runs = as_used.start(SOURCE, [], Options(), Limits(), 0)
        assert [name for name, _ in runs.children] == names
        assert asked == list(range(len(settings)))
        assert isinstance(found := runs.results(), dict)
        assert list(found) == names
        asked.clear()


def test_two_runs_tell_who_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = {"y": np.array([1.0, 2.0])}, {"y": np.array([1.0, 3.0])}
    found = {"source": [one, other], "target": [one, one]}
    monkeypatch.setattr(repeats, "_repeated_runs", lambda *given: found)
    told = repeats.unrepeatable_sides(SOURCE, SOURCE, model(2), Feed("", {}), Options(), VerifyMethod())
    assert len(told) == 1
    assert told[0].startswith("the source gives other numbers for 'y'")
    found["source"] = ConvertError("no")  # type: ignore[assignment]
    assert repeats.unrepeatable_sides(SOURCE, SOURCE, model(2), Feed("", {}), Options(), VerifyMethod()) == []
    zeros = {"y": np.zeros(2)}
    assert describe_repeats(zeros, zeros) == []


@pytest.mark.parametrize(("left", "right"), [("a", "b"), ("b", "a"), ("a", "a")])
def test_artefacts_of_one_name_are_the_first_and_the_second(
    left: str, right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(two_artefacts, "_read_right", lambda *given: asked.append(given[3]))
    monkeypatch.setattr(two_artefacts, "verify", lambda *given: Verdict(PASS))
    sides = [SimpleNamespace(label=label, kind="onnx") for label in (left, right)]
    two_artefacts.verify_two(*sides, model(2), Options(), VerifyMethod(), Report("verify"))  # type: ignore[arg-type]
    assert asked == [right if left != right else "the second"]


def test_weights_of_every_dtype_are_summarized() -> None:
    g = Graph()
    held = {n: np.ones(3, d) for n, d in (("h", np.float16), ("d", np.float64), ("i", np.int64), ("b", np.bool_))}
    for name, array in held.items():
        g.output(g.Identity(g.initializer(name, ir.Tensor(array))), f"{name}_out")
    g.output(g.Identity(g.initializer("s", ir.StringTensor([b"a"], shape=ir.Shape([1])))), "s_out")
    trace, found = trace_graph(g.model(), {})
    assert held.keys() <= trace.values.keys()
    assert found["d_out"].tolist() == [1, 1, 1]


def test_layouts_of_values_are_tried_up_to_five_dims() -> None:
    for rank, found in ((1, False), (2, True), (5, True), (6, False)):
        value = np.random.default_rng(0).standard_normal((2, 3, 4, 2, 3, 2)[:rank])
        moved = np.moveaxis(value, 0, -1)
        nearest = profile._best_arrangement(np.ascontiguousarray(moved), value)
        assert nearest is not None
        assert (nearest[0] == 0) == (found or rank == 1), rank
    assert profile._best_arrangement(np.zeros((2, 2)), np.ones((2, 2))) is None


@pytest.mark.parametrize(
    "scales", [(0.1, 0.2, 0.01, 0.02, -1.0), (2.0, 3.0, 4.0, 5.0, 6.0), (-0.1, -3.0, -2.0, 9.0, -1.0)]
)
def test_the_nearest_value_is_that_of_the_nearest_statistics(scales: tuple[float, ...]) -> None:
    """Four of six candidates are tried; a value 0.5 or more away is a different one."""
    value = np.random.default_rng(0).uniform(1, 2, 12)
    others = {f"v{i}": scale * value for i, scale in enumerate(scales)}
    assert profile.TargetValues({**others, "same": value.copy()}).nearest(value) == 0
    assert profile.TargetValues(others).nearest(value) is None
    for share, near in ((0.499, True), (0.501, False)):
        found = profile.TargetValues({**others, "near": value * (1 + share)}).nearest(value)
        assert found == (pytest.approx(share) if near else None)
    assert profile.TargetValues(others).nearest(value[:5]) is None


@pytest.mark.parametrize(("rows", "span", "numbers"), [(3, (5, 9), {2}), (3, (0, 1), {0, 1}), (3, (1, 9), {1, 2}),
                                                       (None, (5, 6), {5, 6}), (3, None, {0, 1, 2})])  # fmt: skip
def test_closer_integers_that_are_places(rows: int | None, span: Any, numbers: set[int]) -> None:
    g = Graph()
    at = g.input("at", I64, [64])
    g.output(g.Neg(at) if rows is None else g.Gather(g.input("data", F, [rows]), at), "y")
    found = sized_feed(g.model(), 0, {}, {} if span is None else {"at": span}).arrays["at"]
    assert set(found.tolist()) == numbers


@pytest.mark.parametrize("shape", [(), (2,), (3, 1), (1, 3), (4,)])
def test_inputs_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    assert given_feed(model(3), {"x": np.ones(3, np.float32)}).arrays["x"].shape == (3,)
    with pytest.raises(UsageError, match="has shape"):
        given_feed(model(3), {"x": np.ones(shape, np.float32)})


def test_an_array_of_more_than_48_bits_of_elements_is_a_limit() -> None:
    with pytest.raises(ResourceLimit, match="281,474,993,487,872 elements"):
        sized_feed(model(1 << 24, (1 << 24) + 1), 0, {})


def test_layouts_are_told_apart() -> None:
    lists = _Lists(model(2), model(2), ("one", "two"))
    ours = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape([2, 3, 4, 5]))
    for dims, layout in (([2, 5, 3, 4], "nchw"), ([2, 4, 5, 3], "nhwc")):
        other = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape(dims))
        with pytest.raises(UsageError, match="another layout") as caught:
            _check_pair("input", ours, other, {}, lists)
        assert f"--layout {layout} says" in caught.value.hint
    other = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape([5, 4, 3, 2]))
    with pytest.raises(UsageError, match="input 'x' differs"):
        _check_pair("input", ours, other, {}, lists)


def test_the_target_is_read_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(locate, "read_back", lambda *given: asked.append(given) or model(2))
    monkeypatch.setattr(locate, "trace_graph", lambda *given: (Trace([], {}), {}))
    own, ends = Options(model="net.py:Net"), Names({"x": "a"})
    locate.locate(model(2), SOURCE, Feed("", {}), own, ends)
    assert asked == [(SOURCE, own, ends)]


@pytest.mark.parametrize("exact", [[0, 2], [2, 0]])
def test_integers_that_the_source_computes_otherwise_in_float64_are_not_certain(exact: list[int]) -> None:
    source = np.array([1, 1])
    assert special_difference(source, np.array(exact), None, np.array([5, 7])) == ""
    assert special_difference(source, np.array([1, exact[1]]), None, np.array([5, 7])).startswith("1 of 2 elements")
    assert special_difference(source, np.array([1, 1]), np.array(exact), np.array([5, 7])) == ""


@pytest.mark.parametrize("stand_ins", [0, 1, 2])
def test_special_values_have_no_run_in_float64_at_first(stand_ins: int) -> None:
    feeds = [Feed("a", {}), Feed("b", {}), Feed("special", {}, special=True)]
    outputs = [{"y": np.full(2, float(i))} for i in range(3)]
    runs = RunOutputs({"float32": outputs, "float64": outputs}, outputs, outputs, stand_ins=stand_ins)
    plain, rest, found = take_special(feeds, runs)
    assert found is not None
    assert found.exact is found.graph is None
    assert (len(plain), len(rest.target), rest.stand_ins) == (2, 2, max(0, stand_ins - 1))


def test_sizes_that_constants_speak_of() -> None:
    """A table's length; both lengths of a dense layer; for 72 = 8 · 3 · 3 the side, and the lengths with 8 and with 3
    channels.
    """
    g = Graph()
    x = g.input("x", F, ["n", 3, "h", "w"])
    flat = g.Flatten(g.Conv(x, g.initializer("k", ir.Tensor(np.zeros((8, 3, 3, 3), np.float32)))))
    y = g.Gemm(flat, g.initializer("d", ir.Tensor(np.zeros((72, 10), np.float32))))
    g.output(g.Add(y, g.initializer("t", ir.Tensor(np.zeros((50, 1), np.float32)))), "y")
    sides, lines = [3, 6, 12, 24, 48, 96], [9, 18, 36, 192, 144, 384, 288, 768]
    assert size_search.suggested_sizes(g.model()) == [50, 72, 10, *sides, *lines]


def test_ends_of_one_name_are_not_told() -> None:
    def named(*names: str) -> ir.Model:
        g = Graph()
        g.output(g.Neg(g.input(" ".join(names[:2]), F, [2])), names[2] + names[3])
        return g.model()

    found = find_counterparts(named("a", "b", "c", "d"), named("a", "b", "c", "d"), {}, "", ("one", "two"))
    assert (found.inputs, found.outputs, found.notes) == ({"a b": "a b"}, {"cd": "cd"}, [])


def test_weights_are_apart_in_place_and_squares_turned_as_well() -> None:
    a, other = np.arange(6.0), np.arange(6.0).reshape(3, 2).T.ravel()
    np.testing.assert_array_equal(weights._apart(a, other, (2, 3), (2, 3)), np.abs(a - other))
    np.testing.assert_array_equal(weights._apart(a, a[::-1], (2, 3), (3, 2)), np.zeros(6))
    square = np.arange(9.0)
    turned = square.reshape(3, 3).T.ravel()
    np.testing.assert_array_equal(weights._apart(square, turned, (3, 3), (3, 3)), np.zeros(9))
    np.testing.assert_array_equal(weights._apart(square, square + 1, (3, 3), (3, 3)), np.ones(9))
    np.testing.assert_array_equal(weights._apart(square, turned, (9,), (9,)), np.abs(square - turned))


def test_numbers_of_bfloat16_are_no_special_values() -> None:
    plain = np.ones((4, 3), ml_dtypes.bfloat16)
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.BFLOAT16), shape=ir.Shape([4, 3]))
    np.testing.assert_array_equal(special.special_array(value, plain, False), plain)
    complex_value = ir.Value(name="x", type=ir.TensorType(ir.DataType.COMPLEX64), shape=ir.Shape([4, 3]))
    ones = np.ones((4, 3), np.complex64)
    np.testing.assert_array_equal(special.special_array(complex_value, ones, False), ones)


def test_a_scan_passes_random_numbers_on_by_its_states_alone() -> None:
    """A scanned row does not depend on earlier iterations: the sum of the rows is not random, but their noise is."""
    body = Graph()
    state, row = body.input("state", F, [3]), body.input("row", F, [3])
    body.output(body.Add(state, row), "sum")
    body.output(body.Mul(row, body.RandomNormal(shape=[3])), "noise")
    g = Graph()
    x = g.input("x", F, [2, 3])
    last, noise = g.Scan(g.const(np.zeros(3, np.float32)), x, body=body.model().graph, num_scan_inputs=1, outputs=2)
    g.output(last, "last")
    g.output(noise, "made")
    assert list(random_outputs(g.model())) == ["made"]


@pytest.mark.parametrize(
    ("key", "dtype", "name"),
    [("x:bfloat16", np.uint16, "x"), ("x:bfloat16", np.uint8, "x:bfloat16"), ("x:float32", np.uint16, "x:float32"),
     ("x", np.uint16, "x")],
)  # fmt: skip
def test_saved_inputs_that_are_bits_of_another_dtype(key: str, dtype: type, name: str) -> None:
    found, array = saved._typed_array(key, np.zeros(2, dtype))
    assert (found, array.dtype.name) == (name, "bfloat16" if found != key else np.dtype(dtype).name)
