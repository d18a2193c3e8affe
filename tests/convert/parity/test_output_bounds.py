"""Noise floors, special values and outputs that prove nothing, on both sides of their bounds."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import Unsupported
from convert.graph.metadata import RANGE_KEY
from convert.outcome.verdict import PASS
from convert.parity.compare.narrow import NarrowOutput, compare_narrow
from convert.parity.compare.outputs import argmax_agreement, vacuous_reason
from convert.parity.compare.special_verdict import _with_denormals, _with_nan
from convert.parity.inputs import special
from convert.parity.inputs.feeds import Feed
from convert.parity.inputs.special import _difference_text, _of_row, _wrong_floats, reaches_shapes

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
NO = Unsupported("no")
FEED = Feed("one", {})


# -- floors -----------------------------------------------------------------------------------------------------------


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
    three = special.special_rows(denormals=False, large=False)
    np.testing.assert_array_equal(special.special_array(value, ones, False, three), np.array(kinds[:rows], np.float32))


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
    row = compare_narrow("y", NarrowOutput([one], [one.astype(np.float32)], [one.astype(np.float32)]))
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
