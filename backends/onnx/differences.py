"""Where onnxruntime 1.31 on the CPU differs from ONNX at the limits of number ranges."""

from __future__ import annotations

from convert.runtimes.differences import Difference

_PASSED_OVER = "onnxruntime ignores NaN, unless it comes first"

DIFFERENCES = {
    "onnx": (
        Difference(
            ("ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "Hardmax"), _PASSED_OVER, integers=False, nonfinite=True
        ),
        Difference(
            ("MaxPool", "GlobalMaxPool"),
            f"{_PASSED_OVER}; nothing but −∞ gives −3.4e38",
            integers=False,
            nonfinite=True,
        ),
        Difference(
            ("ScatterElements", "ScatterND"),
            "onnxruntime ignores NaN in what a larger-or-smaller scatter writes to",
            integers=False,
            reductions=("max", "min"),
            nonfinite=True,
        ),
        Difference(
            ("Resize",),
            "onnxruntime multiplies NaN and infinities by a weight of 0, those of the next channel too for one dim",
            integers=False,
            nonfinite=True,
        ),
        Difference(
            ("GridSample",),
            "onnxruntime gives an element or 0 for a place that is NaN",
            integers=False,
            nonfinite=True,
        ),
        Difference(
            ("DFT", "STFT"), "onnxruntime's sums over a row with an infinity are NaN", integers=False, nonfinite=True
        ),
        Difference(("Unique",), "onnxruntime takes NaN for equal to every number", integers=False, nonfinite=True),
        Difference(
            ("LSTM", "GRU"), "onnxruntime's cells make numbers of NaN, RNN keeps it", integers=False, excuses=False
        ),
        Difference(
            ("LSTM", "GRU"),
            "onnxruntime makes 0 of NaN and 3.4e38 of infinities where an activation is Relu",
            integers=False,
            activations=("Relu",),
            nonfinite=True,
        ),
        Difference(("RNN",), "onnxruntime makes 0 of NaN where its activation is Relu", integers=False, excuses=False),
        Difference(
            ("Einsum", "Unique"),
            "onnxruntime ends the process for an Einsum of an empty batch, and for Unique parts of no elements",
            integers=False,
            excuses=False,
            empty=True,
        ),
        Difference(("ReduceMean",), "onnxruntime's mean of no elements is 0", integers=False),
        Difference(
            ("ReduceSum", "ReduceProd", "Pow"),
            "onnxruntime computes integers in float64, exact to 2⁵³, and ends at the largest one, or the least",
            integers=True,
        ),
        Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
    )
}
