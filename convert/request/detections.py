"""The option `--postprocess detection,KEY=VALUE,…`: how boxes and scores become detections."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convert.errors import BadInput, UsageError

if TYPE_CHECKING:
    import numpy as np

DETECTIONS = "detections"
"""The extra option of a source's runner that turns boxes and scores into detections: a `Detections`."""

NAMES = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")
"""The outputs, in order, called as the TensorFlow Object Detection API calls them."""

CANDIDATES = "detection_candidates"
"""The extra option of a runner that returns the boxes and scores which detections are selected from: `ALONE`, or
`BESIDE` the detections.
"""
ALONE, BESIDE = "alone", "beside"

CANDIDATE_NAMES = ("candidate_boxes", "candidate_scores")
"""Boxes [1, n, 4] (top, left, bottom, right) and scores [1, classes, n] without the background."""

ROWS = "selected_rows"
"""Rows [k, 3] that NonMaxSuppression selects: image, class and box."""

INNER = "inner_tensors"
"""The extra option of a runner that returns tensors which are no outputs: an `InnerTensors`."""

CORNERS, CENTRES, DELTAS = ("xyxy", "yxyx"), ("cxcywh", "cycxhw"), ("dxdydwdh", "dydxdhdw")
FORMS = (*CORNERS, *CENTRES, *DELTAS)
_HINT = "for instance --postprocess detection,boxes=xyxy,score=0.3,iou=0.5,max=20"
_SCALES = (10.0, 10.0, 5.0, 5.0)


@dataclass(frozen=True)
class Detections:
    """How two tensors become detections; None in `form`, `score` and `iou` is what the model says, or the default.

    boxes, scores: the names of the two outputs; `convert.passes.detections.resolved_by_outputs` finds them.
    form: the four columns of a box: corners, centre and size, or an offset from an anchor as in SSD (`DELTAS`).
    classes_first: scores are [1, classes, boxes], not [1, boxes, classes]. background: the first class is no object.
    limit: the number of detections. per_class: the most of one class. score: boxes with a larger score remain.
    iou: boxes that overlap more with a better one of their class are dropped.
    anchors: [boxes, 4], centre and size in the order of `form`. scales: divisors of the four columns of the offsets.
    """

    boxes: str = ""
    scores: str = ""
    form: str | None = None
    classes_first: bool = False
    background: bool = False
    limit: int = 100
    per_class: int | None = None
    score: float | None = None
    iou: float | None = None
    anchors: np.ndarray | None = None
    scales: tuple[float, ...] = _SCALES

    @property
    def thresholds(self) -> tuple[int, float, float]:
        """Return the most boxes of a class, the overlap and the score of resolved settings."""
        assert self.per_class is not None
        assert self.iou is not None
        assert self.score is not None
        return self.per_class, self.iou, self.score

    @property
    def x_first(self) -> bool:
        """Return whether x comes before y in a box; a detection has y first."""
        return self.form in ("xyxy", "cxcywh", "dxdydwdh")


@dataclass(frozen=True)
class InnerTensors:
    """Which tensors of the outermost graph a runner with the option `INNER` returns.

    numbers: names to give, with the runner's number of the tensor. These tensors alone are returned.
    sizes: used without `numbers`. Floats with so many elements and integers in three columns are returned beside the
        outputs, named by their numbers.
    """

    numbers: tuple[tuple[str, int], ...] = ()
    sizes: frozenset[int] = frozenset()


def parse_detections(text: str) -> Detections:
    """Read `detection,KEY=VALUE,…`. Raises `UsageError` for anything else, and `BadInput` for a broken anchor file."""
    kind, *parts = (part.strip() for part in text.split(","))
    if kind != "detection":
        raise UsageError(f"--postprocess {kind!r} is unknown: only detection", hint=_HINT)
    found = Detections()
    for part in filter(None, parts):
        found = replace(found, **_field(part))
    if (found.form in DELTAS) != (found.anchors is not None):
        raise UsageError("--postprocess: boxes=dxdydwdh and anchors=FILE.npy need each other", hint=_HINT)
    return found


def _field(part: str) -> dict[str, Any]:
    key, _, value = part.partition("=")
    try:
        if key in ("max", "per_class") and int(value) > 0:
            return {"limit" if key == "max" else key: int(value)}
        if key == "iou" and 0 <= float(value) <= 1:
            return {"iou": float(value)}
        if key == "score" and math.isfinite(float(value)):
            return {"score": float(value)}
        if key == "scales":
            scales = tuple(float(v) for v in value.split(":"))
            if len(scales) == 4 and min(scales) > 0:
                return {"scales": scales}
    except ValueError:
        pass
    if key == "boxes" and value in FORMS:
        return {"form": value}
    if key == "background" and value in ("first", "none"):
        return {"background": value == "first"}
    if key == "anchors" and value:
        return {"anchors": _anchors(Path(value))}
    keys = (
        f"boxes={'|'.join(FORMS)}, background=first|none, max, per_class, score, iou, anchors=FILE.npy, scales=a:b:c:d"
    )
    raise UsageError(f"--postprocess does not know {part!r}", hint=f"{_HINT}; keys: {keys}")


def _anchors(path: Path) -> np.ndarray:
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{path} is not a readable .npy file of anchors: {error}") from None
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.shape[1] != 4 or found.dtype.kind != "f":
        raise BadInput(f"{path} holds no anchors: they are floats [boxes, 4]")
    return found.astype(np.float32)
