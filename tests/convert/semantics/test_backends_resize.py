"""Resize of every backend for fractional sizes or outputs of one element, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_support import array, info, model, run_converted, run_ort

pytestmark = pytest.mark.not_core

ROWS: dict[str, tuple[int, float, dict[str, Any]]] = {
    # The last output is the last input: 4 · 5 / 6.5 would be 14.85 of 17.
    "align_corners linear": (5, 1.5, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "align_corners cubic": (4, 0.6, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
    "align_corners nearest": (7, 1.5, {"coordinate_transformation_mode": "align_corners"}),
    "align_corners one": (5, 0.3, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    # x_original is 0, not −0.5.
    "pytorch_half_pixel cubic": (5, 1, {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    "pytorch_half_pixel excluded": (
        5, 0.3, {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel", "exclude_outside": 1},
    ),
    "half_pixel_symmetric": (5, 1.5, {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    # In float32 3 / 0.6 is 5, and 5 · 2.6 is 13.
    "asymmetric floor": (7, 0.6, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    # In float32, 1 / (2 / 7) is 3.4999998 and (9 + ½) / (19 / 14) − ½ is 6.5000005; onnxruntime treats both as
    # midpoints.
    "middle up": (7, 2, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "round_prefer_ceil"}),
    "middle down": (14, 19, {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}),
    "asymmetric linear": (5, 2.6, {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    """Return one model of all rows."""
    nodes, constants, inputs = [], [], []
    for i, (length, given, attributes) in enumerate(ROWS.values()):
        inputs.append(info(f"x{i}", [1, 2, 3, length]))
        if isinstance(given, int):
            constants.append(array(f"s{i}", [1, 2, 3, given], np.int64))
            names = [f"x{i}", "", "", f"s{i}"]
        else:
            constants.append(array(f"s{i}", [1, 1, 1, given]))
            names = [f"x{i}", "", f"s{i}"]
        nodes.append(helper.make_node("Resize", names, [f"y{i}"], **attributes))
    return model(nodes, inputs, [info(f"y{i}", None) for i in range(len(ROWS))], constants, opset=19)


@pytest.fixture(scope="module")
def feeds() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    shapes = [(1, 2, 3, length) for length, _, _ in ROWS.values()]
    return {f"x{i}": draw.normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)}


def check(proto: onnx.ModelProto, to: str, folder: Path, feeds: dict[str, np.ndarray]) -> None:
    """Convert to a format, run the artefact, and compare with onnxruntime."""
    found = run_converted(proto, to, folder, feeds)
    wanted = dict(zip((y.name for y in proto.graph.output), run_ort(proto, feeds), strict=True))
    for i, row in enumerate(ROWS):
        assert found[f"y{i}"].shape == wanted[f"y{i}"].shape, row
        np.testing.assert_allclose(found[f"y{i}"], wanted[f"y{i}"], rtol=1e-5, atol=1e-5, err_msg=row)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "tf", "tf-frozen", "tflite", "keras", "caffe2", "torch"])
def test_backend(to: str, proto: onnx.ModelProto, feeds: dict[str, np.ndarray], tmp_path: Path) -> None:
    check(proto, to, tmp_path, feeds)


@pytest.mark.parametrize("to", ["tf", "caffe2", "torch"])
def test_sums_of_integers_lose_their_fraction(to: str, tmp_path: Path) -> None:
    """At scales whose weights are exact in float32 this is as in onnxruntime. At other scales, onnxruntime turns equal
    numbers into one less; here they stay.
    """
    draw = np.random.default_rng(1)
    feeds = {
        "x0": draw.integers(0, 256, (1, 2, 5, 6), np.uint8),
        "x1": draw.integers(-128, 128, (1, 2, 5, 6), np.int8),
        "x2": np.full((1, 1, 8, 9), 77, np.uint8),
    }
    sizes = ([1, 2, 10, 24], [1, 2, 20, 12], [1, 1, 13, 17])
    nodes = [helper.make_node("Resize", [f"x{i}", "", "", f"s{i}"], [f"y{i}"], mode="linear") for i in range(3)]
    kinds = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in feeds.values()]
    proto = model(
        nodes,
        [info(name, x.shape, kind) for (name, x), kind in zip(feeds.items(), kinds, strict=True)],
        [info(f"y{i}", None, kind) for i, kind in enumerate(kinds)],
        [array(f"s{i}", size, np.int64) for i, size in enumerate(sizes)],
    )
    found = run_converted(proto, to, tmp_path, feeds)
    wanted = run_ort(proto, feeds)
    np.testing.assert_array_equal(found["y0"], wanted[0], strict=True)
    np.testing.assert_array_equal(found["y1"], wanted[1], strict=True)
    assert (found["y2"] == 77).all()


@pytest.mark.slow
@pytest.mark.parametrize("to", ["tf", "tf-frozen", "torch"])
def test_sizes_that_the_run_tells(
    to: str, proto: onnx.ModelProto, feeds: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Sizes known at run time give the same results: the artefact then computes coordinates and weights."""
    dynamic = onnx.ModelProto.FromString(proto.SerializeToString())
    for i, x in enumerate(dynamic.graph.input):
        x.type.tensor_type.shape.dim[3].dim_param = f"n{i}"
    check(dynamic, to, tmp_path, feeds)
