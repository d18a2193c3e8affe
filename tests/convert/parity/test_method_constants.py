"""The constants of the method, tested by their effect: sizes that are tried, bounds, and the limit of a small model."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import ROUNDOFF
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.compare.distribution import distribution_difference
from convert.parity.compare.outputs import argmax_agreement, compare
from convert.parity.evidence import RunOutputs
from convert.parity.explain.picks import count_flips
from convert.parity.inputs.cost import is_small
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.size_search import _candidates
from convert.parity.inputs.special import reaches_shapes, special_array
from convert.parity.judge import without_foreign_float64
from convert.parity.locate.profile import _axis_moves, _relative_error
from tests.support.verdict_on import verdict_on

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def test_the_roundoff_of_a_dtype_is_half_a_unit_in_the_last_place_of_one() -> None:
    kinds = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    assert {n: float(ml_dtypes.finfo(k).eps) / 2 for n, k in kinds.items()} == ROUNDOFF


@pytest.mark.parametrize(("share", "status"), [(0.9, PASS), (1.1, FAIL)])
def test_complex_numbers_have_the_roundoff_of_float32(share: float, status: str) -> None:
    """For a source without an error of its own, the bound is four times four roundings."""
    exact = np.exp(1j * np.arange(8.0)).astype(np.complex64).astype(np.complex128)
    target = (exact * (1 + share * 16 * 2.0**-24)).astype(np.complex128)
    found = compare("y", [exact], [exact], [target])
    assert found.status == status


def unknown(*dims: str) -> ir.Model:
    g = Graph()
    g.output(g.Neg(g.input("x", F, dims)), "y")
    return g.model()


def test_sizes_that_are_tried_where_the_graph_says_nothing() -> None:
    """The usual sizes come first; then the inner dim at each size, with the same batch and with a batch of one."""
    common = [32, 64, 224, 1, 128, 256, 8, 28, 299, 384, 512, 3, 4, 5, 77, 100]
    found = [(s["n"], s["h"]) for s in _candidates(unknown("n", "h"), {"n": 2, "h": 16})]
    assert found[:18] == [(2, 16), (2, 16), *((2, h) for h in common)]
    assert found[18:35] == [(1, 16), *((1, h) for h in common)]
    # Then one size for all dims, then each dim by itself.
    assert found[35:51] == [(n, n) for n in common]
    assert found[51:83] == [*((n, 16) for n in common), *((2, h) for h in common)]
    assert found[83:] == [*((n, 16) for n in common), *((1, h) for h in common)]


@pytest.mark.parametrize(
    ("operator", "sized", "others"),
    [
        ("Expand", [1], [0]), ("Reshape", [1], [0]), ("ConstantOfShape", [0], []), ("Tile", [1], [0]),
        ("Range", [0, 1, 2], []), ("Resize", [1, 2, 3], [0]), ("Slice", [1, 2, 3, 4], [0]), ("OneHot", [1, 2], [0]),
        ("Pad", [1, 2], [0]), ("TopK", [1], [0]), ("Split", [1], [0]), ("RandomUniform", [0], []),
        ("Upsample", [1], [0]), ("Loop", [0, 1], []), ("Gather", [], [0, 1]), ("Add", [], [0, 1]),
    ],
)  # fmt: skip
def test_inputs_that_sizes_depend_on(operator: str, sized: list[int], others: list[int]) -> None:
    for places, reaches in ((sized, True), (others, False)):
        for place in places:
            value = ir.Value(name="x")
            between = ir.Node("", "Neg", [value]).outputs[0]
            inputs = [ir.Value(name=str(i)) for i in range(place)] + [between]
            ir.Node("", operator, inputs)
            assert reaches_shapes(value) == reaches, (operator, place)


def test_models_of_a_million_numbers_are_small() -> None:
    g = Graph()
    g.output(g.Mul(g.input("x", F, ["n"]), g.initializer("w", ir.Tensor(np.zeros(1000, np.float32)))), "y")
    model = g.model()
    assert is_small(model, Feed("", {"x": np.zeros(999_000, np.float32)}))
    assert not is_small(model, Feed("", {"x": np.zeros(999_001, np.float32)}))


def test_draws_may_be_apart_by_a_thousandth_of_their_size() -> None:
    """Samples of both sides vary by far less than that. The mean of one side is off by a share of the output's size."""
    rng = np.random.default_rng(0)
    ours, theirs = ([np.ones(4) + 1e-9 * rng.standard_normal(4) for _ in range(256)] for _ in range(2))
    assert distribution_difference(ours, [a * (1 + 0.9e-3) for a in theirs]) == ""
    assert distribution_difference(ours, [a * (1 + 1.1e-3) for a in theirs]).startswith("the mean of 256 draws differs")


X = np.random.default_rng(0).standard_normal((2, 500))


@pytest.mark.parametrize(
    ("off", "own", "exact", "status"),
    [
        (0.9e-3, True, False, INCONCLUSIVE), (1.1e-3, True, False, FAIL), (0.9e-3, False, True, PASS),
        (1.1e-3, False, True, INCONCLUSIVE), (0.09, False, True, INCONCLUSIVE),
    ],
)  # fmt: skip
def test_floors_from_a_thousandth_on_have_to_be_explained(off: float, own: bool, exact: bool, status: str) -> None:
    """own: the graph is the reference. exact: the source in float64 is the reference."""
    g = Graph()
    g.output(g.Neg(g.input("x", F, [500])), "y")
    right = [{"y": -x} for x in X]
    source = [{"y": (-x * (1 + off)).astype(np.float32)} for x in X]
    target = [{"y": (-x).astype(np.float32)} for x in X]
    double = [dict(o) for o in right] if exact else Unsupported("no")
    runs = RunOutputs({"float32": source, "float64": double}, target, right)
    feeds = [Feed(str(i), {"x": x.astype(np.float32)}) for i, x in enumerate(X)]
    verdict = verdict_on(g.model(), feeds, runs)
    assert verdict.status == status
    assert verdict.at_fault == ("frontend" if status == FAIL else "")


