"""Pools of the reference executor against onnxruntime."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import helper

from tests.convert.reference.kernels.support import IMAGE, ort_case


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 2], "ceil_mode": 1},
        {"pads": [1, 1, 0, 1], "strides": [2, 2]},
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1},
        {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
        {"dilations": [2, 1]},
    ],
)
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "AveragePool pad"])
def test_pools(operator: str, attributes: dict[str, Any]) -> None:
    more = {"count_include_pad": 1} if "pad" in operator else {}
    node = helper.make_node(operator.split()[0], ["x"], ["y"], kernel_shape=[3, 3], **attributes, **more)
    ort_case([node], {"x": IMAGE}, [])
