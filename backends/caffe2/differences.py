"""Where Caffe2 differs from ONNX at the limits of number ranges (`tests/suites/special_values.py onnx caffe2`)."""

from __future__ import annotations

from convert.runtimes.differences import Difference

DIFFERENCES = {
    "caffe2": (
        Difference(
            ("MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "TopK"), "Caffe2 ignores NaN", integers=False
        ),
        Difference(
            ("ReduceMax", "ReduceMin", "MaxPool"), "nothing but NaN or infinities gives ±3.4e38", integers=False
        ),
        Difference(("MaxPool",), "indices of a window of −∞ lie beside it", integers=False),
        Difference(("ArgMax", "ArgMin", "Hardmax"), "Caffe2 ignores NaN, unless it comes first", integers=False),
        Difference(("Max", "Min", "ScatterND"), "Caffe2 ignores NaN in the second of two", integers=False),
        Difference(("Clip",), "bounds of NaN that are known at run time only count as none", integers=False),
        Difference(("NonMaxSuppression",), "Caffe2 orders boxes otherwise whose scores are NaN", integers=False),
        Difference(("ReduceLogSumExp",), "+∞ among the numbers gives NaN", integers=False),
        Difference(("LayerNormalization", "Det"), "an infinity gives NaN in its mean or product", integers=False),
        Difference(("Shrink",), "NaN stays NaN, where ONNX has 0", integers=False),
        Difference(
            ("ConvTranspose", "LRN", "CumSum", "PRelu", "Resize"),
            "NaN and infinities reach neighbours: 0 · ∞ is NaN",
            integers=False,
        ),
        Difference(("LpNormalization",), "denormals are squared to 0", integers=False, excuses=False),
        Difference(("Mod",), "remainders of the least number of int64 overflow", integers=True),
        Difference(("Range",), "from one end of int64 to the other the length overflows", integers=True),
        Difference(
            ("Gather", "GatherElements", "GatherND", "LpPool", "Reshape"),
            "of inputs without elements Caffe2's result has another shape",
            excuses=False,
            empty=True,
        ),
        Difference(
            (
                *("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "GlobalMaxPool"),
                *("InstanceNormalization", "MaxPool"),
            ),
            "of inputs without elements Caffe2's kernels end the run with an error, or the process",
            integers=False,
            excuses=False,
            empty=True,
        ),
        Difference(("QuantizeLinear",), "NaN becomes 0 or any integer", integers=False),
    )
}
