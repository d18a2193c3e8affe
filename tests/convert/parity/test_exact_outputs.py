"""Floors, special values and what proves nothing, on both sides of what tells them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.parity import floors, moves, special
from convert.parity.compare import argmax_agreement, compare_narrow, vacuous_reason
from convert.parity.inputs import Feed
from convert.parity.judge import RunOutputs
from convert.parity.special import _difference_text, _of_row, _wrong_floats, reaches_shapes
from convert.parity.special_verdict import _with_denormals, _with_nan
from convert.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, SetErrors, Verdict
from tests.convert.parity.input_models import identities as model

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
NO = Unsupported("no")
FEED = Feed("one", {})


# -- floors -----------------------------------------------------------------------------------------------------------


def test_the_first_of_two_that_are_excused_is_named() -> None:
    rows = [OutputVerdict(n, FAIL, "why", error=1.0) for n in "yz"]
    arrays = [dict.fromkeys("yz", np.ones(4, np.float32))]
    verdict = Verdict(FAIL, "y: why", outputs=rows, guilty="backend")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "explained_floors", lambda *a: {0: 1.0, 1: 1.0})
        runs = RunOutputs({"float32": arrays, "float64": NO}, arrays, NO)
        floors.excuse_cancelled(verdict, model(4, outputs="yz"), [FEED], runs, lambda feeds: [])
    assert (verdict.status, verdict.reason[:10], verdict.guilty) == (INCONCLUSIVE, "y: nothing", "")


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3), (3, 1)])
def test_a_failure_of_numbers_has_the_sources_shape_and_dtype(shape: tuple[int, ...]) -> None:
    row = OutputVerdict("y", FAIL, error=1.0)

    def told(array: np.ndarray) -> bool:
        return floors._is_of_numbers(0, row, RunOutputs({"float32": [{"s": np.ones(3)}]}, [{"y": array}], NO))

    assert told(np.ones(3))
    assert not told(np.ones(shape))
    assert not told(np.ones(3, np.float32))
    assert not floors._is_of_numbers(0, row, RunOutputs({"float32": NO}, [{"y": np.ones(3)}], NO))


def test_the_second_output_and_the_second_feed_set_a_float64_run_aside() -> None:
    g = Graph()
    x = g.input("x", F, [4])
    for name, value in (("i", g.Cast(x, to=I64)), ("r", g.RandomNormalLike(x)), ("y", g.Neg(x))):
        g.output(value, name)
    made = g.model()
    same = {"i": np.arange(4), "r": np.ones(4), "y": np.ones(4)}
    other = {**same, "i": np.arange(4) + 1, "r": np.zeros(4)}
    foreign = {**other, "y": np.full(4, 3.0)}
    for doubles, aside in (([other, other], False), ([foreign, other], True), ([other, foreign], True)):
        runs = RunOutputs({"float32": [same] * 2, "float64": doubles}, [], [same] * 2)
        assert (floors.without_foreign_float64(made, runs) is not runs) == aside
    for single, double, own in ((NO, [foreign], [same]), ([same], NO, [same]), ([same], [foreign], NO)):
        runs = RunOutputs({"float32": single, "float64": double}, [], own)
        assert floors.without_foreign_float64(made, runs) is runs


def test_distances_are_pooled_over_feeds_that_have_elements() -> None:
    def pooled(*pairs: tuple[Any, Any]) -> dict[int, float]:
        return floors._pooled([{"i": np.arange(2), "y": np.array(a)} for a, _ in pairs],
                              [{"i": np.arange(2), "y": np.array(b)} for _, b in pairs])  # fmt: skip

    assert pooled(([2.0], [1.0]), ([1.0], [1.0])) == {1: np.sqrt(0.5)}
    assert pooled(([2.0], [1.0]), ([], np.zeros(0))) == {1: 1.0}
    assert pooled((np.zeros(0), np.zeros(0))) == {1: 0.0}
    for dtype in (ml_dtypes.bfloat16, np.float16, np.complex64):
        one, other = ([{"y": np.full(2, n, dtype)}] for n in (3, 2))
        assert floors._pooled(one, other) == {0: 0.5}
    assert floors.distance(np.array([3.0, np.nan, 1.0]), np.array([2.0, 1.0, np.inf])) == 0.5
    assert floors.distance(np.array([3.0]), np.zeros(1)) == 3.0


@pytest.mark.parametrize(
    ("operator", "steps"),
    [
        ("QuantizeLinear", True),
        ("DynamicQuantizeLinear", True),
        ("DequantizeLinear", False),
        ("MatMulInteger", True),
        ("Neg", False),
    ],
)
def test_what_rounds_to_steps(operator: str, steps: bool) -> None:
    x = ir.Value(name="x")
    node = ir.Node("", operator, [x])
    made = ir.Model(ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 23}), ir_version=10)
    assert floors.quantizes(made) == steps


def test_numbers_move_both_ways_and_never_to_infinity_or_zero() -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.float16, np.float32, np.float64):
        ends = np.array([np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal, 0, np.inf, np.nan] * 20, dtype)
        moved = moves.moved_array(ends, rng)
        assert np.isfinite(moved[:2]).all()
        assert (moved.reshape(20, 5)[:, 1] != 0).all()
        np.testing.assert_array_equal(moved.reshape(20, 5)[:, 2:], ends.reshape(20, 5)[:, 2:])
        ones = moves.moved_array(np.ones(50, dtype), rng)
        assert set(ones.tolist()) == {float(np.nextafter(dtype(1), dtype(d))) for d in (0, 2)}


# -- outputs ----------------------------------------------------------------------------------------------------------


def test_rows_of_denormals_are_told_from_smaller_and_larger_numbers() -> None:
    source = np.arange(10.0).reshape(5, 2)
    target = np.array([[9.0, 9.0], [8.0, 8.0], [1.0, np.nan], [1.0, np.nan], [0.5, 2.0]])
    wanted = target.copy()
    wanted[3] = source[3]
    np.testing.assert_array_equal(_with_denormals(target, source), wanted)
    target[3] = [2.0, 1.0]
    target[4] = [1.0, np.nan]
    wanted = target.copy()
    wanted[4] = source[4]
    np.testing.assert_array_equal(_with_denormals(target, source), wanted)


def test_the_nan_of_the_source_is_put_into_outputs_of_its_shape_and_dtype() -> None:
    source = np.array([1.0, np.nan])
    np.testing.assert_array_equal(_with_nan(np.array([3.0, 4.0]), source), [3.0, np.nan])
    for other in (np.ones(3), np.ones(2, np.float32), np.ones((2, 1)), np.ones(1)):
        assert _with_nan(other, source) is other
    whole = np.arange(2)
    assert _with_nan(whole, whole) is whole


def test_the_largest_of_each_row_without_what_is_beyond() -> None:
    np.testing.assert_array_equal(_of_row(np.array([[1.0, 2e30], [3.0, 4.0]])), [[1.0], [4.0]])
    assert _of_row(np.array([1.0, 5.0, 1e30])) == 5.0
    assert _of_row(np.zeros((0, 3))) == 0
    assert _of_row(np.array([[[1.0], [7.0]], [[2.0], [3.0]]])).tolist() == [[[7.0]], [[3.0]]]


def test_the_first_element_that_differs_is_told() -> None:
    got, source = np.array([1, 2, 3]), np.array([1, 5, 6])
    assert _difference_text(got, source, got != source) == "2 of 3 elements differ, such as 2 where the source has 5"
    assert _difference_text(got, source, np.zeros(3, bool)) == ""


def test_noise_of_special_values_is_the_largest_of_both_references() -> None:
    source = np.array([100.0, 0.0])
    near, far = np.array([100.5, 0.0]), np.array([98.0, 0.0])
    for others in ([near, far], [far, near]):
        for by, wrong in ((32.9, False), (33.1, True)):  # 16 · 2 and 100 / 100
            assert _wrong_floats(source, others, np.array([100.0, by])).tolist() == [False, wrong]


@pytest.mark.parametrize(("operator", "index", "sized"), [("Expand", 0, False), ("Expand", 1, True),
                                                          ("Range", 0, True), ("Neg", 0, False)])  # fmt: skip
def test_sizes_are_said_by_some_inputs(operator: str, index: int, sized: bool) -> None:
    x, other = ir.Value(name="x"), ir.Value(name="o")
    before = ir.Node("", "Cast", [x])
    inputs = [other, other]
    inputs[index] = before.outputs[0]
    ir.Node("", operator, inputs)
    assert reaches_shapes(x) == sized


def test_limits_of_integers_in_turn() -> None:
    value = ir.Value(name="x", type=ir.TensorType(ir.DataType.INT8), shape=ir.Shape([6]))
    found = special.special_array(value, np.full(6, 3, np.int8), False)
    assert found.tolist() == [127, -1, -128, 0, -127, 127]
    value.dtype = ir.DataType.UINT8
    assert special.special_array(value, np.full(4, 3, np.uint8), False).tolist() == [255, 0, 0, 255]
    assert special.special_array(value, np.full(4, 3, np.uint8), True).tolist() == [3] * 4
    value.metadata_props[RANGE_KEY] = "[0, 4]"
    assert special.special_array(value, np.full(4, 3, np.uint8), False).tolist() == [3] * 4


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_rows_of_special_values_by_their_number(rows: int) -> None:
    value = ir.Value(name="x", type=ir.TensorType(F), shape=ir.Shape([rows, 3]))
    least = np.float32(2.0**-128)
    kinds = [[1, np.nan, 1], [np.inf, -np.inf, 1], [0, 0, 0], [least, -least, least], [least, -least, least]]
    ones = np.ones((rows, 3), np.float32)
    np.testing.assert_array_equal(special.special_array(value, ones, False), np.array(kinds[:rows], np.float32))
    kinds[3:] = [[1, 1, 1]] * 2
    np.testing.assert_array_equal(special.special_array(value, ones, False, False), np.array(kinds[:rows], np.float32))


def test_rows_whose_largest_agrees_are_a_share() -> None:
    one = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [1.0, 2.0]])
    other = one[:, ::-1].copy()
    other[1:] = one[1:]
    assert argmax_agreement([one], [other]) == 0.75
    assert argmax_agreement([one, one], [one, other]) == 0.875
    assert argmax_agreement([one[:, :1]], [one[:, :1]]) is None
    assert argmax_agreement([one[:, :1].T[0]], [one[:, 0]]) is None
    assert argmax_agreement([one], [other[:3]]) is None
    for dtype in (np.bool_, np.complex64, np.int64, np.uint8):
        assert argmax_agreement([one.astype(dtype)], [other.astype(dtype)]) is None
    assert argmax_agreement([one], [other], 1.0) == 1.0
    row = compare_narrow("y", [one], [one.astype(np.float32)], [one.astype(np.float32)])
    assert row.status == PASS


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([np.zeros(0)], "the output is empty"),
        ([np.zeros(0), np.array([1.0])], ""),
        ([np.array([1.0]), np.array([1.0])], "the output has one value everywhere, 1.0"),
        ([np.array(["a"], object)], ""),
        ([np.array(["a"], object)] * 2, "the output has one value everywhere, 'a'"),
        ([np.array([np.nan, np.nan])], "the output is NaN everywhere"),
        ([np.array([np.nan, 1.0])], ""),
        ([np.array([1, 2]), np.array([1, 2])], "the output does not depend on the inputs"),
        ([np.array([1, 2]), np.array([1, 3])], ""),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0])], "the output does not depend on the inputs"),
        ([np.array([1.0, 2.0]), np.ones((1, 2))], ""),
        ([np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0, 3.0])], ""),
        ([np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([1.0, 2.0])], ""),
    ],
)
def test_agreement_that_proves_nothing(arrays: list[np.ndarray], reason: str) -> None:
    assert vacuous_reason(arrays) == reason


def test_what_passed_is_not_asked_what_its_sums_explain() -> None:
    arrays = [dict.fromkeys("xy", np.ones(4))]
    rows = [OutputVerdict("x", PASS), OutputVerdict("y", FAIL, "why", error=1e-9, twin=0.0)]
    rows[1].sets = [SetErrors(1e-9, 1.0, 0.0)]
    verdict = Verdict(FAIL, outputs=rows, guilty="backend")
    feeds = [Feed("one", {"x": np.ones(4, np.float32)})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "distance", lambda a, b: 1e-9)
        runs = RunOutputs({"float32": arrays, "float64": arrays}, arrays, arrays)
        floors.excuse_order(verdict, model(4, outputs="xy"), feeds, runs)
    assert (verdict.status, rows[0].status, rows[1].status) == (INCONCLUSIVE, PASS, INCONCLUSIVE)
    assert verdict.reason.startswith("y: why; sums")
