"""Differences between OpenVINO's CPU plugin (2026.4) and ONNX at NaN, infinities and integer limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from convert.runtimes.differences import Difference

_LOSING = (
    "Relu", "Clip", "Celu", "HardSigmoid", "Sigmoid", "Softmax", "LogSoftmax", "Exp", "Max", "Min", "ReduceMax",
    "ReduceMin",
)  # fmt: skip

DIFFERENCES: Mapping[str, Sequence[Difference]] = {
    "openvino": (
        Difference(_LOSING, "OpenVINO's kernels make a number of NaN", integers=False, nonfinite=True),
        Difference(
            ("Greater", "GreaterOrEqual", "ThresholdedRelu"),
            "OpenVINO takes NaN for greater than every number",
            integers=False,
            nonfinite=True,
        ),
        Difference(("Gelu",), "OpenVINO makes NaN of ∞, and ∞ of numbers over 1e38", integers=False),
        Difference(("Mod",), "OpenVINO's remainder of a division by ∞ is NaN", integers=False, nonfinite=True),
    )
}
