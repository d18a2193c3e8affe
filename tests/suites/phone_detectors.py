"""Convert heads like those of seven detectors to TensorFlow Lite, and verify them.

    python -m tests.suites.phone_detectors [NAME …] [--forms float int8 int16x8] [--ends rows operator]

The backbone is small, weights are random and pictures are 64 × 64, so that a network takes seconds. `rows` ends with
ONNX's NonMaxSuppression and the boxes and scores that it selects; `operator` uses `--postprocess detection`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import convert

SIZE, CLASSES, SAMPLES = 64, 5, 16
FORMS = ("float", "int8", "int16x8")
ENDS = ("rows", "operator")


def conv(i: int, o: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), act())


class Backbone(nn.Module):
    """Maps of 8 × 8 and 4 × 4 places with 32 channels; the coarse one is added to the fine one."""

    def __init__(self, act: type[nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 2, act), conv(16, 32, 2, act), conv(32, 32, 2, act))
        self.down, self.side = conv(32, 32, 2, act), nn.Conv2d(32, 32, 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        fine = self.stem(x)
        coarse = self.down(fine)
        return [fine + nn.functional.interpolate(self.side(coarse), scale_factor=2.0), coarse]


def grids() -> list[tuple[Tensor, int]]:
    """Return the centres [1, places, 2] (x, y) of each map, in units of its stride, and the stride."""
    found = []
    for stride in (8, 16):
        steps = torch.arange(SIZE // stride) + 0.5
        y, x = torch.meshgrid(steps, steps, indexing="ij")
        found.append((torch.stack([x, y], -1).reshape(1, -1, 2), stride))
    return found


def anchors(ratios: Sequence[float], sizes: Sequence[float]) -> Tensor:
    """Return anchors [boxes, 4], centre and size in fractions of the picture, x first."""
    rows = []
    for centres, stride in grids():
        for place in centres[0].tolist():
            for ratio in ratios:
                for size in sizes:
                    side = 2 * stride * size / SIZE
                    centre = [c * stride / SIZE for c in place]
                    rows.append([*centre, side * ratio**0.5, side / ratio**0.5])
    return torch.tensor(rows)


class Head(nn.Module):
    """A backbone and one convolution for each map, with `columns` numbers for each of `boxes` boxes of a place."""

    def __init__(self, boxes: int, columns: int, act: type[nn.Module] = nn.SiLU) -> None:
        super().__init__()
        self.backbone, self.columns = Backbone(act), columns
        self.heads = nn.ModuleList([nn.Conv2d(32, boxes * columns, 3, padding=1) for _ in range(2)])

    def rows(self, x: Tensor) -> list[Tensor]:
        """Return the numbers of each map as [1, boxes, columns]."""
        maps = [head(m) for head, m in zip(self.heads, self.backbone(x), strict=True)]
        return [m.permute(0, 2, 3, 1).reshape(1, -1, self.columns) for m in maps]


class Yolo5(Head):
    """Centre and size from three anchors; scores are products of two sigmoids."""

    SIDES = (1.0, 2.0, 3.5)

    def __init__(self) -> None:
        super().__init__(3, 5 + CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = [], []
        for rows, (grid, stride) in zip(self.rows(x), grids(), strict=True):
            y = rows.sigmoid()
            centres = grid.repeat_interleave(3, 1)
            sides = torch.tensor(self.SIDES).repeat(grid.shape[1])[None, :, None] * stride
            centre, size = (y[..., :2] * 2 - 1 + centres) * stride, (y[..., 2:4] * 2) ** 2 * sides
            boxes.append(torch.cat([centre - size / 2, centre + size / 2], 2))
            scores.append(y[..., 5:] * y[..., 4:5])
        return torch.cat(boxes, 1), torch.cat(scores, 1).transpose(1, 2)


class Yolo8(Head):
    """Distances to the four sides, each the mean of a distribution over 8 steps."""

    BINS = 8

    def __init__(self, act: type[nn.Module] = nn.SiLU) -> None:
        super().__init__(1, 4 * self.BINS + CLASSES, act)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.cat(self.rows(x), 1)
        spread, scores = found.split([4 * self.BINS, CLASSES], 2)
        shares = spread.reshape(1, -1, 4, self.BINS).softmax(3)
        sides = (shares * torch.arange(self.BINS)).sum(3)
        centres = torch.cat([grid for grid, _ in grids()], 1)
        strides = torch.cat([torch.full((1, grid.shape[1], 1), stride) for grid, stride in grids()], 1)
        boxes = torch.cat([centres - sides[..., :2], centres + sides[..., 2:]], 2) * strides
        return boxes, scores.transpose(1, 2).sigmoid()


class Yolo11(Yolo8):
    """YOLOv8's head behind a block of attention on the coarse map."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

    def rows(self, x: Tensor) -> list[Tensor]:
        fine, coarse = self.backbone(x)
        words = coarse.flatten(2).transpose(1, 2)
        coarse = coarse + self.attention(words, words, words)[0].transpose(1, 2).reshape(coarse.shape)
        maps = [head(m) for head, m in zip(self.heads, (fine, coarse), strict=True)]
        return [m.permute(0, 2, 3, 1).reshape(1, -1, self.columns) for m in maps]


