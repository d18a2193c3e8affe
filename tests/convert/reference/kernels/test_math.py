"""Kernels of the reference executor that move elements, against onnxruntime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from convert.reference.executor import run
from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import array, info, model, read, run_ort


def test_gather_elements_along_an_axis_of_many() -> None:
    indices = array("i", RNG.integers(-70, 70, (2, 9)), np.int64)
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    ort_case([node], {"x": RNG.normal(size=(2, 70)).astype(np.float32)}, [indices])


def test_a_slice_back_from_before_the_first_element_begins_with_it() -> None:
    bounds = {"starts": [-9, 5], "ends": [-99, -6], "axes": [0, -1], "steps": [-1, -2]}
    node = helper.make_node("Slice", ["x", *bounds], ["y"])
    given = [array(name, np.array(numbers), np.int64) for name, numbers in bounds.items()]
    ort_case([node], {"x": RNG.normal(size=(3, 4)).astype(np.float32)}, given)
    plain = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    ort_case(
        [plain],
        {"x": RNG.normal(size=(3, 7)).astype(np.float32)},
        [array("starts", np.array([1, 2]), np.int64), array("ends", np.array([9, -1]), np.int64)],
    )


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_a_depth_of_one_element_makes_one_hots_as_a_scalar_does(axis: int) -> None:
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"], axis=axis)
    values = array("values", np.array([0.5, 2.0]), np.float32)
    indices = np.array([[0, -1, 2], [4, -5, 3]])
    for depth in (np.array([5]), np.array(5)):
        ort_case([node], {"x": indices}, [array("depth", depth, np.int64), values])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("pads", [[0, -1, 0, 2], [1, -2, -1, 2], [0, 2, 0, 1]])
def test_negative_pads_cut_off(mode: str, pads: list[int]) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    ort_case([node], {"x": RNG.normal(size=(4, 7)).astype(np.float32)}, [array("pads", np.array(pads), np.int64)])


def test_pads_of_some_axes_have_their_own_value() -> None:
    node = helper.make_node("Pad", ["x", "pads", "value", "axes"], ["y"])
    given = {"pads": np.array([2, 1]), "axes": np.array([-1])}
    constants = [array(name, numbers, np.int64) for name, numbers in given.items()]
    value = array("value", np.array(3.5), np.float32)
    ort_case([node], {"x": RNG.normal(size=(2, 3, 4)).astype(np.float32)}, [*constants, value])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_writes_to_the_same_place_are_reduced(reduction: str) -> None:
    indices = array(
        "i", np.array([[0, -1, 2], [0, 1, 1]]) if reduction != "none" else [[0, -1, 2], [1, 2, 0]], np.int64
    )
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=1, reduction=reduction)
    feeds = {name: RNG.normal(size=size).astype(np.float32) for name, size in (("x", (3, 4)), ("u", (2, 3)))}
    ort_case([node], feeds, [indices])
    rows = array("i", np.array([[1], [-1]] if reduction == "none" else [[2], [-1]]), np.int64)
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    ort_case([node], {"x": feeds["x"], "u": RNG.normal(size=(2, 4)).astype(np.float32)}, [rows])


def test_a_maximum_of_nan_is_nan() -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="max")
    proto = model([node], [info(n, [2]) for n in "xu"], [info("y", None)], [array("i", np.array([0, 1]), np.int64)])
    found = run(read(proto), {"x": np.array([np.nan, 1], np.float32), "u": np.array([2, np.nan], np.float32)})["y"]
    assert np.isnan(found).all()


def test_an_optional_holds_its_element() -> None:
    nodes = [helper.make_node("Optional", ["x"], ["o"]), helper.make_node("OptionalGetElement", ["o"], ["e"])]
    ort_case([*nodes, helper.make_node("Exp", ["e"], ["y"])], {"x": RNG.normal(size=(2,)).astype(np.float32)}, [])


@pytest.mark.parametrize("operator", ["CumSum", "Softmax", "LogSoftmax"])
def test_sums_of_bfloat16_are_rounded_once(operator: str) -> None:
    x = RNG.normal(size=(4, 64)).astype(ml_dtypes.bfloat16)
    axis = [array("a", np.array(1), np.int64)] if operator == "CumSum" else []
    node = helper.make_node(operator, ["x", *(["a"] if axis else [])], ["y"], **({} if axis else {"axis": 1}))
    narrow, wide = (
        model([node], [info("x", x.shape, kind)], [info("y", x.shape, kind)], axis)
        for kind in (TensorProto.BFLOAT16, TensorProto.FLOAT)
    )
    expected = run_ort(wide, {"x": x.astype(np.float32)})[0]
    (found,) = run(read(narrow), {"x": x}).values()
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=2**-8, atol=1e-4)
