"""Resize of the reference executor against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.convert.reference.kernels.support import IMAGE, ort_case
from tests.support.onnx_support import array


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("sizes", [[2, 6, 22, 20], [2, 6, 7, 5]])
def test_resize(mode: str, coordinates: str, sizes: list[int]) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "", "", "s"],
        ["y"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode="floor" if coordinates == "asymmetric" else "round_prefer_floor",
    )
    ort_case([node], {"x": IMAGE}, [array("s", sizes, np.int64)])