class Anchored(Head):
    """Offsets from anchors, decoded, and scores. scales: divisors of centre and size."""

    def __init__(self, act: type[nn.Module], ratios: Sequence[float], sizes: Sequence[float], columns: int) -> None:
        super().__init__(len(ratios) * len(sizes), 4 + columns, act)
        self.register_buffer("anchors", anchors(ratios, sizes))

    def decoded(self, offsets: Tensor, centre: float, size: float) -> Tensor:
        middle = offsets[..., :2] / centre * self.anchors[:, 2:] + self.anchors[:, :2]
        half = (offsets[..., 2:] / size).exp() * self.anchors[:, 2:] / 2
        return torch.cat([middle - half, middle + half], 2)


class Ssd(Anchored):
    """Softmax over the classes and a background, which is left out."""

    def __init__(self) -> None:
        super().__init__(nn.ReLU6, (0.5, 1.0, 2.0), (1.0,), 1 + CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.cat(self.rows(x), 1)
        return self.decoded(found[..., :4], 10, 5), found[..., 4:].softmax(2)[..., 1:].transpose(1, 2)


class RetinaNet(Anchored):
    """Sigmoid scores, and boxes that are clipped to the picture."""

    def __init__(self) -> None:
        super().__init__(nn.ReLU, (0.5, 1.0, 2.0), (1.0, 1.26, 1.59), CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.cat(self.rows(x), 1)
        return self.decoded(found[..., :4], 1, 1).clamp(0, 1), found[..., 4:].transpose(1, 2).sigmoid()


class EfficientDet(Anchored):
    """Sums of maps with learned weights (BiFPN), sigmoid scores, boxes that are not clipped."""

    def __init__(self) -> None:
        super().__init__(nn.SiLU, (0.5, 1.0, 2.0), (1.0, 1.26, 1.59), CLASSES)
        self.shares = nn.Parameter(torch.rand(2))

    def rows(self, x: Tensor) -> list[Tensor]:
        fine, coarse = self.backbone(x)
        shares = self.shares.relu()
        shares = shares / (shares.sum() + 1e-4)
        coarse = coarse * shares[0] + nn.functional.max_pool2d(fine, 2) * shares[1]
        maps = [head(m) for head, m in zip(self.heads, (fine, coarse), strict=True)]
        return [m.permute(0, 2, 3, 1).reshape(1, -1, self.columns) for m in maps]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = torch.cat(self.rows(x), 1)
        return self.decoded(found[..., :4], 1, 1), found[..., 4:].transpose(1, 2).sigmoid()


class Fcos(Head):
    """Exponentials of distances, and scores that are the root of class times centredness."""

    def __init__(self) -> None:
        super().__init__(1, 5 + CLASSES, nn.ReLU)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = [], []
        for rows, (grid, stride) in zip(self.rows(x), grids(), strict=True):
            sides = (rows[..., :4] * 0.5).exp()
            boxes.append(torch.cat([grid - sides[..., :2], grid + sides[..., 2:]], 2) * stride)
            scores.append((rows[..., 5:].sigmoid() * rows[..., 4:5].sigmoid()).sqrt())
        return torch.cat(boxes, 1), torch.cat(scores, 1).transpose(1, 2)


HEADS: dict[str, Callable[[], nn.Module]] = {
    "YOLOv5": Yolo5,
    "YOLOv8": Yolo8,
    "YOLO11": Yolo11,
    "SSD": Ssd,
    "RetinaNet": RetinaNet,
    "EfficientDet": EfficientDet,
    "FCOS": Fcos,
}
LEAST = {"SSD": 0.2, "YOLOv5": 0.3}
"""Least scores, so that some boxes are selected and some are not; others have 0.5."""


def build(name: str) -> nn.Module:
    """Return a head in eval mode; statistics are of random pictures, so that outputs depend on the input."""
    torch.manual_seed(0)
    module = HEADS[name]().train()
    for norm in (m for m in module.modules() if isinstance(m, nn.BatchNorm2d)):
        norm.momentum = None
    with torch.no_grad():
        for _ in range(4):
            module(torch.randn(1, 3, SIZE, SIZE))
    return module.eval()


def with_rows(proto: onnx.ModelProto, least: float, per_class: int = 20, iou: float = 0.5) -> onnx.ModelProto:
    """Return a model of boxes and scores that ends with the rows, boxes and scores that are selected."""
    graph = proto.graph
    boxes, scores = (v.name for v in graph.output)
    numbers = {
        "most": np.array([per_class]),
        "iou": np.array([iou], np.float32),
        "least": np.array([least], np.float32),
        "columns": np.array([0, 2]),
    }
    graph.initializer.extend(numpy_helper.from_array(n, f"nms_{k}") for k, n in numbers.items())
    graph.node.extend(
        [
            helper.make_node("NonMaxSuppression", [boxes, scores, "nms_most", "nms_iou", "nms_least"], ["rows"]),
            helper.make_node("GatherND", [scores, "rows"], ["row_scores"]),
            helper.make_node("Gather", ["rows", "nms_columns"], ["places"], axis=1),
            helper.make_node("GatherND", [boxes, "places"], ["row_boxes"]),
        ]
    )
    del graph.output[:]
    graph.output.extend(
        [
            helper.make_tensor_value_info("rows", TensorProto.INT64, ["count", 3]),
            helper.make_tensor_value_info("row_boxes", TensorProto.FLOAT, ["count", 4]),
            helper.make_tensor_value_info("row_scores", TensorProto.FLOAT, ["count"]),
        ]
    )
    return proto


def model_of(name: str, end: str) -> onnx.ModelProto:
    """Return a head as ONNX, with outputs boxes [1, n, 4] and scores [1, classes, n], or with selected rows."""
    proto = convert.to_onnx(build(name), [torch.randn(1, 3, SIZE, SIZE)], verify=False)
    return with_rows(proto, LEAST.get(name, 0.5)) if end == "rows" else proto


def converted(name: str, form: str, end: str, folder: Path) -> convert.Report:
    """Return the report of one conversion."""
    options: dict[str, Any] = {}
    if form != "float":
        samples = np.random.default_rng(0).standard_normal((SAMPLES, 3, SIZE, SIZE)).astype(np.float32)
        (given,) = (v.name for v in model_of(name, end).graph.input)
        options = {"quantize": form, "calibrate": {given: samples}}
    if end == "operator":
        options["postprocess"] = f"detection,boxes=xyxy,score={LEAST.get(name, 0.5)},iou=0.5,max=20"
    return convert.convert(model_of(name, end), "tflite", folder / f"{name}.{form}.{end}.tflite", **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(HEADS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["float", "int8"])
    parser.add_argument("--ends", nargs="+", choices=ENDS, default=list(ENDS))
    args = parser.parse_args()
    for name in args.names:
        for form in args.forms:
            for end in args.ends:
                start = time.perf_counter()
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        done = converted(name, form, end, Path(folder))
                        told = f"{done.verdict.status} {done.verdict.reason}" if done.verdict else done.unverified
                        codes = [n.code for n in done.verdict.notes] if done.verdict else []
                        told += " in two steps" if "compared-before-selection" in codes else ""
                    except convert.ParityError as error:
                        told = f"FAIL {error.message}"
                    except convert.ConvertError as error:
                        told = f"{type(error).__name__}: {error.message}"
                print(f"{name} | {form} | {end} | {told} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
