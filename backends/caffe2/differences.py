"""What Caffe2 computes otherwise at the edge of numbers."""

from __future__ import annotations

from convert.differences import Difference

DIFFERENCES = {
    "caffe2": (
        Difference(
            ("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "Max", "Min", "TopK"),
            "Caffe2 passes over NaN on one side of a comparison",
            integers=False,
        ),
        Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
    )
}
