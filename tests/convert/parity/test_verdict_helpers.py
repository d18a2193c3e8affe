"""Small functions of the verdict: counts of differences, kinds of numbers, largest elements, masks, boundaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.graph.tensors import nonfinite_kinds
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict
from convert.parity.compare import declared_signature
from convert.parity.compare.declared_signature import _dims
from convert.parity.compare.distribution import distribution_difference
from convert.parity.compare.outputs import _count_wrong, compare, structure_difference
from convert.parity.compare.overflow import _overflow_reason
from convert.parity.explain.picks import _largest
from convert.parity.inputs.boundary_values import _MOST, _with_whole_rows, boundary_values, mix_boundary_values
from convert.parity.inputs.uneven import _times
from convert.parity.magnitudes import _may_have_gap, smaller_columns, smaller_parts
from convert.parity.pairing.weights import _comparable
from convert.request.given_arrays import with_pairs
from convert.request.options import Options
from convert.runtimes.declared_signature import DeclaredSignature, DeclaredTensor

T = ir.DataType


def test_wrong_integers_of_a_source_of_another_shape_are_those_that_differ() -> None:
    source, target = np.array([1, 2, 3, 4, 5]), np.array([1, 3, 2, 4, 5])
    assert _count_wrong(np.zeros(2, np.int64), source, target) == 2
    assert _count_wrong(np.zeros(2, np.int64), source, source.copy()) == 0


def test_nonfinite_kinds() -> None:
    given = [0.0, np.nan, np.inf, -np.inf]
    assert nonfinite_kinds(np.array(given)).tolist() == [0, 1, 2, 3]
    assert nonfinite_kinds(np.array([1 + 2j, complex(np.nan, 0), complex(0, np.inf)])).tolist() == [0, 1, 1]


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
    """An output that does not vary at all must not suppress the note about an output that varies by rounding only."""
    exact, single = np.ones(4), np.full(4, 3.0, np.float32)
    still = np.zeros(4, np.float32)
    reason = _overflow_reason([single, still], [exact, still.astype(np.float64)], [single, still])
    assert reason.startswith("rounding alone moves the source by")
    assert not _overflow_reason([still], [still.astype(np.float64)], [still])


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64"), ("int32", "int64"), ("i8", "i4")])
def test_another_dtype_is_a_difference_whichever_is_wider(dtypes: tuple[str, str]) -> None:
    source, target = (np.ones(3, np.dtype(d)) for d in dtypes)
    assert structure_difference(source, target) == f"dtype {target.dtype} where the source has {source.dtype}"
    assert not structure_difference(source, source.copy())


@pytest.mark.parametrize("count", [1, 8, 1000])
def test_gaps_are_looked_for_from_half_of_one_on(count: int) -> None:
    """A ratio of 2^13 may be a gap of 10,000, measured by powers of two; a ratio of 2^12 may not."""
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
    end = DeclaredTensor("y", "float32", dims)
    given = tuple(int(str(size)) for size in shape)
    assert _dims(end, [given], {}, "y") == ([f"declares output 'y' {text}"] if text else [])
    both = _dims(end, [given[:1] * 2, given], {}, "y")
    assert bool(both) == (bool(text) or dims == (300, 4))


@pytest.mark.parametrize(("size", "status"), [(63, PASS), (64, FAIL)])
def test_a_few_wild_elements_of_a_source_of_64_do_not_excuse_the_others(size: int, status: str) -> None:
    """With fewer than 64 elements, the half with the smaller errors proves nothing."""
    exact = np.ones(size)
    source = exact.astype(np.float32)
    source[:4] += np.float32(0.25)
    target = (exact + 1e-2).astype(np.float32)
    assert compare("y", [exact], [source], [target]).status in (status, INCONCLUSIVE if status == PASS else FAIL)
    assert (compare("y", [exact], [source], [target]).status == FAIL) == (status == FAIL)


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
    monkeypatch.setattr(declared_signature, "contradictions", lambda *arguments, **options: ["lies", "more"])
    runner = SimpleNamespace(declared_signature=lambda source: DeclaredSignature([], []))
    monkeypatch.setattr(declared_signature.plugin, "runner_for", lambda kind: runner if kind == "onnx" else None)
    verdict = Verdict(status, reason="before", outputs=[OutputVerdict("y")])
    method: Any = SimpleNamespace(theirs=False, ends=None, target=Options())
    source: Any = SimpleNamespace(kind="pytorch")
    target: Any = SimpleNamespace(kind="onnx")
    verdict = verdict.after(
        declared_signature.compare_declared_signature(
            source, target, Graph().model(), [], "", method, dtypes=not verdict.stored
        )
    )
    assert verdict.status == FAIL
    assert verdict.reason == ("before" if status == FAIL else "the target lies")
    method.theirs = True
    verdict = verdict.after(
        declared_signature.compare_declared_signature(
            source, target, Graph().model(), [], "", method, dtypes=not verdict.stored
        )
    )
    assert verdict.notes == ["the target lies", "the target more"]
