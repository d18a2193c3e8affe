"""The options of artefacts that several packages read: how numbers are stored, and what ends a detector."""

from __future__ import annotations

from typing import Any

from convert.plugin import Option

DTYPE = Option(
    "dtype",
    "",
    "Store floating numbers in this dtype: weights (tflite), or all operators that allow it (onnx).",
    choices=("float32", "float16", "bfloat16"),
    stores=True,
)
QUANTIZE = Option(
    "quantize",
    "",
    "Store weights in 8 bits (tflite, onnx) or 4 (onnx); int8-weights: no activation in 8 bits (tflite, onnx); "
    "int16x8: activations in 16 bits (tflite, --calibrate).",
    choices=("int8", "int4", "int8-weights", "int16x8"),
    stores=True,
)
_NO_SAMPLES: dict[str, Any] = {}
CALIBRATE = Option(
    "calibrate",
    _NO_SAMPLES,
    "Samples of the inputs (.npz, .npy, pictures with --image-as), to store activations in 8 bits too.",
)
CALIBRATION_METHOD = Option(
    "calibration_method",
    "minmax",
    "How --calibrate chooses ranges (tflite): minmax, mse, percentile, percentile=99.9.",
    metavar="METHOD",
)
IO_DTYPE = Option(
    "io_dtype",
    "float32",
    "Dtype of the inputs and outputs of a quantized model (tflite).",
    choices=("float32", "int8", "uint8"),
)
KEEP_FLOAT = Option(
    "keep_float",
    "",
    "Nodes that stay in float in a calibrated model: names, globs or operators, separated by commas (tflite).",
    metavar="NAME,TYPE,…",
)
POSTPROCESS = Option(
    "postprocess",
    "",
    "End a detector with TFLite_Detection_PostProcess, which suppresses boxes (tflite).",
    metavar="detection,KEY=VALUE,…",
)

REAL_IO = "real_io"
"""The extra option of a runner that takes and gives real numbers where a file has integers with a scale."""

THREADS = "threads"
"""The extra option of a runner that has `TIMED_THREADS`: how many threads compute; one without it."""
