"""The options of TensorFlow Lite's custom detection operator, which are a flexbuffer."""

from __future__ import annotations

from typing import Any


def detection_options(raw: bytes) -> dict[str, Any]:
    """Return the options by name, with the kernel's defaults (tensorflow/lite/kernels/detection_postprocess.cc).

    scales: of y, x, height and width. Raises what the accessors raise if offsets point outside `raw`.
    """
    from flatbuffers import flexbuffers

    table = flexbuffers.GetRoot(raw).AsMap

    def whole(name: str, default: int = 0) -> int:
        found = _entry(table, name)
        return default if found is None else int(found.AsInt)

    def number(name: str) -> float:
        found = _entry(table, name)
        return 0.0 if found is None else float(found.AsFloat)

    return {
        **{name: whole(name) for name in ("max_detections", "max_classes_per_detection", "num_classes")},
        "detections_per_class": whole("detections_per_class", 100),
        "use_regular_nms": bool(whole("use_regular_nms")),
        **{name: number(name) for name in ("nms_score_threshold", "nms_iou_threshold")},
        "scales": tuple(number(f"{side}_scale") for side in "yxhw"),
    }


def _entry(table: Any, name: str) -> Any:
    """Return the value of a key, or None if there is none."""
    try:
        return None if table[name].IsNull else table[name]
    except KeyError:
        return None
