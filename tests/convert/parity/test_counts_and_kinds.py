"""Small functions of the verdict by hand: counts of what differs, kinds of numbers, the largest, masks, boundaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.declared_ends import DeclaredEnd, DeclaredEnds
from convert.graph import Graph
from convert.parity import declared_ends
from convert.parity.boundary_values import _MOST, _with_whole_rows, boundary_values, mix_boundary_values
from convert.parity.compare import _count_wrong, _same_kind, _structure_difference, compare
from convert.parity.declared_ends import _dims
from convert.parity.distribution import distribution_difference
from convert.parity.draws import unsettled_feeds
from convert.parity.floors import excuse_order
from convert.parity.given_arrays import with_pairs
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.parity.magnitudes import _may_have_gap, noise_beside, smaller_columns, smaller_parts
from convert.parity.nonfinite import _MOVES, _kinds, _moved_runs
from convert.parity.special import _kinds as kinds_of_elements
from convert.parity.ties import _is_near_tie, _largest, is_tied
from convert.parity.uneven import _overflow_reason, _times
from convert.parity.weights import _comparable
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, SetErrors, Verdict

T = ir.DataType


def test_wrong_integers_of_a_source_of_another_shape_are_those_that_differ() -> None:
    source, target = np.array([1, 2, 3, 4, 5]), np.array([1, 3, 2, 4, 5])
    assert _count_wrong(np.zeros(2, np.int64), source, target) == 2
    assert _count_wrong(np.zeros(2, np.int64), source, source.copy()) == 0


def test_each_element_is_a_number_or_the_same_infinity_or_nan_on_both_sides() -> None:
    a = np.array([1.0, np.nan, np.inf, -np.inf, np.nan, np.inf, 1.0, 2.0, np.inf])
    b = np.array([3.0, np.nan, np.inf, -np.inf, np.inf, -np.inf, np.nan, np.inf, 0.0])
    assert _same_kind(a, b).tolist() == [True, True, True, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("content", "kinds"),
    [([1.0], set()), ([np.nan], {"nan"}), ([np.inf, 1], {"+"}), ([-np.inf, 1], {"-"}),
     ([np.nan, -np.inf, np.inf], {"nan", "+", "-"}), ([3], set())],
)  # fmt: skip
def test_kinds_of_an_array(content: list[float], kinds: set[str]) -> None:
    assert _kinds(np.array(content, np.float32)) == kinds
    assert _kinds(np.array([7])) == set()


def test_kinds_of_elements() -> None:
    given = [0.0, np.nan, np.inf, -np.inf]
    assert kinds_of_elements(np.array(given)).tolist() == [0, 1, 2, 3]
    assert kinds_of_elements(np.array([1 + 2j, complex(np.nan, 0), complex(0, np.inf)])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 9])
def test_places_of_the_largest(most: int) -> None:
    off = np.array([3.0, 0.0, 5.0, 5.0, 1.0, 2.0])
    assert _largest(off, most) == [2, 3, 0, 5, 4][:most]


def test_columns_that_are_far_smaller_are_found_whatever_the_size_of_the_whole() -> None:
    small = np.ones((40, 2))
    small[:, 1] = 1e-6
    for size in (1.0, 1e200, 1e-200):
        (mask,) = smaller_columns(small * size)
        assert mask[:, 1].all()
        assert not mask[:, 0].any()
    for count in (7, 8, 9):
        assert len(smaller_columns(small[:count])) == (count >= 8), count


@pytest.mark.parametrize("count", [_MOST - 1, _MOST, _MOST + 1])
def test_tables_beyond_a_length_are_no_boundaries(count: int) -> None:
    g = Graph()
    x = g.input("x", T.INT64, ["n", 1])
    g.output(g.Equal(x, np.arange(10, 10 + count)[None]), "y")
    assert bool(boundary_values(g.model().graph.inputs[0])) == (count <= _MOST)


def test_an_absent_bound_of_a_clip_is_none() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, ["n"])
    g.output(g.node("Clip", [x, None, g.const(np.float32(6))]), "y")
    assert boundary_values(g.model().graph.inputs[0]) == [3.0, 6.0, 9.0]


def test_what_bounds_a_clip_is_compared_with_nothing() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [])
    g.output(g.node("Clip", [g.const(np.ones(3, np.float32)), g.const(np.float32(-1)), x]), "y")
    assert boundary_values(g.model().graph.inputs[0]) == []


@pytest.mark.parametrize("rows", [1, 2, 3, 64, 128])
def test_some_rows_of_masks_are_whole(rows: int) -> None:
    mask = np.tile(np.array([True, False, True, False]), (rows, 1))
    made = _with_whole_rows(mask.copy(), np.random.default_rng(0))
    filled, emptied = made.all(1).sum(), (~made).all(1).sum()
    assert (filled, emptied) == ((0, 0) if rows < 3 else (max(1, rows // 10), max(1, rows // 10)))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_indices_of_two_choices_have_whole_rows_where_there_are_several(size: int) -> None:
    g = Graph()
    x = g.input("x", T.INT64, [1, size])
    g.output(g.Gather(g.const(np.zeros((2, 3), np.float32)), x), "y")
    value = g.model().graph.inputs[0]
    made = mix_boundary_values(value, np.zeros((1, size), np.int64), 1, 2)
    assert made is not None
    assert set(made.ravel().tolist()) <= {0, 1}


def test_of_padded_steps_a_fifth_of_the_rows_is_one_number() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, ["n", "t", 4])
    g.output(g.Greater(x, np.float32(0.5)), "y")
    array = np.random.default_rng(0).normal(size=(40, 50, 4)).astype(np.float32)
    made = mix_boundary_values(g.model().graph.inputs[0], array.copy(), 1)
    assert made is not None
    whole = (made == made[..., :1]).all(-1).mean()
    others = (made != array).mean()
    assert 0.15 < whole < 0.25
    assert 0.18 < others < 0.28


def test_draws_of_other_centres_and_spreads_differ() -> None:
    rng = np.random.default_rng(0)

    def draws(centre: float, spread: float) -> list[np.ndarray]:
        return [centre + spread * rng.normal(size=50) for _ in range(400)]

    assert not distribution_difference(draws(100, 1), draws(100, 1))
    assert distribution_difference(draws(3, 1), draws(4, 1))
    assert distribution_difference(draws(0, 1), draws(0, 2))


def test_single_weights_are_compared_by_name_only() -> None:
    one, many, none = (ir.tensor(np.arange(n, dtype=np.float32)) for n in (1, 3, 0))
    assert list(_comparable({"a": one, "b": many}, {})) == ["b"]
    assert list(_comparable({"a": one, "b": many}, {"a": one})) == ["a", "b"]
    assert list(_comparable({"a": one}, {"a": many})) == []
    assert list(_comparable({"a": none}, {})) == []
    assert list(_comparable({"a": one}, {"a": none})) == []


def test_a_source_that_only_rounds_and_an_exact_output() -> None:
    """An output that nothing moves does not keep the note from the one that rounding alone moves."""
    exact, single = np.ones(4), np.full(4, 3.0, np.float32)
    still = np.zeros(4, np.float32)
    reason = _overflow_reason([single, still], [exact, still.astype(np.float64)], [single, still])
    assert reason.startswith("rounding alone moves the source by")
    assert not _overflow_reason([still], [still.astype(np.float64)], [still])


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64"), ("int32", "int64"), ("i8", "i4")])
def test_another_dtype_is_a_difference_whichever_is_wider(dtypes: tuple[str, str]) -> None:
    source, target = (np.ones(3, np.dtype(d)) for d in dtypes)
    assert _structure_difference(source, target) == f"dtype {target.dtype} where the source has {source.dtype}"
    assert not _structure_difference(source, source.copy())


@pytest.mark.parametrize("count", [1, 8, 1000])
def test_gaps_are_looked_for_from_half_of_one_on(count: int) -> None:
    """2^13 times as large may be a gap of 10,000 by powers of two, 2^12 times may not."""
    found = [_may_have_gap(np.array([1.0] * count + [2.0**k])) for k in range(1, 20)]
    assert found == [k >= 13 for k in range(1, 20)]
    spread = [_may_have_gap(np.array([1.5] * count + [4.0] * count + [2.0**k])) for k in range(1, 20)]
    assert spread == [k >= 14 for k in range(1, 20)]


@pytest.mark.parametrize("seed", range(6))
def test_a_gap_is_never_missed_by_powers_of_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        sizes = 2.0 ** rng.uniform(-20, 20, rng.integers(2, 12))
        ordered = np.sort(sizes)
        below = [np.sqrt(np.mean(ordered[:n] ** 2)) for n in range(1, len(ordered))]
        edges = [float(edge) for edge, after, mean in zip(ordered, ordered[1:], below, strict=False)
                 if after >= 1e4 * mean]  # fmt: skip
        wanted = [(sizes <= edge).tolist() for edge in reversed(edges)]
        if ordered[0] < 1e4:
            assert [mask.tolist() for mask in smaller_parts(sizes)] == wanted


@pytest.mark.parametrize(
    ("dims", "shape", "text"),
    [((300, None), (300, 4), ""), ((300, 4), (300, 5), "as [300, 4], and gives [300, 5]"),
     ((None,), (300, 4), "as [?], and gives [300, 4]"), (None, (300, 4), "")],
)  # fmt: skip
def test_declared_dims_are_those_that_are_given(dims: Any, shape: tuple[int, ...], text: str) -> None:
    end = DeclaredEnd("y", "float32", dims)
    given = tuple(int(str(size)) for size in shape)
    assert _dims(end, [given], {}, "y") == ([f"declares output 'y' {text}"] if text else [])
    both = _dims(end, [given[:1] * 2, given], {}, "y")
    assert bool(both) == (bool(text) or dims == (300, 4))


def test_a_tie_by_chance_beside_one_that_is_picked_alike() -> None:
    """Two numbers that are one by chance come apart when they move; a row that nothing rounds is no reason not to ask.

    Copies of one number stay equal, and have to be picked alike.
    """
    g = Graph()
    x = g.input("x", T.FLOAT, ["n", 2])
    g.output(g.ArgMax(g.Mul(x, np.float32(1 / 3)), axis=1, keepdims=0), "y")
    third = np.float32(1 / 3)
    feed = Feed("one", {"x": np.array([[-1, 0], [third, third]], np.float32)})
    right, other = np.array([1, 0]), np.array([1, 1])
    assert is_tied(g.model(), "y", [feed], [right], [other], 4.0)
    assert not is_tied(g.model(), "y", [feed], [right], [np.array([0, 0])], 4.0)
    assert not is_tied(g.model(), "y", [feed], [right], [other[:1]], 4.0)
    assert not is_tied(g.model(), "y", [feed], [right], [np.array([1, 2])], 4.0)
    g = Graph()
    x = g.input("x", T.FLOAT, ["n", 1])
    g.output(g.ArgMax(g.Concat(*[g.Mul(x, np.float32(1 / 3))] * 2, axis=1), axis=1, keepdims=0), "y")
    feed = Feed("one", {"x": np.array([[1], [third]], np.float32)})
    assert not is_tied(g.model(), "y", [feed], [right], [other], 4.0)


@pytest.mark.parametrize("number", [0.1, 0.3, 1 / 3, 0.7, 0.9, 0.77, 0.123])
def test_equal_scores_that_rounding_moves_in_either_direction_are_a_tie(number: float) -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [1, 2])
    g.output(g.ArgMax(g.Mul(x, np.float32(1 / 3)), axis=1, keepdims=0), "y")
    feed = Feed("one", {"x": np.full((1, 2), number, np.float32)})
    assert is_tied(g.model(), "y", [feed], [np.array([0])], [np.array([1])], 4.0)


def test_equal_scores_that_nothing_rounds_are_none() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [1, 2])
    g.output(g.ArgMax(g.Mul(x, np.float32(2)), axis=1, keepdims=0), "y")
    feed = Feed("one", {"x": np.full((1, 2), 0.3, np.float32)})
    assert not is_tied(g.model(), "y", [feed], [np.array([0])], [np.array([1])], 4.0)


@pytest.mark.parametrize(("size", "drawn"), [(255, True), (256, True), (257, False)])
def test_up_to_256_elements_of_a_source_that_is_far_are_drawn_again(size: int, drawn: bool) -> None:
    exact = np.ones(size)
    row = OutputVerdict("y", INCONCLUSIVE, sets=[SetErrors(0.0, 1.0, 0.0)])
    verdict = Verdict(INCONCLUSIVE, outputs=[row])
    feeds = [Feed("one", {})]
    single = (exact * 2).astype(np.float32)
    assert unsettled_feeds(verdict, feeds, [([exact], [single], [single])]) == (feeds if drawn else [])


def test_results_off_by_a_unit_in_the_last_place_explain_a_function() -> None:
    """What comes out of atanh(tanh(x)) has lost more than sums in another order would."""
    g = Graph()
    g.output(g.Atanh(g.Tanh(g.input("x", T.FLOAT, [64]))), "y")
    x = np.linspace(5.0, 6.0, 64).astype(np.float32)
    exact = {"y": x.astype(np.float64)}
    for off, floors, status in ((4e-4, 16, INCONCLUSIVE), (4e-4, 33, FAIL), (2e-4, 33, INCONCLUSIVE), (1e-3, 16, FAIL)):
        target = {"y": (x * np.float32(1 + off)).astype(np.float32)}
        source = {"y": (x * np.float32(1 + off / floors)).astype(np.float32)}
        runs = RunOutputs({"float32": [source], "float64": [exact]}, [target], [exact])
        numbers = SetErrors(off, off / floors, off)
        row = OutputVerdict("y", FAIL, "why", error=off, floor=off / floors, twin=0.0, sets=[numbers])
        verdict = Verdict(FAIL, outputs=[row], guilty="backend")
        excuse_order(verdict, g.model(), [Feed("one", {"x": x})], runs)
        assert verdict.status == status, off


@pytest.mark.parametrize(("size", "status"), [(63, PASS), (64, FAIL)])
def test_a_few_wild_elements_of_a_source_of_64_do_not_excuse_the_others(size: int, status: str) -> None:
    """Of fewer the better half says nothing."""
    exact = np.ones(size)
    source = exact.astype(np.float32)
    source[:4] += np.float32(0.25)
    target = (exact + 1e-2).astype(np.float32)
    assert compare("y", [exact], [source], [target]).status in (status, INCONCLUSIVE if status == PASS else FAIL)
    assert (compare("y", [exact], [source], [target]).status == FAIL) == (status == FAIL)


def test_noise_beside_what_is_larger() -> None:
    """Four roundings of the smaller elements at the least, one of the others; and what they are off by."""
    exact = np.array([2.0**20, 2.0**20, 1.0, 1.0, 0.0])
    noise = noise_beside(exact, exact)
    whole = 2.0**-24 * np.sqrt(np.mean(exact**2))
    np.testing.assert_allclose(noise, [whole, whole, *[4 * 2.0**-24 * np.sqrt(2 / 3)] * 3], rtol=1e-12)
    rounded = exact + np.array([0, 0, 0.5, 0, 0])
    np.testing.assert_allclose(noise_beside(exact, rounded)[2:], [0.5 / np.sqrt(3)] * 3, rtol=1e-12)
    assert noise_beside(np.zeros(3), np.zeros(3)).tolist() == [0, 0, 0]
    assert noise_beside(np.zeros(0), np.zeros(0)).size == 0


def test_more_than_256_places_of_a_row_are_picked_once_each() -> None:
    g = Graph()
    x = g.input("x", T.FLOAT, [1, 300])
    values, indices = g.TopK(x, np.array([300]), outputs=2)
    g.output(values, "v")
    g.output(indices, "y")
    scores = np.zeros((1, 300))
    right, twice = np.arange(300)[None], np.minimum(np.arange(300), 298)[None]
    picker = g.model().graph.node(-1)
    assert _is_near_tie(picker, scores, np.zeros(1), right, right[:, ::-1], 4.0)
    assert not _is_near_tie(picker, scores, np.zeros(1), right, twice, 4.0)


def test_each_set_moves_otherwise() -> None:
    g = Graph()
    g.output(g.Neg(g.input("x", T.FLOAT, [40])), "y")
    feeds = [Feed(f"seed {n}", {"x": np.full(40, 1.5, np.float32)}) for n in range(9)]
    asked: list[np.ndarray] = []

    def respond(moved: Any) -> list[dict[str, np.ndarray]]:
        asked.extend(feed.arrays["x"] for feed in moved)
        return [{"other": -feed.arrays["x"]} for feed in moved]

    runs = _moved_runs(g.model(), feeds, ["y"], [], respond)
    assert len(runs) == 2 * _MOVES
    assert len({array.tobytes() for array in asked}) == len(asked) == 9 * _MOVES


def test_complex_arrays_are_pairs_of_a_real_input_only() -> None:
    real, pairs, none = (
        ir.Value(name="x", type=None if t is None else ir.TensorType(t)) for t in (T.FLOAT, T.COMPLEX64, None)
    )
    given = np.array([1 + 2j, 3 - 4j], np.complex64)
    assert with_pairs(given, real).tolist() == [[1, 2], [3, -4]]
    assert with_pairs(given, pairs) is given
    assert with_pairs(given, none) is given
    for kept in (np.ones(2, np.float32), np.ones(2, np.int64), np.ones(2, bool), np.array(["a"])):
        assert with_pairs(kept, real) is kept


def test_only_numbers_have_larger_ones() -> None:
    for kept in (np.array([True]), np.array(["a"]), np.array(["a"], object), np.array([3])):
        assert _times(kept, 64) is kept
    for made in (np.array([1.5], np.float16), np.array([1.5 + 1j], np.complex64)):
        found = _times(made, 64)
        assert found.dtype == made.dtype
        assert found == made * 64


@pytest.mark.parametrize("status", [PASS, INCONCLUSIVE, FAIL])
def test_a_contradiction_fails_what_has_not_failed(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared_ends, "contradictions", lambda *arguments, **options: ["lies", "more"])
    runner = SimpleNamespace(declared_ends=lambda source: DeclaredEnds([], []))
    monkeypatch.setattr(declared_ends.plugin, "runner_for", lambda kind: runner if kind == "onnx" else None)
    verdict = Verdict(status, reason="before", outputs=[OutputVerdict("y")])
    method: Any = SimpleNamespace(theirs=False, ends=None)
    source: Any = SimpleNamespace(kind="pytorch")
    target: Any = SimpleNamespace(kind="onnx")
    declared_ends.hold_declared_ends(verdict, source, target, Graph().model(), [], "", method)
    assert verdict.status == FAIL
    assert verdict.reason == ("before" if status == FAIL else "the target lies")
    method.theirs = True
    declared_ends.hold_declared_ends(verdict, source, target, Graph().model(), [], "", method)
    assert verdict.notes == ["the target lies", "the target more"]