@pytest.mark.parametrize(
    ("sizes", "kept"), [((2, 2, 2), False), ((3, 2, 2), True), ((1, 2, 2), True), ((2, 2, 3), True), ((2, 2, 1), True)]
)
def test_a_float64_run_of_another_size_is_no_other_function(sizes: tuple[int, ...], kept: bool) -> None:
    """The values are those of the source in float64, the source as deployed and the graph.

    The first differs, which counts only if the sizes are equal.
    """
    double, single, own = (np.full(n, v) for n, v in zip(sizes, (2.0, 1.0, 1.0), strict=True))
    runs = RunOutputs({"float32": [{"y": single.astype(np.float32)}], "float64": [{"y": double}]}, [], [{"y": own}])
    found = without_foreign_float64(unknown("n"), runs)
    assert (found is runs) == kept
    assert isinstance(found.source["float64"], Unsupported) != kept


def test_rows_whose_largest_element_changed_its_place() -> None:
    """A row is counted if the reference separates both elements by more than the noise."""
    exact = np.array([[0.0, 1, 2], [5, 4, 3], [1, 1.5, 0]])
    got = np.array([[0.0, 3, 2], [5, 4, 3], [2, 1.5, 0]])
    assert [count_flips(exact, got, noise) for noise in (0.0, 0.49, 0.5, 0.99, 1.0)] == [
        (2, 3), (2, 3), (1, 3), (1, 3), (0, 3)
    ]  # fmt: skip
    assert argmax_agreement([exact, exact], [got, exact]) == 1 - 2 / 6
    assert argmax_agreement([exact.reshape(1, 3, 3)], [got.reshape(1, 3, 3)]) == 1 - 2 / 3
    assert argmax_agreement([exact.reshape(3, 3, 1)], [got.reshape(3, 3, 1)]) is None
    assert argmax_agreement([exact, exact], [got, got[:2]]) == 1 - 2 / 3, "another shape is another failure"
    assert argmax_agreement([exact], [got[:2]]) is argmax_agreement([exact[0]], [got]) is None
    # The floor is relative to the reference's size, and four times as much counts.
    size = float(np.sqrt(np.mean(exact**2)))
    assert argmax_agreement([exact], [got], 0.99 / 4 / size) == 1 - 1 / 3
    assert argmax_agreement([exact], [got], 1.01 / 4 / size) == 1.0
    for arrays in ([np.zeros(3)], [np.zeros((2, 1))], [np.zeros((0, 3))], [np.zeros((2, 3), np.int64)]):
        assert argmax_agreement(arrays, arrays) is None


def test_orders_that_layouts_make() -> None:
    assert _axis_moves(2) == [(1, 0)]
    assert _axis_moves(3) == [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1)]
    assert len(_axis_moves(4)) == 9
    assert {(0, 2, 3, 1), (0, 3, 1, 2)} <= set(_axis_moves(4))
    assert (3, 2, 1, 0) not in _axis_moves(4)


@pytest.mark.parametrize(
    ("reference", "value", "error"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0.0),
        ([3.0, 4.0], [4.0, 3.0], 1 / np.sqrt(12.5)),
        ([3.0, 4.0, np.nan], [3.0, 5.0, 9.0], 1 / 5),
        ([3.0, np.inf], [0.0, np.inf], 1.0),
        ([0.0, 0.0], [0.0, 0.0], None),
        ([np.nan], [1.0], None),
        ([1.0, 2.0], [1.0], None),
    ],
)
def test_how_far_a_value_is_from_another(reference: list[float], value: list[float], error: float | None) -> None:
    assert _relative_error(np.array(reference), np.array(value)) == (None if error is None else pytest.approx(error))


def test_rows_of_special_values() -> None:
    plain = np.ones((6, 4), np.float32)
    value = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape(["n", 4]))
    got = special_array(value, plain, False)
    least = np.finfo(np.float32).tiny / 4
    want = [[1, 1, np.nan, 1], [np.inf, 1, -np.inf, 1], [0] * 4, *[[least, -least] * 2] * 3]
    np.testing.assert_array_equal(got, np.array(want, np.float32))
    np.testing.assert_array_equal(special_array(value, plain[:1], False), [[1, 1, np.nan, 1]])
    np.testing.assert_array_equal(special_array(value, plain[:2], False), np.array(want[:2], np.float32))
    np.testing.assert_array_equal(special_array(value, plain[:3], False), np.array(want[:3], np.float32))
    np.testing.assert_array_equal(special_array(value, plain[0], False), [1, 1, np.nan, 1])
    np.testing.assert_array_equal(plain, np.ones((6, 4)))
    integers = ir.Value(name="i", type=ir.TensorType(I64), shape=ir.Shape([7]))
    ends = np.iinfo(np.int64)
    kept = np.arange(7)
    limits = [ends.max, -1, ends.min, (1 << 32) + 5, 0, ends.min + 1, ends.max]
    assert special_array(integers, kept, False).tolist() == limits
    assert special_array(integers, kept, True).tolist() == kept.tolist()
    assert special_array(integers, np.array(5), False).tolist() == 5
    small = ir.Value(name="u", type=ir.TensorType(ir.DataType.UINT8), shape=ir.Shape([4]))
    assert special_array(small, np.arange(4, dtype=np.uint8), False).tolist() == [255, 0, 0, 255]
