"""All rows of the TensorFlow backend's table; see `test_to_tensorflow`."""

from __future__ import annotations

from tests.backends.tensorflow.ops import cases_basic as basic
from tests.backends.tensorflow.ops import cases_layers as layers
from tests.backends.tensorflow.ops import cases_signal as signal
from tests.backends.tensorflow.ops import cases_windows as windows
from tests.backends.tensorflow.ops.onnx_cases import Const

CASES = [*basic.CASES, *windows.CASES, *layers.CASES, *signal.CASES]

__all__ = ["CASES", "Const"]
