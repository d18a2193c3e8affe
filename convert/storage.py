"""The options that say how an artefact stores numbers; several backends declare them, with one meaning."""

from __future__ import annotations

from typing import Any

from convert.plugin import Option

DTYPE = Option(
    "dtype",
    "",
    "Store floating numbers in this dtype: weights (tflite), or what stands it (onnx).",
    choices=("float32", "float16", "bfloat16"),
    stores=True,
)
QUANTIZE = Option(
    "quantize", "", "Store weights in 8 bits (tflite, onnx) or 4 (onnx).", choices=("int8", "int4"), stores=True
)
_NO_SAMPLES: dict[str, Any] = {}
CALIBRATE = Option(
    "calibrate", _NO_SAMPLES, "Samples of the inputs; with --quantize int8, activations are in 8 bits too."
)
