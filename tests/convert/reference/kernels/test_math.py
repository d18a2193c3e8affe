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
