"""The replacements for loops over boxes in torchvision's detectors return the original results, for any number of
boxes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from convert.frontends.pytorch.export.patch_table import TABLE
from convert.frontends.pytorch.export.patches.libraries import detectors
from convert.frontends.pytorch.export.patches.patch import in_place

from tests.support.timm_helper import declare_torchvision_operators

pytestmark = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("torchvision"), reason="torchvision is not installed"
)


@pytest.fixture(scope="module")
def roi_heads() -> Any:
    declare_torchvision_operators()
    from torchvision.models.detection import roi_heads

    return roi_heads


@pytest.mark.parametrize("count", [0, 1, 4])
def test_masks_are_pasted_as_torchvision_does(count: int, roi_heads: Any) -> None:
    random = np.random.default_rng(count)
    corners = random.uniform(0, 30, (count, 2, 2))
    boxes = torch.from_numpy(np.concatenate([corners.min(1), corners.max(1) + 0.5], 1)).float().reshape(count, 4)
    masks = torch.from_numpy(random.random((count, 1, 14, 14))).float()
    expected = roi_heads.paste_masks_in_image(masks, boxes, (30, 36))
    found = detectors.paste_masks(masks, boxes, (30, 36))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [0, 4])
def test_keypoints_are_where_torchvision_finds_them(count: int, roi_heads: Any) -> None:
    random = np.random.default_rng(count)
    maps = torch.from_numpy(random.standard_normal((count, 3, 20, 20))).float()
    boxes = torch.tensor([[1, 2, 30.5, 47], [0, 0, 0.3, 0.2], [3, 4, 9, 80], [10, 11, 40.2, 12]])[:count]
    expected = roi_heads.heatmaps_to_keypoints(maps, boxes)
    for want, found in zip(expected, detectors.heatmaps_to_keypoints(maps, boxes), strict=True):
        assert found.shape == want.shape
        np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_functions_are_exchanged_for_the_time_of_a_capture(roi_heads: Any) -> None:
    from torchvision.models.detection import transform
    from torchvision.ops import boxes

    before = boxes._batched_nms_coordinate_trick, transform.paste_masks_in_image
    with in_place(row for row in TABLE if row.library == "torchvision"):
        assert boxes._batched_nms_coordinate_trick is detectors.batched_nms
        assert transform.paste_masks_in_image is roi_heads.paste_masks_in_image is detectors.paste_masks
    assert (boxes._batched_nms_coordinate_trick, transform.paste_masks_in_image) == before
