"""Resize as TensorFlow Lite's own operators, where these compute the same, compared with onnxruntime."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.backends.tensorflow.lite.test_quantized import f32, onnxruntime_outputs
from tests.support.tensorflow_lite_helper import encode, graph_of, run

pytest.importorskip("tensorflow")
pytest.importorskip("ai_edge_litert")

NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
LINEAR = (*COORDINATES, "half_pixel_symmetric")
HOW = [
    *({"nearest_mode": n, "coordinate_transformation_mode": c} for n, c in product(NEAREST, COORDINATES)),
    *({"mode": "linear", "coordinate_transformation_mode": c} for c in LINEAR),
]
KNOWN = [
    ((1, 3, 5, 6), {"scales": [1, 1, 2, 2]}),
    ((1, 3, 5, 6), {"scales": [1, 1, 3, 1]}),
    ((1, 3, 10, 10), {"scales": [1, 1, 1.7, 2.6]}),
    ((2, 3, 8, 8), {"scales": [1, 1, 0.5, 0.5]}),
    ((1, 3, 7, 9), {"sizes": [1, 3, 14, 5]}),
    ((1, 3, 33, 17), {"sizes": [1, 3, 65, 1]}),
    ((1, 3, 1, 4), {"sizes": [1, 3, 6, 9]}),
    ((2, 3, 6, 5), {"sizes": [9, 4], "axes": [3, 2]}),
]
DYNAMIC = [("n", 3, "h", "w"), {"scales": [1, 1, 2, 3]}]

Row = tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]


def model_of(rows: list[Row]) -> onnx.ModelProto:
    """Return a model with an input and a Resize for each row."""
    nodes, inputs, outputs, constants = [], [], [], []
    for i, (dims, sizes, how) in enumerate(rows):
        inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, dims))
        outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [None] * len(dims)))
        kind = "scales" if "scales" in sizes else "sizes"
        dtype = np.float32 if kind == "scales" else np.int64
        constants.append(numpy_helper.from_array(np.array(sizes[kind], dtype), f"n{i}"))
        given = [f"x{i}", "", f"n{i}"] if kind == "scales" else [f"x{i}", "", "", f"n{i}"]
        axes = {"axes": sizes["axes"]} if "axes" in sizes else {}
        nodes.append(helper.make_node("Resize", given, [f"y{i}"], name=f"y{i}", **how, **axes))
    graph = helper.make_graph(nodes, "resizes", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def assert_same(rows: list[Row], folder: Path) -> None:
    """Compare with onnxruntime; coordinates of weighted sums are rounded to float32, and so differ by that."""
    sizes = {"n": 2, "h": 11, "w": 13}
    proto = model_of(rows)
    feed = {f"x{i}": f32(*(sizes.get(d, d) for d in dims)) for i, (dims, _, _) in enumerate(rows)}
    got = run(encode(graph_of(proto), folder), feed)
    for i, ((_, given, how), expected) in enumerate(zip(rows, onnxruntime_outputs(proto, feed), strict=True)):
        x = feed[f"x{i}"]
        rounding = 0 if how.get("mode") != "linear" else sum(x.shape[2:]) * 2.0**-22 * np.ptp(x)
        np.testing.assert_allclose(got[f"y{i}"], expected, rtol=0, atol=rounding, err_msg=f"{given} {how}")


@pytest.mark.parametrize("case", KNOWN, ids=[str(sizes) for _, sizes in KNOWN])
def test_known_sizes(tmp_path: Path, case: tuple) -> None:
    assert_same([(*case, how) for how in HOW], tmp_path)


def test_dynamic_sizes(tmp_path: Path) -> None:
    assert_same([(*DYNAMIC, how) for how in HOW], tmp_path)  # type: ignore[list-item]


SQUARE, ANY = (1, 3, 8, 8), ("n", 3, "h", "w")
REPEATED = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
NAMES: list[tuple[Row, str]] = [
    ((SQUARE, {"scales": [1, 1, 2, 2]}, REPEATED), "RESIZE_NEAREST_NEIGHBOR"),
    ((ANY, {"scales": [1, 1, 2, 2]}, REPEATED), "RESIZE_NEAREST_NEIGHBOR"),
    ((ANY, {"scales": [1, 1, 5, 5]}, REPEATED), "RESIZE_NEAREST_NEIGHBOR"),
    ((ANY, {"scales": [1, 1, 2, 2]}, {}), "RESIZE_NEAREST_NEIGHBOR"),
    ((ANY, {"scales": [1, 1, 1.5, 1.5]}, {}), "GATHER"),
    *(((SQUARE, {"sizes": [1, 3, 13, 3]}, {"mode": "linear", "coordinate_transformation_mode": how}), "RESIZE_BILINEAR")
      for how in LINEAR),
    ((SQUARE, {"sizes": [1, 3, 1, 1]}, {"mode": "linear"}), "RESIZE_BILINEAR"),
    ((ANY, {"sizes": [13, 3], "axes": [2, 3]}, {"mode": "linear"}), "RESIZE_BILINEAR"),
    ((ANY, {"scales": [1, 1, 4, 4]}, {"mode": "linear"}), "RESIZE_BILINEAR"),
    ((SQUARE, {"sizes": [1, 3, 4, 4]}, {"mode": "linear", "antialias": 1}), "GATHER"),
    ((SQUARE, {"sizes": [1, 6, 16, 16]}, {"mode": "linear"}), "GATHER"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "operator"), NAMES, ids=[f"{dims} {n} {how}" for (dims, n, how), _ in NAMES])
def test_which_operator_it_becomes(tmp_path: Path, row: Row, operator: str) -> None:
    """Delegates take these two operators and not what a Resize is written out in."""
    from ai_edge_litert.interpreter import Interpreter

    details = Interpreter(str(encode(graph_of(model_of([row])), tmp_path)))._get_ops_details()
    names = [each["op_name"] for each in details]
    assert operator in names
    assert operator != "GATHER" or not any(name.startswith("RESIZE") for name in names)
