"""RoiAlign, MaxRoiPool and DeformConv of the reference executor against onnxruntime and ONNX's own loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from convert.reference.executor import run
from convert.reference.onnx_file import open_model, run_as_it_is
from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import assert_same, info, model, read

PICTURES = RNG.normal(size=(2, 6, 11, 9)).astype(np.float32)
ROIS = np.array(
    [[0, 0, 5, 6], [1.5, 2, 4, 7], [-2, -1, 9, 11], [3, 3, 3, 3], [6, 5, 2, 1], [30, 30, 50, 60], [2, 2, 8.7, 10.9]],
    np.float32,
)
OF = np.array([0, 1, 1, 0, 0, 1, 1])


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("where", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 3])
def test_regions_by_samples(ratio: int, where: str, mode: str) -> None:
    node = helper.make_node(
        "RoiAlign", ["x", "r", "i"], ["y"], mode=mode, coordinate_transformation_mode=where, sampling_ratio=ratio,
        output_height=3, output_width=4, spatial_scale=0.9,
    )  # fmt: skip
    ort_case([node], {"x": PICTURES, "r": ROIS, "i": OF}, [])


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.9])
@pytest.mark.parametrize("bins", [[2, 3], [4, 4], [7, 7], [1, 20]])
def test_largest_of_regions(bins: list[int], scale: float) -> None:
    rois = np.hstack([OF[:, None].astype(np.float32), ROIS])
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=bins, spatial_scale=scale)
    ort_case([node], {"x": PICTURES, "r": rois}, [])


@pytest.mark.parametrize(
    ("inputs", "out", "kernel", "attributes"),
    [
        ("xwo", (3, 2), (3, 3), {}),
        ("xwob", (4, 4), (2, 1), {}),
        ("xwo m", (3, 1), (3, 3), {"strides": [2, 3], "pads": [1, 0, 2, 0]}),
        ("xwobm", (3, 4), (3, 3), {"dilations": [2, 1], "pads": [1, 1, 1, 1]}),
        ("xwo m", (3, 2), (3, 3), {"group": 2}),
        ("xwobm", (3, 2), (3, 3), {"offset_group": 3}),
        ("xwobm", (3, 2), (3, 3), {"group": 3, "offset_group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("xwob", (3, 2), (3, 3), {"group": 6, "offset_group": 6}),
    ],
)
def test_moved_windows(inputs: str, out: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any]) -> None:
    """The windows are small, because ONNX's loops take a millisecond for each element of each window."""
    groups, taps = attributes.get("offset_group", 1), kernel[0] * kernel[1]
    every = {
        "x": RNG.normal(size=(2, 6, 5, 4)),
        "w": RNG.normal(size=(6, 6 // attributes.get("group", 1), *kernel)),
        "o": RNG.normal(size=(2, groups * taps * 2, *out)) * 2,
        "b": RNG.normal(size=6),
        "m": RNG.random(size=(2, groups * taps, *out)),
    }
    feeds = {name: every[name].astype(np.float32) for name in inputs if name != " "}
    node = helper.make_node("DeformConv", [name.strip() for name in inputs], ["y"], **attributes)
    proto = model([node], [info(n, x.shape) for n, x in feeds.items()], [info("y", None)], [])
    (want,) = ReferenceEvaluator(proto).run(None, feeds)
    assert_same(run(read(proto), feeds)["y"], want, 2e-5)
    assert_same(run_as_it_is(open_model(proto), feeds)["y"].astype(np.float32), want, 2e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_that_are_not_moved_are_a_convolution(rank: int) -> None:
    """ONNX's own kernel supports images only, and divides by zero if one has a single row."""
    dims = (7, 1, 5)[:rank]
    x, w = RNG.normal(size=(2, 4, *dims)).astype(np.float32), RNG.normal(size=(4, 2, *[3] * rank)).astype(np.float32)
    feeds = {"x": x, "w": w, "o": np.zeros((2, rank * 3**rank, *dims), np.float32)}
    found = []
    for node in (
        helper.make_node("DeformConv", ["x", "w", "o"], ["y"], group=2, pads=[1] * 2 * rank),
        helper.make_node("Conv", ["x", "w"], ["y"], group=2, pads=[1] * 2 * rank),
    ):
        given = {name: feeds[name] for name in node.input}
        proto = model([node], [info(n, a.shape) for n, a in given.items()], [info("y", None)], [])
        found.append(run(read(proto), given)["y"])
    assert_same(found[0], found[1], 2e-5)
