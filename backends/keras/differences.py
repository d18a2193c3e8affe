"""Where Keras on TensorFlow differs from ONNX at the limits of number ranges."""

from __future__ import annotations

from convert.runtimes.differences import Difference

_AMPLIFIED = (
    "Cast", "Ceil", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "LpNormalization", "Mod",
    "NonZero", "Pow", "ReduceLogSum", "Sign",
)  # fmt: skip

DIFFERENCES = {
    "keras": (
        Difference(
            ("MaxPool",),
            "TensorFlow ignores NaN; nothing but NaN or −∞ gives −3.4e38",
            integers=False,
            nonfinite=True,
        ),
        Difference(("ArgMax", "ArgMin", "Hardmax"), "TensorFlow ignores NaN", integers=False, nonfinite=True),
        Difference(("Attention", "Softmax"), "oneDNN gives 0 for NaN, where a row has NaN or +∞", integers=False),
        Difference(
            ("ScatterElements", "ScatterND"),
            "TensorFlow ignores NaN in what a larger-or-smaller scatter writes to",
            integers=False,
            reductions=("max", "min"),
            nonfinite=True,
        ),
        Difference(("TopK",), "TensorFlow has no order for NaN", integers=False, nonfinite=True),
        Difference(
            ("ConvTranspose", "Resize"),
            "NaN and infinities reach neighbours as well: 0 · ∞ is NaN",
            integers=False,
            nonfinite=True,
        ),
        Difference(
            ("Conv", "Gemm"),
            "oneDNN's kernels that have Relu, and Gemm's that have Relu6, fused into them make 0 of NaN",
            integers=False,
            excuses=False,
        ),
        Difference(
            ("Conv",),
            "of an empty batch, oneDNN's convolutions have the shape of their input",
            integers=False,
            excuses=False,
            empty=True,
        ),
        Difference(
            ("Add", "Sum"),
            "the sum of two matrices without rows ends with an error, as Keras takes the second for a bias",
            integers=False,
            excuses=False,
            empty=True,
            rank=2,
        ),
        Difference(
            ("Einsum", "Gemm", "MatMul"),
            "integers are multiplied in float64, exact to 2⁵³",
            integers=True,
        ),
        Difference(
            _AMPLIFIED,
            "threads of TensorFlow's pool take denormal numbers for 0",
            integers=False,
            excuses=False,
            flushes=True,
        ),
        Difference(("Cast", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False),
    )
}
