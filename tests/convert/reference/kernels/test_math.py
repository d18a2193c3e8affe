"""Kernels of the reference executor that move elements, against onnxruntime."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import array


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
