"""Unusual sizes and numbers: the samples, the defects that they find, and refusals of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput, Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY
from convert.outcome.verdict import FAIL, PASS, Verdict
from convert.parity.compare.overflow import without_overflow
from convert.parity.evidence import RunOutputs
from convert.parity.inputs.feeds import Feed, feed_sizes, generate_feeds
from convert.parity.inputs.size_search import _spread_choice
from convert.parity.inputs.uneven import far_feed, longest_feed, offset_feed, uneven_feed, with_unusual_rows
from convert.parity.verify import verify
from convert.request.options import Options
from tests.convert.parity.input_models import plain as identity
from tests.support.sides import SOURCE, TARGET, Arrays, F, Function, Side, Sides, graph, scaled

MAP = ("n", 3, "h", "w")


def network(*inputs: Sequence[int | str | None], dtype: ir.DataType = F, weights: int = 0) -> ir.Model:
    """Return Abs of inputs with the given dims, and a constant of `weights` numbers."""
    g = Graph()
    for number, dims in enumerate(inputs):
        value = g.input(f"x{number}", dtype, [d if d is not None else 1 for d in dims])
        value.shape = ir.Shape(dims)
        g.output(g.Abs(value), f"y{number}")
    if weights:
        g.output(g.Neg(np.zeros(weights, np.float32)), "z")
    return g.model()


def shapes(feed: Feed | None) -> list[tuple[int, ...]]:
    assert feed is not None
    return [array.shape for array in feed.arrays.values()]


def test_the_third_of_the_usual_sizes_is_no_square() -> None:
    made = network(MAP)
    assert list(feed_sizes(made, 3)) == [
        {"n": 2, "h": 16, "w": 16}, {"n": 1, "h": 16, "w": 16}, {"n": 3, "h": 17, "w": 18}
    ]  # fmt: skip
    assert list(feed_sizes(made, 3, alike=True))[2] == {"n": 3, "h": 17, "w": 17}
    made.metadata_props[DIMS_KEY] = json.dumps({"w": [1, 17]})
    assert list(feed_sizes(made, 3))[2] == {"n": 3, "h": 17, "w": 17}


def test_dims_without_a_name_are_as_long_as_those_at_their_place_in_other_inputs() -> None:
    sizes = list(feed_sizes(network((2, None, None), (2, None, None)), 3))[2]
    assert sizes == {"x0.1": 17, "x1.1": 17, "x0.2": 18, "x1.2": 18}
    assert list(feed_sizes(network((2, "a"), (2, "b")), 3))[2] == {"a": 17, "b": 18}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (network(MAP), [(65, 3, 129, 20)]),
        (network(MAP, weights=10_000), [(9, 3, 65, 20)]),  # convolutions cost pixels times weights
        (network(MAP, weights=100_000), [(9, 3, 19, 20)]),
        (network(MAP, weights=5_000), [(9, 3, 129, 20)]),
        (network(("n", "t")), [(65, 129)]),
        (network(("n", "t"), dtype=ir.DataType.INT64), [(65, 129)]),
        (network(("n", 6), ("n", "t")), [(65, 6), (65, 129)]),
        (network((1, 3, 8, 8)), [(1, 3, 8, 8)]),
    ],
)
def test_sizes_beyond_the_usual_ones(made: ir.Model, expected: list[tuple[int, ...]]) -> None:
    feed = uneven_feed(made, 4)
    assert shapes(feed) == expected
    assert feed is not None
    assert (feed.edge, feed.uneven, feed.special) == (True, True, False)


def test_where_nothing_would_be_new_or_cheap_there_is_none() -> None:
    assert uneven_feed(network((2, 3), dtype=ir.DataType.INT64), 4) is None
    assert uneven_feed(network((2, 3)), 4, large=False) is None
    assert uneven_feed(network(MAP, weights=1_000_000), 4) is None
    unranked = network((2, 3))
    unranked.graph.inputs[0].shape = None
    assert uneven_feed(unranked, 4) is None


def quantizing() -> ir.Model:
    g = Graph()
    x = g.input("x", F, ["n", 4])
    step, zero = np.float32(0.1), np.uint8(128)
    g.output(g.DequantizeLinear(g.QuantizeLinear(x, step, zero), step, zero), "y")
    return g.model()


def test_a_graph_that_quantizes_is_given_none() -> None:
    """Rounding moves some of many numbers to another step: a right conversion was INCONCLUSIVE."""
    assert (uneven_feed(quantizing(), 4), far_feed(quantizing(), 5), offset_feed(quantizing(), 7)) == (None, None, None)
    assert uneven_feed(network(("n", 4)), 4) is not None
    assert far_feed(network(("n", 4)), 5) is not None
    assert offset_feed(network(("n", 4)), 7) is not None


def test_numbers_in_the_thousands_are_of_the_second_usual_sizes() -> None:
    feed, (_, plain) = far_feed(network(MAP), 1), generate_feeds(network(MAP), 2)
    assert shapes(feed) == [(1, 3, 16, 16)]
    assert feed is not None
    assert np.array_equal(feed.arrays["x0"][:, 1:], 2048 * plain.arrays["x0"][:, 1:])
    assert np.array_equal(feed.arrays["x0"][:, 0], 64 * 2048 * plain.arrays["x0"][:, 0])
    assert (feed.edge, feed.uneven) == (True, True)
    assert feed.label.endswith("2048 times as large, the first channel 64 times more")
    row = far_feed(network(("n",)), 1)
    assert row is not None
    assert row.label.endswith("2048 times as large")
    assert far_feed(network((2, 3), dtype=ir.DataType.INT64), 5) is None
    assert far_feed(network(MAP, weights=1_000_000), 5) is None


def test_numbers_far_from_zero_are_of_the_first_usual_sizes() -> None:
    feed, (plain,) = offset_feed(network(MAP), 0), generate_feeds(network(MAP), 1)
    assert shapes(feed) == [(2, 3, 16, 16)]
    assert feed is not None
    assert np.array_equal(feed.arrays["x0"], plain.arrays["x0"] + np.float32(1000))
    assert (feed.edge, feed.uneven, feed.label.rpartition(", ")[2]) == (True, True, "1000 added")
    assert offset_feed(network((2, 3), dtype=ir.DataType.INT64), 7) is None
    assert offset_feed(network(MAP, weights=1_000_000), 7) is None


@pytest.mark.parametrize(("dims", "rows"), [(("n", 6), 3), ((1, 6), 1), ((2, 6), 2), ((), 0)])
@pytest.mark.parametrize("small", [True, False])
def test_the_last_row_of_the_third_usual_set_is_negative(dims: Sequence[int | str], rows: int, small: bool) -> None:
    """In a larger model the row before it has larger numbers, and the row before that has numbers far from zero, if
    there are such rows.
    """
    made = network(dims, ("n", 2), weights=0 if small else 1_000_000)
    usual = generate_feeds(made, 8)
    feeds = with_unusual_rows(made, usual)
    changed = [i for i, (a, b) in enumerate(zip(feeds, usual, strict=True)) if a is not b]
    assert changed == [2]  # the ninth would be the next
    got, plain = feeds[2].arrays["x0"], usual[2].arrays["x0"]
    assert np.array_equal(np.atleast_1d(got)[-1], np.atleast_1d(-np.abs(plain))[-1])
    if rows > 2:
        assert np.array_equal(got[: rows - 2], plain[: rows - 2] + np.float32(0 if small else 16))
    if rows > 1:
        assert np.array_equal(got[-2], plain[-2] * (1 if small else 16))
    assert feeds[2].uneven is not small
    assert not with_unusual_rows(made, usual, large=False)[2].uneven


def test_usual_sets_without_floats_stay_as_they_are() -> None:
    made = network(("n", 6), dtype=ir.DataType.UINT8)
    usual = generate_feeds(made, 3)
    assert with_unusual_rows(made, usual) == usual
    quantized = with_unusual_rows(quantizing(), generate_feeds(quantizing(), 3))
    assert [feed.uneven for feed in quantized] == [False] * 3


def test_uneven_sizes_stay_within_bounds() -> None:
    made = network(MAP)
    made.metadata_props[DIMS_KEY] = json.dumps({"n": [1, 5], "h": [32, 40]})
    assert shapes(uneven_feed(made, 4)) == [(5, 3, 40, 20)]
    assert shapes(uneven_feed(network(MAP), 4, alike=True)) == [(9, 3, 129, 129)]


@pytest.mark.parametrize(("dims", "kept"), [(("n", 6), 44), ((3, 6), 2), ((1, 6), 0)])
def test_the_last_rows_are_larger(dims: Sequence[int | str], kept: int) -> None:
    made = network(dims)
    feed, plain = uneven_feed(made, 4), uneven_feed(network(("n", 6)), 4, large=False)
    assert feed is not None
    assert plain is not None
    array = feed.arrays["x0"]
    usual = plain.arrays["x0"][: len(array)]
    assert np.array_equal(array[:kept], usual[:kept])
    assert np.array_equal(array[kept:], 16 * usual[kept:])
    assert len(array) > kept


# Each is right for two to four rows, for square maps and for normal numbers.
DEFECTS = {
    "many rows": lambda x: len(x) > 8,
    "more rows than a block": lambda x: len(x) > 64,
    "no square": lambda x: x.shape[2] != x.shape[3],
    "a long side": lambda x: max(x.shape[2:]) > 64,
    "beyond six": lambda x: np.where(np.abs(x) > 6, 1, 0),
    "beyond ten": lambda x: np.where(np.abs(x) > 10, 1, 0),
    "beyond a thousand": lambda x: np.where(np.abs(x) > 1000, 1, 0),
    "a row beyond a thousand": lambda x: x.max(axis=(1, 2, 3), keepdims=True) > 1000,
    "a side beyond a hundred": lambda x: max(x.shape[2:]) > 100,
    "all negative": lambda x: x.max(axis=(1, 2, 3), keepdims=True) < 0,
}


def linear(dtype: type = np.float32, defect: str = "") -> Function:
    """Return x / (1 + |x| / 64), which is what `bent` computes; 1 % off where there is a defect."""

    def function(arrays: Arrays) -> dict[str, np.ndarray]:
        x = arrays["x"].astype(np.float64)
        off = 0.01 * np.asarray(DEFECTS[defect](x)) if defect else 0.0
        with np.errstate(invalid="ignore"):
            return {"y": (x / (1 + np.abs(x) / 64) * (1 + off)).astype(dtype)}

    return function


def bent() -> ir.Model:
    g = Graph()
    x = g.input("x", F, MAP)
    g.output(g.Div(x, g.Add(np.float32(1), g.Div(g.Abs(x), np.float32(64)))), "y")
    return g.model()


@pytest.mark.parametrize("defect", ["", *DEFECTS])
def test_a_defect_beyond_the_usual_sizes_and_numbers_is_seen(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Sides(monkeypatch, Side(float32=linear(), float64=linear(np.float64)), Side(float32=linear(defect=defect)))
    assert verify(SOURCE, TARGET, bent(), Options()).status == (FAIL if defect else PASS)


def held(monkeypatch: pytest.MonkeyPatch, refused: Mapping[str, object], dims: Sequence[int | str]) -> Verdict:
    """Return the verdict for a source that refuses inputs which meet one of the conditions."""

    def picky(dtype: type) -> Function:
        def function(arrays: Arrays) -> dict[str, np.ndarray]:
            if any(condition(arrays["x"]) for condition in refused.values()):  # type: ignore[operator]
                raise BadInput("not these")
            return scaled(2.0, dtype)(arrays)

        return function

    Sides(monkeypatch, Side(float32=picky(np.float32), float64=picky(np.float64)), Side(float32=scaled(2.0)))
    return verify(SOURCE, TARGET, graph(dims=dims), Options())


def test_a_source_that_takes_squares_only_is_compared_on_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = held(monkeypatch, {"square": lambda x: x.shape[2] != x.shape[3]}, MAP)
    assert (verdict.status, len(verdict.feeds)) == (PASS, 9)
    assert "n=3, h=17, w=17" in verdict.feeds[2]
    assert "n=9, h=129, w=129" in verdict.feeds[5]
    (note,) = verdict.notes
    assert note == "the source does not run where the sides of its inputs are not alike: compared with such as are"


def test_a_source_that_refuses_many_rows_is_still_given_the_smallest_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = held(monkeypatch, {"few": lambda x: len(x) > 8}, ("n", "t"))
    assert (verdict.status, verdict.notes) == (PASS, [])
    assert [feed.split(", ")[3] for feed in verdict.feeds[:7]] == [
        "t=16",
        "t=16",
        "t=17",
        "t=16",
        "t=16",
        "t=257",
        "t=1",
    ]
    assert len(verdict.feeds) == 8


def test_a_source_that_refuses_large_numbers_is_still_given_many_rows_of_usual_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict = held(monkeypatch, {"large": lambda x: np.abs(x).max() > 1000}, ("n", "t"))
    assert (verdict.status, verdict.notes) == (PASS, [])
    assert [feed.split(", ")[2] for feed in verdict.feeds[:5]] == ["n=2", "n=1", "n=3", "n=65", "n=1"]


def test_special_values_that_the_target_refuses_leave_the_other_sets_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def target(arrays: Arrays) -> dict[str, np.ndarray]:
        if np.isnan(arrays["x"]).any():
            raise BadInput("no NaN")
        return {"y": scaled(2.0 if arrays["x"].shape[1] > 1 else 2.001)(arrays)["y"]}

    Sides(monkeypatch, Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)), Side(float32=target))
    verdict = verify(SOURCE, TARGET, graph(dims=("n", "t")), Options())
    assert verdict.status == FAIL  # on the smallest sizes, which come last
    assert "2048 times as large" in verdict.feeds[3]
    assert "1000 added" in verdict.feeds[4]
    assert "the last rows 16 times as large" in verdict.feeds[5]
    assert "n=1, t=257" in verdict.feeds[6]
    assert "n=1, t=1" in verdict.feeds[7]


def outputs(*arrays: Sequence[float]) -> list[dict[str, np.ndarray]]:
    return [{"y": np.array(a)} for a in arrays]


@pytest.mark.parametrize(
    ("single", "exact", "left"),
    [
        ([1.0, np.inf], [1.0, 1e39], 1),
        ([np.nan, 1.0], [2.0, 1.0], 1),
        ([np.inf, 1.0], [np.inf, 1.0], 2),
        ([1.0, 2.0], [1.0, np.inf], 2),
        ([1.0, 2.0], [1.0, 2.0], 2),
    ],
)
def test_a_set_on_which_the_source_overflows_is_left_out(single: list[float], exact: list[float], left: int) -> None:
    feeds = [Feed("seed 0", {}), Feed("large", {}, edge=True, uneven=True)]
    plain = [1.0, 2.0]
    runs = RunOutputs({"float32": outputs(plain, single), "float64": outputs(plain, exact)}, outputs(plain, single),
                      outputs(plain, exact), others={"two": outputs(plain, single), "one": outputs(plain)})  # fmt: skip
    kept, rest, notes = without_overflow(identity(), feeds, runs)
    assert len(kept) == len(rest.target) == len(rest.graph_float64) == left  # type: ignore[arg-type]
    assert [len(o) for o in rest.source.values()] == [left, left]  # type: ignore[arg-type]
    assert [len(o) for o in rest.others.values()] == [left, 1]
    assert notes == ([] if left == 2 else [
        "larger numbers are not verified: in its own dtypes the source overflows on large"
    ])  # fmt: skip


def test_a_set_on_which_the_target_alone_has_numbers_is_left_out() -> None:
    """log(softmax(x)) of numbers in the thousands, which runtimes replace by log_softmax(x)."""
    feeds = [Feed("seed 0", {}), Feed("large", {}, edge=True, uneven=True)]
    lost, found = [-np.inf, 1.0], [-5000.0, 1.0]
    runs = RunOutputs({"float32": outputs([1.0, 2.0], lost), "float64": outputs([1.0, 2.0], lost)},
                      outputs([1.0, 2.0], found), outputs([1.0, 2.0], lost))  # fmt: skip
    kept, _, notes = without_overflow(identity(), feeds, runs)
    assert len(kept) == 1
    assert notes == ["larger numbers are not verified: the source is infinite or NaN, and the target is not, on large"]
    other = RunOutputs(runs.source, outputs([1.0, 2.0], [-np.inf, np.inf]), runs.graph_float64)
    assert len(without_overflow(identity(), feeds, other)[0]) == 2, "infinities of its own are an error"


@pytest.mark.parametrize(
    ("single", "target", "left"),
    [
        ([3.0, 5.0], [3.1, 5.0], 1),
        ([3.0, 5.0], [12.0, 5.0], 2),
        ([3.9, 4.0], [3.9, 4.0], 2),
        ([3.0, 4.0], [3.0, 4.0], 1),
    ],
)
def test_a_set_that_only_rounds_is_left_out(single: list[float], target: list[float], left: int) -> None:
    """Gates saturated by large numbers: the source in float32 is off by a tenth of the output and more."""
    feeds = [Feed("seed 0", {}), Feed("large", {}, edge=True, uneven=True)]
    exact = outputs([1.0, 2.0], [4.0, 4.0])
    runs = RunOutputs({"float32": outputs([1.0, 2.0], single), "float64": exact}, outputs([1.0, 2.0], target), exact)
    kept, _, notes = without_overflow(identity(), feeds, runs)
    assert len(kept) == left
    assert [n.startswith("larger numbers are not verified: rounding alone moves") for n in notes] == [True] * (2 - left)


TINY = 2.0**-30


@pytest.mark.parametrize(
    ("single", "exact", "target", "left"),
    [
        ([TINY, TINY], [TINY, TINY], [0.0, 0.0], 1),
        ([TINY, TINY], [TINY, TINY], [TINY, TINY], 2),
        ([TINY, TINY], [TINY, TINY], [TINY, 2.0**-20], 2),
        ([0.0, 0.0], [0.0, 0.0], [TINY, TINY], 2),
        ([2.0**-20] * 2, [2.0**-20] * 2, [0.0, 0.0], 2),
    ],
)
def test_a_set_on_which_an_output_vanishes_is_left_out(
    single: list[float], exact: list[float], target: list[float], left: int
) -> None:
    """Derivatives of saturated functions are almost 0, and kernels differ in their remaining digits."""
    feeds = [Feed("seed 0", {}), Feed("large", {}, edge=True, uneven=True)]
    usual = [1.0, 2.0]
    source = {"float32": outputs(usual, single), "float64": outputs(usual, exact)}
    runs = RunOutputs(source, outputs(usual, target), outputs(usual, exact))
    kept, _, notes = without_overflow(identity(), feeds, runs)
    assert len(kept) == left
    reason = "an output is smaller than a rounding of what it is on other inputs"
    assert notes == ([] if left == 2 else [f"larger numbers are not verified: {reason} on large"])
    edge = [feeds[0], Feed("large", {}, edge=True)]
    assert len(without_overflow(identity(), edge, runs)[0]) == 2, "it is about sets of larger numbers"


def test_without_a_float64_run_the_graph_tells_what_overflows() -> None:
    feeds = [Feed("large", {}, edge=True, uneven=True), Feed("smallest", {}, edge=True)]
    runs = RunOutputs({"float32": outputs([np.inf], [1.0]), "float64": Unsupported("no")}, outputs([1.0], [1.0]),
                      outputs([1e39], [1.0]), stand_ins=2)  # fmt: skip
    kept, rest, _ = without_overflow(identity(), feeds, runs)
    assert ([f.label for f in kept], len(rest.target), rest.stand_ins) == (["smallest"], 1, 1)


def test_sizes_found_by_trial_are_not_all_squares() -> None:
    first = {"n": 1, "h": 32, "w": 32}
    taken = [{"n": 1, "h": 64, "w": 64}, {"n": 1, "h": 64, "w": 32}]
    assert _spread_choice(first, taken, 3, ["h", "w"]) == [first, *taken]
    assert _spread_choice(first, taken, 2, ["h", "w"]) == [first, taken[0]]
    assert _spread_choice(first, taken[:1], 3, ["h", "w"]) == [first, taken[0]]


def positions(way: str, rows: int = 300, dims: Sequence[int | str] = ("n", "t")) -> ir.Model:
    """Return the rows of a table, by position, for each of the t elements of a row."""
    g = Graph()
    x = g.input("x", ir.DataType.INT64, dims)
    table = g.const(np.zeros((rows, 2), np.float32))
    length = g.Shape(x, start=1, end=2)
    if way == "slice":
        taken = g.Slice(table, [0], length, [0])
    elif way == "gather":
        taken = g.Gather(table, g.Range(np.int64(0), g.Squeeze(length, [0]), np.int64(1)))
    else:
        taken = g.Gather(table, x)
    g.output(g.Add(g.Unsqueeze(g.Cast(x, to=F), [2]), taken), "y")
    return g.model()


def test_a_set_is_as_long_as_a_table_of_positions() -> None:
    """An error in the last rows of the table shows nowhere else."""
    for way in ("slice", "gather"):
        assert shapes(longest_feed(positions(way), 4)) == [(1, 300)]
    assert longest_feed(positions("content"), 4) is None, "a vocabulary"
    assert longest_feed(positions("slice", rows=128), 4) is None, "another set is as long"
    assert longest_feed(positions("slice", rows=2000), 4) is None
    assert longest_feed(positions("slice", dims=("n", 16)), 4) is None
    known = positions("slice")
    known.metadata_props[DIMS_KEY] = json.dumps({"t": [1, 300]})
    assert longest_feed(known, 4) is None, "that many rows are in the set of many rows"
