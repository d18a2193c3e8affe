"""Convert torchvision's detectors with small backbones to ONNX and verify them on a list of images.

    python -m tests.suites.detectors faster retina mask keypoint ssdlite

The compiled part of torchvision is not needed: nms and roi_align are the tests' own, in numpy.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import convert
from tests.frontends.pytorch.ops import test_vision
from tests.support.timm_helper import declare_torchvision_operators

_ROI_ALIGN = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)
_LIBRARIES: list[Any] = []


def define_operators() -> None:
    """Define torchvision's two operators in numpy, and their results for tensors without content."""
    declare_torchvision_operators()
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(_ROI_ALIGN)

    def nms(dets: Tensor, scores: Tensor, threshold: float) -> Tensor:
        kept = test_vision.nms(dets.detach().numpy(), scores.detach().numpy(), threshold)
        return torch.from_numpy(np.asarray(kept, np.int64).reshape(-1))

    def roi_align(x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Tensor:
        given, boxes = x.detach().numpy(), rois.detach().numpy()
        return torch.from_numpy(test_vision.roi_align(given, boxes, scale, height, width, ratio, aligned)).to(x.dtype)

    def number_of_boxes(dets: Tensor, scores: Tensor, threshold: float) -> Tensor:
        return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)

    def shape_of_regions(
        x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
    ) -> Tensor:
        return x.new_empty((rois.shape[0], x.shape[1], height, width))

    library.impl("nms", nms, "CPU")
    library.impl("roi_align", roi_align, "CPU")
    torch.library.register_fake("torchvision::nms", number_of_boxes, lib=library)
    torch.library.register_fake("torchvision::roi_align", shape_of_regions, lib=library)
    _LIBRARIES.append(library)
    import torchvision.extension

    torchvision.extension._has_ops = lambda: True


PICTURE = torch.rand(3, 70, 90, generator=torch.Generator().manual_seed(0))


class Backbone(nn.Module):
    """Two convolutions that reduce the image sixteen times."""

    def __init__(self) -> None:
        super().__init__()
        self.out_channels = 8
        self.first, self.second = nn.Conv2d(3, 8, 7, 4, 3), nn.Conv2d(8, 8, 3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu()).relu()


def make(name: str) -> nn.Module:
    """Return a detector in eval mode, with the same weights every time.

    Weights of the heads are larger than torchvision's: with those every score is the same, and rounding decides which
    boxes are found.
    """
    from torchvision.models.detection import (
        FasterRCNN,
        KeypointRCNN,
        MaskRCNN,
        RetinaNet,
        ssdlite320_mobilenet_v3_large,
    )
    from torchvision.models.detection.rpn import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    anchors = AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),))
    sizes = {"min_size": 64, "max_size": 96, "num_classes": 3}
    regions: dict[str, Any] = {
        "rpn_anchor_generator": anchors, "box_roi_pool": MultiScaleRoIAlign(["0"], 7, 2), "rpn_pre_nms_top_n_test": 20,
        "rpn_post_nms_top_n_test": 8, "box_detections_per_img": 5, "box_score_thresh": 0.2, **sizes,
    }  # fmt: skip
    masks, few = MultiScaleRoIAlign(["0"], 14, 2), {"topk_candidates": 20, "detections_per_img": 5}
    made: dict[str, Callable[[], nn.Module]] = {
        "faster": lambda: FasterRCNN(Backbone(), **regions),
        "mask": lambda: MaskRCNN(Backbone(), mask_roi_pool=masks, **regions),
        "retina": lambda: RetinaNet(Backbone(), anchor_generator=anchors, score_thresh=0.005, **few, **sizes),
        "keypoint": lambda: KeypointRCNN(
            Backbone(), num_keypoints=5, keypoint_roi_pool=masks, **{**regions, "num_classes": 2}
        ),
        "ssdlite": lambda: ssdlite320_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=3, score_thresh=0.01, **few
        ),
    }
    torch.manual_seed(0)
    module = made[name]().eval()
    for weight in (p for p in module.parameters() if p.ndim == 4):
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
    # Batch statistics of a few pictures; without them activations grow or shrink from layer to layer.
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.train().momentum = 1.0
    with torch.no_grad():
        module([PICTURE, PICTURE.flip(1), PICTURE.flip(2), 1 - PICTURE])
    return module.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["faster", "retina", "mask", "keypoint", "ssdlite"])
    define_operators()
    for name in parser.parse_args().names:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = convert.convert(make(name), "onnx", Path(folder) / "m.onnx", inputs={"images": [PICTURE]})
                told = f"{done.verdict.status} {done.verdict.reason}" if done.verdict else done.unverified
            except convert.ConvertError as error:
                told = f"{type(error).__name__}: {error.message}"
        print(f"{name}: {told} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
