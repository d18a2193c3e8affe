"""Resize of the reference executor against onnxruntime, and against PyTorch if numbers are not finite."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from convert.reference.kernels.resize import resize
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


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_coordinates_of_opset_11(rounding: str) -> None:
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        coordinate_transformation_mode="tf_half_pixel_for_nn",
        nearest_mode=rounding,
    )
    ort_case([node], {"x": IMAGE}, [array("s", [1, 1, 2, 0.75])])


@pytest.mark.not_core
@pytest.mark.parametrize("size", [(16, 16), (9, 5), (4, 4), (15, 15)])
@pytest.mark.parametrize(("mode", "theirs"), [("linear", "bilinear"), ("cubic", "bicubic")])
@pytest.mark.parametrize("corners", [False, True])
def test_nan_and_infinities_reach_what_reads_them(mode: str, theirs: str, corners: bool, size: tuple[int, int]) -> None:
    """As in PyTorch, two or four neighbours along each axis are read, including those with weight 0."""
    torch = pytest.importorskip("torch", reason="PyTorch is what is compared with")
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8))
    x[0, 0, [2, 5, 7], [3, 0, 7]] = np.inf, -np.inf, np.nan
    want = torch.nn.functional.interpolate(torch.tensor(x), size=size, mode=theirs, align_corners=corners).numpy()
    coordinates = "align_corners" if corners else "half_pixel"
    got = resize(
        1, x, None, None, np.array([1, 1, *size]), mode=mode, coordinate_transformation_mode=coordinates, antialias=0,
        axes=None, cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, nearest_mode="floor",
        keep_aspect_ratio_policy="stretch",
    )  # fmt: skip
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
