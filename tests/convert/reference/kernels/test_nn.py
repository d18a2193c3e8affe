"""Convolutions, and sums of blocks, of the reference executor against onnxruntime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.convert.reference.kernels.support import IMAGE, RNG, ort_case
from tests.support.onnx_support import array


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 3]},
        {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
        {"group": 2},
        {"group": 6},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_conv(attributes: dict[str, Any]) -> None:
    group = attributes.get("group", 1)
    w = array("w", RNG.normal(size=(12, 6 // group, 3, 2)))
    b = array("b", RNG.normal(size=12))
    ort_case([helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)], {"x": IMAGE}, [w, b])


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 1]},
        {"group": 3},
        {"dilations": [2, 2], "strides": [3, 1]},
        {"strides": [3, 2], "output_shape": [33, 18]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [4, 5]},
    ],
)
def test_conv_transpose(attributes: dict[str, Any]) -> None:
    w = array("w", RNG.normal(size=(6, 4, 3, 3)))
    ort_case([helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)], {"x": IMAGE}, [w])


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ([9, 8], [3, 2], {}),
        ([9, 8], [3, 3], {"pads": [1, 0, 2, 1], "strides": [2, 3]}),
        ([9, 8], [2, 3], {"dilations": [2, 1]}),
        ([9], [4], {"strides": [2]}),
        ([5, 4, 6], [2, 2, 3], {"pads": [0, 1, 0, 1, 0, 1]}),
    ],
)
def test_blocks_to_pictures(image: list[int], block: list[int], attributes: dict[str, Any]) -> None:
    rank = len(image)
    pads, strides = attributes.get("pads", [0] * 2 * rank), attributes.get("strides", [1] * rank)
    wide = [d * (k - 1) + 1 for d, k in zip(attributes.get("dilations", [1] * rank), block, strict=True)]
    total = [n + a + b - k for n, a, b, k in zip(image, pads[:rank], pads[rank:], wide, strict=True)]
    count = math.prod(t // s + 1 for t, s in zip(total, strides, strict=True))
    given = [array("i", image, np.int64), array("b", block, np.int64)]
    x = RNG.normal(size=(2, 3 * math.prod(block), count)).astype(np.float32)
    ort_case([helper.make_node("Col2Im", ["x", "i", "b"], ["y"], **attributes)], {"x": x}, given)
