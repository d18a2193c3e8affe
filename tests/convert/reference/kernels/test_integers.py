"""Products and convolutions of integers of the reference executor against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import array


def whole(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize(
    ("zeros", "names"), [((), ""), (((), ()), "ab"), (((), (5,)), "ab"), (((), ()), " b"), (((1,), (1,)), "ab")]
)
@pytest.mark.parametrize("shapes", [((3, 7), (7, 5)), ((2, 3, 7), (7, 5)), ((2, 3, 7), (2, 7, 5))])
def test_products(shapes: tuple[tuple[int, ...], ...], zeros: tuple[tuple[int, ...], ...], names: str) -> None:
    if len(shapes[1]) == 3 and (5,) in zeros:
        zeros = ((), (2, 1, 5))
    given = [array(n, whole(*shape), np.uint8) for n, shape in zip(names, zeros, strict=False) if n.strip()]
    node = helper.make_node("MatMulInteger", ["x", "w", *(n.strip() for n in names)], ["y"])
    ort_case([node], {"x": whole(*shapes[0]), "w": whole(*shapes[1])}, given, TensorProto.INT32)


def test_sums_wider_than_float32() -> None:
    """65,025 times 1,000 is exact in float64 only."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    x = np.full((2, 1001), 255, np.uint8)
    ort_case([node], {"x": x, "w": x.T.copy()}, [], TensorProto.INT32)


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 3], "dilations": [2, 1]},
        {"group": 2, "auto_pad": "SAME_UPPER"},
    ],
)
@pytest.mark.parametrize("operator", ["ConvInteger", "QLinearConv", "QLinearConv by channel"])
def test_convolutions(operator: str, attributes: dict[str, Any]) -> None:
    channels = 4 // attributes.get("group", 1)
    # Weights have seven bits, because on AVX2 onnxruntime 1.32 adds pairs of products in int16, which saturates.
    feeds = {"x": whole(2, 4, 9, 8), "w": whole(6, channels, 3, 2, dtype=np.int8) // 2}
    zeros = [array("p", 17, np.uint8), array("q", 0, np.int8)]
    if operator == "ConvInteger":
        feeds["w"] = feeds["w"].view(np.uint8)
        node = helper.make_node(operator, ["x", "w", "p"], ["y"], **attributes)
        ort_case([node], feeds, zeros[:1], TensorProto.INT32)
        return
    each = "channel" in operator
    steps = [array("s", 0.02), array("t", RNG.random(6) / 99 + 0.01 if each else 0.013), array("u", 0.31)]
    if each:
        zeros[1] = array("q", np.zeros(6), np.int8)
    more = [*steps, *zeros, array("z", 101, np.uint8), array("b", RNG.integers(-999, 999, 6), np.int32)]
    node = helper.make_node("QLinearConv", [*"xspwtquzb"], ["y"], **attributes)
    ort_case([node], feeds, more, TensorProto.UINT8)


@pytest.mark.parametrize("each", [False, True])
def test_quantized_products(each: bool) -> None:
    feeds = {"x": whole(2, 3, 7), "w": whole(7, 5)}
    steps = [array("s", 0.02), array("t", RNG.random(5) / 99 + 0.01 if each else 0.013), array("u", 0.31)]
    zeros = [
        array("p", 17, np.uint8),
        array("q", np.full(5, 120) if each else 120, np.uint8),
        array("z", 101, np.uint8),
    ]
    node = helper.make_node("QLinearMatMul", [*"xspwtquz"], ["y"])
    ort_case([node], feeds, [*steps, *zeros], TensorProto.UINT8)
