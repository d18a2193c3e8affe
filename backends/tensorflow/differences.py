"""Where TensorFlow 2.21 on the CPU and TensorFlow Lite differ from ONNX at the limits of number ranges."""

from __future__ import annotations

from dataclasses import replace

from convert.runtimes.differences import Difference

_INTEGERS = Difference(
    ("Cast", "CastLike", "QuantizeLinear"), "NaN and numbers out of range become any integer", integers=False
)
_PASSED_OVER = Difference(("ArgMax", "ArgMin", "Hardmax"), "TensorFlow ignores NaN", integers=False, nonfinite=True)

_AMPLIFIED = (
    "Cast", "Ceil", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "LpNormalization", "Mod",
    "NonZero", "Pow", "ReduceLogSum", "Sign",
)  # fmt: skip
SCATTERED = Difference(
    ("ScatterElements", "ScatterND"),
    "TensorFlow ignores NaN in what a larger-or-smaller scatter writes to",
    integers=False,
    reductions=("max", "min"),
    nonfinite=True,
)
_SUPPRESSED = Difference(
    ("NonMaxSuppression",), "boxes and scores of NaN, and boxes of infinite area, stay or go", integers=False
)
FUSED = Difference(
    ("Conv", "Gemm"),
    "oneDNN's kernels that have Relu, and Gemm's that have Relu6, fused into them make 0 of NaN",
    integers=False,
    excuses=False,
)
DENORMALS = Difference(
    _AMPLIFIED, "threads of TensorFlow's pool take denormal numbers for 0", integers=False, excuses=False, flushes=True
)
EMPTY = Difference(
    ("Conv",),
    "of an empty batch, oneDNN's convolutions have the shape of their input",
    integers=False,
    excuses=False,
    empty=True,
)

_TENSORFLOW = (
    Difference(
        ("MaxPool",), "TensorFlow ignores NaN; nothing but NaN or −∞ gives −3.4e38", integers=False, nonfinite=True
    ),
    Difference(("Softmax",), "oneDNN gives 0 for NaN, where a row has NaN or +∞", integers=False, nonfinite=True),
    Difference(("TopK",), "TensorFlow has no order for NaN", integers=False, nonfinite=True),
    Difference(
        ("DFT", "STFT"),
        "which parts of a row with an infinity are NaN depends on its length",
        integers=False,
        nonfinite=True,
    ),
    Difference(("LRN",), "TensorFlow hands NaN and infinities on to all channels", integers=False, nonfinite=True),
    Difference(
        ("ConvTranspose", "DeformConv", "GridSample", "Resize", "RoiAlign"),
        "NaN and infinities reach neighbours: 0 · ∞ is NaN",
        integers=False,
        nonfinite=True,
    ),
    _SUPPRESSED,
    FUSED,
    EMPTY,
    DENORMALS,
    SCATTERED,
    _PASSED_OVER,
    _INTEGERS,
)

GELU = Difference(
    ("Gelu",),
    "TensorFlow Lite's Gelu is up to 6.9e-7 off below −2, and 0 from −5.2 on",
    integers=False,
    excuses=False,
    within=6.9e-7,
)

_LITE = (
    replace(
        EMPTY,
        operators=(
            *("AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "Gemm", "MatMul", "MaxPool", "SpaceToDepth"),
        ),
        reason="of inputs without elements, TensorFlow Lite's XNNPACK ends the run with an error, has another shape or "
        "no bias",
    ),
    Difference(
        ("Conv",),
        "TensorFlow Lite's Conv3D makes ±3.4e38 of NaN and infinities",
        integers=False,
        rank=5,
        nonfinite=True,
    ),
    Difference(
        ("Max", "Min", "Relu", "Clip", "ReduceMax", "ReduceMin", "ReduceLogSumExp", "MaxPool", "GlobalMaxPool", "TopK"),
        "TensorFlow Lite ignores NaN",
        integers=False,
        nonfinite=True,
    ),
    Difference(("AveragePool",), "TensorFlow Lite's mean of a window with NaN is −∞", integers=False, nonfinite=True),
    Difference(("Clip",), "infinities stay where a bound is not given", integers=False),
    Difference(
        ("Exp", "Softmax", "Softplus", "Log", "Acosh", "Cosh", "LpPool"),
        "TensorFlow Lite makes a number of NaN",
        integers=False,
    ),
    Difference(  # their distance kernels are exponentials
        ("SVMClassifier", "SVMRegressor"), "TensorFlow Lite makes a number of NaN", integers=False, nonfinite=True
    ),
    Difference(
        ("Log", "Pow", "Sqrt", "LpPool", "Atanh"), "TensorFlow Lite makes a number of an infinity", integers=False
    ),
    Difference(
        ("Log", "Asinh", "Acosh"), "TensorFlow Lite's logarithm is infinite, or 88.4, from 2.4e38 on", integers=False
    ),
    Difference(("Sqrt",), "TensorFlow Lite's root of more than 1.7e38 is half as much again", integers=False),
    Difference(
        ("Sin", "Cos", "Tan"),
        "TensorFlow Lite's sine and cosine lose digits from 1e5 on, and from 1e8 on are any number",
        integers=False,
    ),
    Difference(
        ("LRN",), "TensorFlow Lite's power of an infinity or of what overflows is a finite number", integers=False
    ),
    Difference(
        ("GridSample", "Resize"), "NaN and infinities reach neighbours: 0 · ∞ is NaN", integers=False, nonfinite=True
    ),
    GELU,
    replace(
        DENORMALS,
        operators=(*_AMPLIFIED, "Div", "Floor", "Reciprocal", "Sqrt"),
        reason="TensorFlow Lite takes denormal numbers for 0",
    ),
    _PASSED_OVER,
    _SUPPRESSED,
    _INTEGERS,
)

DIFFERENCES = {"tf": _TENSORFLOW, "tf-frozen": _TENSORFLOW, "tflite": _LITE}
