"""Pools of the reference executor against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

from convert.reference.kernels.pool import max_pool
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


@pytest.mark.parametrize("places", [[0], [4], [1, 7], [3, 8]])
def test_maxima_with_places_keep_nan(places: list[int]) -> None:
    """NaN is the maximum, the last one of several, as in PyTorch and in the kernel without indices."""
    x = np.arange(9, dtype=np.float64)
    x[places] = np.nan
    settings = {"auto_pad": "NOTSET", "ceil_mode": 0, "dilations": None, "kernel_shape": [3, 3], "pads": None}
    y, where = max_pool(2, x.reshape(1, 1, 3, 3), **settings, storage_order=0, strides=None)
    want, place = torch.nn.functional.max_pool2d(torch.from_numpy(x).view(1, 1, 3, 3), 3, return_indices=True)
    np.testing.assert_array_equal(y, want.numpy())
    np.testing.assert_array_equal(where, place.numpy())
