"""The options of the TensorFlow backend."""

from typing import Any

from convert.plugin import Option

WEIGHTS = Option("weights", "variables", "How a SavedModel holds its weights.", choices=("variables", "constants"))
DTYPE = Option("dtype", "", "Store floating weights in this dtype (tflite).", choices=("float16",), stores=True)
QUANTIZE = Option("quantize", "", "Store weights in 8 bits (tflite).", choices=("int8",), stores=True)
_NO_SAMPLES: dict[str, Any] = {}
CALIBRATE = Option("calibrate", _NO_SAMPLES, "Samples of the inputs; with --quantize, activations are in 8 bits too.")
