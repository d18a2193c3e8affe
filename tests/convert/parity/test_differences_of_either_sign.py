"""Differences of either sign are treated alike: smaller and larger, before and after."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import UsageError
from convert.graph import Graph
from convert.outcome.verdict import FAIL, PASS
from convert.parity.compare.declared_signature import _dims
from convert.parity.compare.outputs import _is_alike, compare, vacuous_reason
from convert.parity.evidence import RunOutputs
from convert.parity.generation.decoders import generation_of
from convert.parity.inputs.boundary_values import boundary_values, mix_boundary_values
from convert.parity.inputs.feeds import Feed, given_feed, inputs_from_samples
from convert.parity.inputs.size_search import _spread_choice
from convert.parity.inputs.special import special_difference
from convert.parity.inputs.uneven import with_unusual_rows
from convert.parity.method import VerifyMethod
from convert.parity.pairing.counterparts import Counterparts, _fits, _pair, narrow_dims
from convert.parity.pairing.weights import describe_weights
from convert.parity.runs.source_runs import _with_integers_of
from convert.parity.verify import _in_dtypes_of, verify
from convert.request.image_inputs import parse_preparation
from convert.request.options import Options
from convert.runtimes.declared_signature import DeclaredTensor
from tests.convert.parity.input_models import plain
from tests.convert.parity.test_weights import holding
from tests.support.sides import SOURCE, TARGET, Side, Sides
from tests.support.verdict_on import verdict_on

T = ir.DataType
SIDES = pytest.mark.parametrize("way", [1, -1])


@pytest.mark.parametrize(
    "numbers", [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 1.0, 2.0], [2.0, 2.0, 1.0]]
)
def test_numbers_that_rise_or_fall_are_not_one(numbers: list[float]) -> None:
    assert vacuous_reason([np.array(numbers)]) == ""
    assert vacuous_reason([np.array(numbers, int)]) == ""
    assert vacuous_reason([np.array([str(n) for n in numbers], object)]) == ""
    assert vacuous_reason([np.full(3, numbers[0])]) != ""


def test_rows_have_nan_in_the_same_places() -> None:
    number, nan = [1.0, 2.0], [np.nan, 2.0]
    assert _is_alike(np.array([number, number]))
    assert _is_alike(np.array([nan, nan]))
    assert not _is_alike(np.array([number, nan]))
    assert not _is_alike(np.array([nan, number]))


@pytest.mark.parametrize("values", [[0, 1000], [False, True], ["a", "c"]], ids=["int", "bool", "text"])
@SIDES
def test_whole_numbers_and_words_are_the_sources_or_those_of_float64(values: list[Any], way: int) -> None:
    """If the source differs between float32 and float64, either value is accepted, and no other."""
    one, two = values[::way]
    dtype = object if isinstance(one, str) else None

    def status(exact: Any, given: Any, got: Any) -> str:
        rows = [np.array([each, *values], dtype) for each in (exact, given, got)]
        return compare("y", rows[:1], rows[1:2], rows[2:]).status

    assert status(one, one, one) == status(one, two, one) == status(one, two, two) == PASS
    assert status(one, one, two) == FAIL
    if dtype is object:
        assert status(one, "b", two) == status("b", one, two) == status(one, two, "b") == FAIL


@pytest.mark.parametrize("dtype", [T.DOUBLE, T.FLOAT16, T.FLOAT])
def test_floats_of_every_width_are_compared_with_numbers(dtype: ir.DataType) -> None:
    g = Graph()
    g.output(g.Greater(g.input("x", dtype, ["n"]), np.array(8, dtype.numpy())), "y")
    assert boundary_values(g.model().graph.inputs[0]) == [4.0, 8.0, 12.0]


def test_each_feature_has_its_own_thresholds() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, ["n", 3])
    g.output(g.TreeEnsembleRegressor(x, domain="ai.onnx.ml", nodes_featureids=[0, 1, 2],
                                     nodes_values=[1e3, 1e6, 1e9], nodes_modes=["BRANCH_LEQ"] * 3), "y")  # fmt: skip
    found = mix_boundary_values(x, np.ones((300, 3), np.float32), 1)
    for column, threshold in enumerate((1e3, 1e6, 1e9)):
        drawn = found[:, column][found[:, column] != 1]
        assert len(drawn) > 100
        assert 0.1 * threshold < drawn.min() < drawn.max() < 10 * threshold


@pytest.mark.parametrize(("end", "whole"), [(1, False), (2, True), (3, False)])
def test_masks_are_integers_of_two_values(end: int, whole: bool) -> None:
    array = np.tile(np.array([0, 1]), (40, 30)) % end
    found = mix_boundary_values(plain(T.INT64).graph.inputs[0], array, 1, end)
    assert ((found == 1).all(axis=1).sum() == 4) == whole


@SIDES
def test_notes_name_what_is_called_otherwise(way: int) -> None:
    lists = SimpleNamespace(error=lambda reason, hint="": UsageError(reason))
    one, two = ([ir.Value(name=n, type=ir.TensorType(T.FLOAT), shape=ir.Shape([2]))] for n in ("a", "b")[::way])
    names = str(one[0].name), str(two[0].name)
    made = {names[0]: names[1]}
    _, notes = _pair("input", one, two, {}, made, {}, lists)  # type: ignore[arg-type]
    assert notes == [f"input {names[0]!r} is paired with {names[1]!r}"]
    _, notes = _pair("input", one, two, made, {}, {}, lists)  # type: ignore[arg-type]
    assert notes == [], "what the user said"
    assert _pair("input", one, one, {}, {}, {}, lists)[1] == []  # type: ignore[arg-type]


@SIDES
def test_kinds_of_ends_are_their_own(way: int) -> None:
    for kinds in ((T.FLOAT, T.INT64), (T.FLOAT, T.BOOL), (T.INT64, T.STRING), (T.BOOL, T.STRING)):
        one, two = (ir.Value(name="x", type=ir.TensorType(t), shape=ir.Shape([2])) for t in kinds[::way])
        assert not _fits(one, two, {})
        assert _fits(one, one, {})


@SIDES
def test_one_dim_has_one_size(way: int) -> None:
    g, other = Graph(), Graph()
    for name, size in zip("ab", (3, 5)[::way], strict=True):
        g.output(g.Neg(g.input(name, T.FLOAT, ["n"])), f"y{name}")
        other.output(other.Neg(other.input(name, T.FLOAT, [size])), f"y{name}")
    names = {"a": "a", "b": "b"}
    pairs = Counterparts(names, {f"y{n}": f"y{n}" for n in "ab"}, ["ya", "yb"], [0, 1])
    first, second = (3, 5)[::way]
    with pytest.raises(UsageError, match=f"two takes n = {first} and {second}, which is one size in one"):
        narrow_dims(g.model(), other.model(), pairs, "", ("one", "two"))


@SIDES
def test_dims_are_as_declared(way: int) -> None:
    one, two = (4, 5)[::way]
    told = [f"declares output 'y' as [{one}, ?], and gives [{two}, 3]"]
    assert _dims(DeclaredTensor("y", "float", (one, None)), [(two, 3)], {}, "y") == told
    assert _dims(DeclaredTensor("y", "float", (two, None)), [(two, 3)], {}, "y") == []


@pytest.mark.parametrize(
    ("dims", "shape"), [(["rows", 3, "past"], None), (["rows", 3, "past", 4, 1], None), (["rows", 3, 4], (3, 4))]
)
def test_a_cache_has_four_dims_or_known_ones(dims: list[Any], shape: tuple[int, ...] | None) -> None:
    g = Graph()
    ids = g.input("input_ids", T.INT64, ["rows", "steps"])
    g.output(g.Neg(g.input("past_key_values.0.key", T.FLOAT, dims)), "present.0.key")
    g.output(g.facts(g.Cast(ids, to=T.FLOAT), shape=["rows", "steps", 9]), "logits")
    found = generation_of(g.model())
    assert (found and found.cache[0].shape) == shape


def test_a_scale_may_be_negative() -> None:
    assert parse_preparation("scale=-2").scale == -2.0
    assert parse_preparation("std=-2").std == (-2.0,)


@pytest.mark.parametrize("names", ["", "a", "b", "abc", "ac", "bc", "cd"])
def test_inputs_are_all_there_and_no_others(names: str) -> None:
    g = Graph()
    for name in "ab":
        g.output(g.Neg(g.input(name, T.FLOAT, [2])), f"y{name}")
    with pytest.raises(UsageError, match="the inputs given are"):
        given_feed(g.model(), {name: np.zeros(2, np.float32) for name in names})


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
def test_inputs_are_of_the_dtype_and_the_shape_of_the_model(shape: tuple[int, ...], dtype: Any) -> None:
    model = plain(shape=[3])
    with pytest.raises(UsageError, match="the model takes"):
        given_feed(model, {"x": np.zeros(shape, dtype)})
    if dtype is not np.float32:
        with pytest.raises(UsageError, match="the model takes float32"):
            given_feed(model, {"x": np.zeros(3, dtype)})


@pytest.mark.parametrize(
    ("shape", "taken"), [((40, 3), (8, 3)), ((40,), (8,)), ((40, 3, 2), (3, 2)), ((9, 2, 3, 2), (8, 2, 3, 2))]
)
def test_samples_are_a_batch_or_one_of_several(shape: tuple[int, ...], taken: tuple[int, ...]) -> None:
    found = inputs_from_samples(plain(shape=("n", 3)), {"x": np.zeros(shape)}, most=8)["x"]
    assert found.shape == taken


@SIDES
def test_outputs_are_those_of_the_graph(way: int) -> None:
    """The target has other output names, fewer outputs, or more."""
    model, feeds, exact = plain(shape=[2]), [Feed("one", {"x": np.ones(2, np.float32)})], [{"y": np.arange(2.0)}]
    single = [{"y": np.arange(2, dtype=np.float32)}]
    runs = RunOutputs({"float32": single, "float64": exact}, [{"yz"[way < 0]: single[0]["y"]}], exact)
    assert verdict_on(model, feeds, runs, VerifyMethod()).at_fault == ("" if way > 0 else "backend")
    for names in (["x"], ["y", "z"], []):
        target = [dict.fromkeys(names, single[0]["y"])]
        found = verdict_on(
            model, feeds, RunOutputs({"float32": single, "float64": exact}, target, exact), VerifyMethod()
        )
        assert (found.status, found.at_fault) == (FAIL, "backend")
    for names in (["y", "z"], []):
        source = [dict.fromkeys(names, single[0]["y"])]
        found = verdict_on(
            model, feeds, RunOutputs({"float32": source, "float64": exact}, single, exact), VerifyMethod()
        )
        assert (found.status, found.at_fault) == (FAIL, "frontend")


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float16, np.bool_])
def test_outputs_are_of_the_dtype_of_the_graph(dtype: Any) -> None:
    model, feeds, exact = plain(shape=[2]), [Feed("one", {"x": np.ones(2, np.float32)})], [{"y": np.arange(2.0)}]
    other = [{"y": np.arange(2).astype(dtype)}]
    found = verdict_on(model, feeds, RunOutputs({"float32": other, "float64": exact}, other, exact), VerifyMethod())
    assert (found.status, found.at_fault) == (FAIL, "frontend")


@SIDES
def test_sizes_that_change_to_either_side_are_chosen(way: int) -> None:
    first = {"n": 16, "t": 16}
    one, both = {"n": 16 + 2 * way, "t": 16}, {"n": 16 + way, "t": 16 - way}
    assert _spread_choice(first, [one], 3) == [first, one]
    assert _spread_choice(first, [one, both], 3) == [first, both]
    assert _spread_choice(first, [both, one], 3) == [first, both]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_examples_integers_have_their_own_shape(rows: int) -> None:
    g = Graph()
    g.output(g.Abs(g.input("i", T.INT64, ["n"])), "yi")
    g.output(g.Abs(g.input("x", T.FLOAT, ["n"])), "yx")
    example = Feed("given inputs", {"i": np.array([7, 5]), "x": np.ones(2, np.float32)})
    drawn = Feed("seed 0", {"i": np.zeros(rows, int), "x": np.zeros(rows, np.float32)})
    found = _with_integers_of(example, g.model(), lambda sizes, spans: [drawn])
    assert [feed.arrays["i"].tolist() for feed in found] == ([[7, 5]] if rows == 2 else [])


@SIDES
def test_only_what_float32_and_float64_have_alike_is_certain(way: int) -> None:
    one, two, three = (np.array([n, 9, 9]) for n in (1, 2, 3)[::way])
    assert special_difference(one, two, None, three) == ""
    assert special_difference(two, two, one, three) == ""
    assert special_difference(one, one, None, three).startswith("1 of 3 elements differ")
    for number, other in ((np.nan, 1.0), (np.inf, 1.0), (-np.inf, 1.0), (np.nan, np.inf), (np.inf, -np.inf)):
        a, b = (np.array([n, 9.0, 9.0]) for n in (number, other)[::way])
        assert special_difference(a, a, None, b).startswith("1 of 3 elements differ")
        assert special_difference(a, b, None, b) == special_difference(b, b, a, a) == ""
        assert special_difference(a, a, a, a) == ""


def test_every_sixth_set_has_a_negative_row() -> None:
    feeds = [Feed(str(n), {"x": np.ones((4, 3), np.float32)}) for n in range(14)]
    found = with_unusual_rows(plain(shape=("n", 3)), feeds)
    assert [n for n, feed in enumerate(found) if (feed.arrays["x"] < 0).any()] == [2, 8]


@pytest.mark.parametrize("dtype", [T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE, T.INT64])
@pytest.mark.parametrize("given", [np.float16, np.float32, np.float64, np.int64, np.int8])
def test_only_halves_of_floats_are_widened(dtype: ir.DataType, given: Any) -> None:
    (found,) = _in_dtypes_of(plain(dtype), [{"y": np.zeros(2, given), "z": np.zeros(2, np.float16)}])
    assert found["y"].dtype == (np.float32 if dtype == T.FLOAT and given is np.float16 else given)
    assert found["z"].dtype == np.float16


@pytest.mark.parametrize(
    ("ours", "theirs", "paired"), [(1, 1, 1), (1, 2, 0), (2, 1, 0), (2, 2, 2), (3, 2, 0), (2, 3, 0)]
)
def test_weights_of_one_size_are_paired_where_they_are_as_many(ours: int, theirs: int, paired: int) -> None:
    arrays = [np.linspace(1, 2 + n, 12, dtype=np.float32) for n in range(5)]
    left = holding(**{f"a{n}": arrays[n] for n in range(ours)})
    right = holding(**{f"b{n}": arrays[n] * np.float32(1.5) for n in range(theirs)})
    told = describe_weights(left, right, ("one", "two"))
    assert told.count(" by ") == paired
    assert (f", {ours} without a counterpart" in told) == (not paired)


def test_words_that_differ_are_a_failure_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rounding of sums explains them, so none is searched for."""

    def same(arrays: Any) -> dict[str, np.ndarray]:
        return {"y": arrays["x"]}

    def longer(arrays: Any) -> dict[str, np.ndarray]:
        return {"y": arrays["x"] + "!"}

    Sides(monkeypatch, Side(float32=same, float64=same), Side(float32=longer))
    verdict = verify(SOURCE, TARGET, plain(T.STRING), Options())
    assert (verdict.status, verdict.at_fault) == (FAIL, "backend")
    assert verdict.reason.startswith("y: 8 of 8 elements differ")
