"""Numbers of samples, ties, special values, weights, sizes and positions, at their bounds and next to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, ConvertError, UsageError
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY
from convert.outcome.verdict import PASS
from convert.parity.compare.distribution import varies_between_runs
from convert.parity.compare.randomness import describe_repeats
from convert.parity.compare.special_verdict import _with_denormals
from convert.parity.explain.picks import worst_elements
from convert.parity.inputs.feeds import Feed, given_feed, sized_feed
from convert.parity.inputs.size_guards import fit_sizes
from convert.parity.inputs.size_search import _elements, _refusal, _spread_choice, _that_fit, _variants
from convert.parity.inputs.special import special_difference
from convert.parity.locate import places as locate_room
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts, _check_pair, _Lists
from convert.parity.pairing.weights import _distance, _fingerprint, weight_differences
from convert.parity.runs.repeats import kept_outputs
from convert.parity.verify import verify
from convert.request.naming import Names
from convert.request.options import Options
from convert.runtimes.trace import Trace
from tests.support.sides import SOURCE, TARGET, Side, Sides, graph, scaled

F = ir.DataType.FLOAT
ONE = np.array([2.0, 0.0, 0.0, 0.0])
"""An array with a root mean square of 1."""
BEYOND = 1 + 2.0**-20
SIDES = pytest.mark.parametrize("beyond", [False, True])


def test_runs_up_to_the_ninth_tell_whether_numbers_are_drawn() -> None:
    for at in range(1, 11):
        runs = [np.zeros(3) for _ in range(11)]
        runs[at] = np.ones(3)
        assert varies_between_runs(runs) == (at < 9), at
    assert not varies_between_runs([np.full(2, np.nan)] * 2)
    assert not varies_between_runs([np.zeros(2), np.ones(3)])


@SIDES
def test_two_runs_may_differ_by_a_ten_thousandth_of_their_size(beyond: bool) -> None:
    other = ONE + np.array([0.0, 2e-4 * (BEYOND if beyond else 1), 0.0, 0.0])
    assert bool(describe_repeats({"y": ONE}, {"y": other})) == beyond


def test_elements_that_are_equal_are_none_of_the_worst() -> None:
    exact = np.array([3.0, 4.0, np.inf, np.nan])
    assert worst_elements([exact], [exact], ["one"]) == []
    found = worst_elements([exact], [np.array([3.0, 4.5, -np.inf, np.nan])], ["one"])
    assert [(e.index, e.error) for e in found] == [((2,), np.inf), ((1,), 0.5 / np.sqrt(12.5))]
    whole = worst_elements([np.array([0, 5])], [np.array([3, 5])], ["one"])
    assert [(e.index, e.error) for e in whole] == [((0,), 3.0)]


def test_numbers_beside_infinity_may_be_off_by_a_hundredth() -> None:
    """The tolerance is 0.01 × the number, or × the largest number of its row below 1e30, and 16 × the noise."""
    source = np.array([[1.0, np.inf, 0.0], [64.0, 2e30, 0.0], [np.nan, 0.0, 0.0]], np.float32)
    exact = source.astype(np.float64)
    tiny = float(np.finfo(np.float32).tiny)
    for row, bound in ((0, 0.01 + tiny), (1, 0.64 + tiny), (2, tiny)):
        for share, wrong in ((1 - 1e-3, False), (1 + 1e-3, True)):
            got = exact.copy()
            got[row, 2] = share * bound
            assert bool(special_difference(source, exact, None, got)) == wrong, (row, share)
    noisy = exact.copy()
    noisy[0, 0] += 1.0
    for by, wrong in ((16.01, False), (16.03, True)):  # for a row: 0.01 of its largest number, and 16 times its noise
        got = exact.copy()
        got[0, 2] = by
        assert bool(special_difference(source, noisy, None, got)) == wrong
    # A number whose kind (NaN, infinite, finite) differs between the source's two runs is uncertain, and so is its
    # noise.
    kinds = exact.copy()
    kinds[2, 0] = 5.0
    assert special_difference(source, kinds, None, np.where(np.isnan(exact), 7.0, exact)) == ""
    got = exact.copy()
    got[2, 2] = 1.0
    assert special_difference(source, kinds, None, got) != ""


def test_kinds_of_numbers_are_told_apart() -> None:
    kinds = [1.0, np.nan, np.inf, -np.inf]
    for source in kinds:
        for got in kinds:
            a, b = np.array([source]), np.array([got])
            assert bool(special_difference(a, a, None, b)) == (not np.array_equal(a, b, equal_nan=True)), (source, got)
    for source in (1 + 2j, complex(np.inf, 0), complex(0, np.nan)):
        for got in (1 + 2j, complex(0, -np.inf)):
            a, b = np.array([source]), np.array([got])
            assert bool(special_difference(a, a, None, b)) == bool(np.isfinite(source) != np.isfinite(got))


@pytest.mark.parametrize(("large", "wrong"), [(1e30, False), (np.nextafter(np.float32(1e30), np.float32(0)), True)])
def test_numbers_from_1e30_on_are_on_their_way_to_infinity(large: float, wrong: bool) -> None:
    source = np.array([large], np.float64)
    assert bool(special_difference(source, source, None, 3 * source)) == wrong


# -- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [([1.0, 2.0], [-1.0, -2.0]), ([1.0, 0.0], [0.0, 2.0]), ([0.0, 0.0], [1.0, 2.0]), ([1.0, 2.0], [3.0, 4.0]),
     ([2.0, 4.0], [1.0, 2.0])],
)  # fmt: skip
def test_other_numbers_are_apart(a: list[float], b: list[float]) -> None:
    """Different numbers differ even if their sum, product, quotient or remainder is 0."""
    one, other = np.float32(a), np.float32(b)
    apart = np.sqrt(np.mean((np.sort(one) - np.sort(other)) ** 2))
    assert _distance(one, other) == pytest.approx(apart / max(np.sqrt(np.mean(one**2)), np.finfo(np.float32).tiny))
    assert _distance(one, one[::-1]) == 0
    assert _distance(one, one[:1]) == _distance(one[:1], one) == np.inf


def test_small_numbers_have_fingerprints_of_their_own() -> None:
    small = np.float32([1e-9, 2e-9])
    assert _fingerprint(small) == _fingerprint(small[::-1])
    assert _fingerprint(small) != _fingerprint(np.float32([1e-9, 3e-9]))
    assert _fingerprint(np.float32([0.0, 1e-9])) == _fingerprint(np.float32([1e-9, -0.0]))


def test_numbers_that_differ_are_counted_from_a_hundred_thousandth_of_the_size_on() -> None:
    def holding(array: np.ndarray) -> ir.Model:
        tensor = ir.Tensor(array.astype(np.float32), name="w")
        made = ir.Graph([], [], nodes=[], opset_imports={"": 23})
        made.register_initializer(ir.Value(name="w", type=ir.TensorType(F), shape=tensor.shape, const_value=tensor))
        return ir.Model(made, ir_version=10)

    weights = np.full((2, 3), 128.0)
    other = weights + np.array([[0.0, 2.0**-10, 2.0**-9], [2.0**-2, 0.0, 1.0]])
    (found,) = weight_differences(holding(weights), holding(other))
    assert (found.elements, found.size, found.shape) == (3, 6, (2, 3))  # differences count from 1.28e-3
    assert found.largest == 1 / 128


# -- sizes ------------------------------------------------------------------------------------------------------------


def sized(*dims: str, **bounds: list[int | None]) -> ir.Model:
    g = Graph()
    g.output(g.Neg(g.input("x", F, dims)), "y")
    model = g.model()
    model.metadata_props[DIMS_KEY] = json.dumps(bounds)
    return model


def test_sizes_near_by() -> None:
    """A batch of one, then changes of the batch, of all other dims together, of each dim by itself, and of all dims."""
    found = [(s["n"], s["h"], s["w"]) for s in _variants(sized("n", "h", "w"), {"n": 5, "h": 7, "w": 9})]
    n, h, w = (6, 10, 13, 37, 2), (8, 14, 15, 39, 3), (10, 18, 17, 41, 4)
    inner = [(5, a, b) for a, b in zip(h, w, strict=True)]
    single = [*((a, 7, 9) for a in n), *((5, a, 9) for a in h), *((5, 7, a) for a in w)]
    assert found == [(1, 7, 9), *((a, 7, 9) for a in n), *inner, *single, *zip(n[:4], h[:4], w[:4], strict=True)]
    assert [s["h"] for s in _variants(sized("n", "h"), {"n": 1, "h": 1})][6:11] == [2, 2, 9, 33, 1]


def test_sizes_that_change_most_are_taken_first() -> None:
    first = {"a": 1, "b": 1, "c": 1}
    one, two, more = first | {"a": 2}, first | {"b": 300, "c": 300}, first | {"a": 0, "b": 3, "c": 3}
    assert _spread_choice(first, [one, two], 3) == [first, two, one]
    assert _spread_choice(first, [one, two, more], 3) == [first, more]
    assert _spread_choice(first, [one, two], 2) == [first, two]
    assert _spread_choice(first, [dict(first)], 3) == [first]
    large = {"a": 1000}  # equal numbers that are different Python objects are the same size
    assert _spread_choice(large, [{"a": int("1000")}], 3) == [large]


@pytest.mark.parametrize(("count", "more"), [(12, ""), (13, " and 1 more")])
def test_twelve_sizes_are_named(count: int, more: str) -> None:
    told = _refusal(ConvertError("no"), [{"n": i} for i in range(count)], ["n"])
    assert told == f"no; it runs at none of the sizes that were tried: {'; '.join(f'n={i}' for i in range(12))}{more}"


def test_sizes_within_bounds_and_memory() -> None:
    """Both bounds are included, and so are two million numbers in all inputs together, each once."""
    model = sized("n", "m", n=[2, 4])
    tried = [{"n": n, "m": m} for n, m in ((1, 1), (2, 1), (4, 1), (5, 1), (2, 1), (4, 1 << 19), (4, (1 << 19) + 1))]
    assert [(s["n"], s["m"]) for s in _that_fit(model, tried)] == [(2, 1), (4, 1), (4, 1 << 19)]
    assert _elements(model, {"n": 4, "m": 1 << 19}) == 1 << 21
    assert [s["n"] for s in _that_fit(sized("n", n=[None, 1]), [{"n": 0}, {"n": 1}, {"n": 2}])] == [0, 1]


def test_of_two_sizes_as_near_the_larger_is_taken() -> None:
    assert fit_sizes({"a": 4, "b": 4}, ["a != b"], {}) == {"a": 4, "b": 5}
    # One less and one more together are not smaller.
    assert fit_sizes({"a": 10, "b": 4}, ["abs(a - 10) + abs(b - 4) == 2"], {}) == {"a": 9, "b": 5}
    assert fit_sizes({"a": 10}, ["a % 4 == 0"], {}) == {"a": 12}
    assert fit_sizes({"a": 40}, ["a >= 73"], {}) == {"a": 73}
    assert fit_sizes({"a": 40}, ["a >= 74"], {}) == {"a": 40}  # no allowed size reaches it
    assert fit_sizes({"a": 40}, ["a <= 7"], {}) == {"a": 7}
    assert fit_sizes({"a": 40}, ["a <= 6"], {}) == {"a": 40}


# -- inputs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("takes", "given"), [(F, np.float64), (ir.DataType.DOUBLE, np.float32), (F, np.int64)])
def test_inputs_of_a_wider_or_narrower_dtype_are_refused(takes: ir.DataType, given: type) -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", takes, [3])), "y")
    with pytest.raises(UsageError, match="the model takes"):
        given_feed(g.model(), {"x": np.ones(3, given)})


def test_numbers_of_bfloat16_are_drawn_as_others_are() -> None:
    def drawn(dtype: ir.DataType) -> Mapping[str, np.ndarray]:
        g = Graph()
        x, z = g.input("x", dtype, [3]), g.input("z", F, [3])
        g.output(g.Neg(x), "y")
        g.output(g.Neg(z), "w")
        return sized_feed(g.model(), 0, {}).arrays

    one, other = drawn(ir.DataType.BFLOAT16), drawn(F)
    np.testing.assert_array_equal(one["z"], other["z"])
    np.testing.assert_array_equal(one["x"], other["x"].astype(one["x"].dtype))


@pytest.mark.parametrize("rows", [0, 1])
def test_places_among_no_rows_or_one_are_the_first(rows: int) -> None:
    g = Graph()
    data, at = g.input("data", F, ["rows", 2]), g.input("at", ir.DataType.INT64, [3])
    g.output(g.Gather(data, at, axis=0), "y")
    assert sized_feed(g.model(), 0, {"rows": rows}).arrays["at"].tolist() == [0, 0, 0]


# -- what belongs together, and where it departs ----------------------------------------------------------------------


def test_outputs_are_as_many_as_were_declared() -> None:
    pairs = Counterparts({}, {"a": "b"}, ["b", "c"], [0])
    arrays = {n: np.zeros(1) for n in "bcd"}
    assert pairs.name_outputs({n: arrays[n] for n in "bc"}).keys() == {"a"}
    for names in ("b", "bcd"):
        with pytest.raises(UsageError, match="it has 2 outputs"):
            pairs.name_outputs({n: arrays[n] for n in names})


def test_outputs_that_are_kept() -> None:
    outputs = {"a": np.zeros(1), "b": np.ones(1)}

    def kept(*places: int) -> list[str]:
        return list(kept_outputs(outputs, Counterparts({}, {}, [], places)))

    assert (kept(1), kept(0), kept(0, 2)) == (["b"], ["a"], ["a", "b"])
    assert list(kept_outputs({"a": np.zeros(1)}, Counterparts({}, {}, [], []))) == []
    assert kept_outputs(outputs, None) is outputs


@pytest.mark.parametrize("ours", [[], [3], [3, 4], [3, 4, 5, 6]])
def test_ends_of_other_ranks_have_no_other_layout(ours: list[int]) -> None:
    value, other = (ir.Value(name="y", type=ir.TensorType(F), shape=ir.Shape(s)) for s in (ours, [3, 5, 4]))
    lists = _Lists(graph(), graph(), ("one", "two"))
    _check_pair("output", value, other, {}, lists)
    moved = ir.Value(name="y", type=ir.TensorType(F), shape=ir.Shape([3, 4, 5]))
    with pytest.raises(UsageError, match="another layout"):
        _check_pair("output", moved, other, {}, lists)


@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (5, 4), (3, 3)])
def test_rows_of_denormals_are_those_of_outputs_of_one_shape(shape: tuple[int, ...]) -> None:
    target, source = np.zeros((5, 3), np.float32), np.full(shape, 1e-40, np.float32)
    assert _with_denormals(target, source) is target
    found = _with_denormals(target, np.full((5, 3), 1e-40, np.float32))
    np.testing.assert_array_equal(found, [[0] * 3] * 3 + [[np.float32(1e-40)] * 3] * 2)


@pytest.mark.parametrize(
    ("distance", "bound"), [(1e-6, 2e-7), (1e-5, 3e-7), (1e-4, 3e-6), (1.0, 1e-5), (2e-7, None), (2.1e-7, 2e-7)]
)
def test_values_agree_to_a_share_of_the_distance(
    distance: float, bound: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(locate_room, "read_back", lambda *given: graph())
    monkeypatch.setattr(locate_room, "trace_graph", lambda *given: (Trace([], {}), {}))
    monkeypatch.setattr(locate_room, "_distance", lambda *given: distance)
    monkeypatch.setattr(locate_room, "agreeing_names", lambda a, b, limit, ordered: asked.append(limit) or set())
    told = locate_room.locate(graph(), TARGET, Feed("one", {}), Options(), Names())
    assert asked == ([] if bound is None else [pytest.approx(bound)])
    assert str(told).startswith("in float64 the artefact computes" if bound is None else "every value of the graph")


def test_only_the_last_inputs_are_left_out_where_they_end_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(Side):
        def run(self, source: Any, feeds: Any, **more: Any) -> Any:
            if any(np.isnan(f["x"]).any() for f in feeds):
                raise BadInput("the process ended")
            return super().run(source, feeds, **more)

    source = Ended(float32=scaled(2.0), float64=scaled(2.0, np.float64))
    Sides(monkeypatch, source, Side(float32=scaled(2.0)))
    verdict = verify(SOURCE, TARGET, graph(), Options(), VerifyMethod())
    assert verdict.status == PASS
    assert [f.partition(",")[0] for f in verdict.feeds] == ["seed 0", "seed 1", "seed 2"]
