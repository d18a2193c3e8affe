"""All rows of the TensorFlow backend's table; see `test_to_tensorflow`."""

from __future__ import annotations

from tests.ops import tensorflow_backend_basic_cases as basic
from tests.ops import tensorflow_backend_layer_cases as layers
from tests.ops import tensorflow_backend_signal_cases as signal
from tests.ops import tensorflow_backend_window_cases as windows
from tests.ops.tensorflow_backend_tools import Const

CASES = [*basic.CASES, *windows.CASES, *layers.CASES, *signal.CASES]

__all__ = ["CASES", "Const"]
