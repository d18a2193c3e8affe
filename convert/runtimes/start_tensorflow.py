"""Imports TensorFlow quietly, with Keras set to run on it, for every package that needs it."""

from __future__ import annotations

from typing import Any

from convert.processes.quiet_import import import_quietly

_LATE = ("keras.wrappers", "keras._tf_keras.keras.wrappers", "tensorflow.python.keras.models")
"""Modules that are not imported: Keras's wrappers for scikit-learn, which import it if installed (a fifth of
TensorFlow's import time), and TensorFlow's old Keras models, which import scipy (a tenth of the rest).
"""

_HIDDEN = ("jax",)
"""Packages that TensorFlow and Keras import if installed, for functions that convert does not call: JAX, for
`TFLiteConverter.experimental_from_jax` and for checkpoints of Orbax, takes a seventh of TensorFlow's import time.
"""


def import_tensorflow(*, start: bool = True) -> Any:
    """Return the module `tensorflow`. start: also initialize its devices, which starts threads."""
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    devices = (lambda tf: tf.config.list_logical_devices()) if start else None
    return import_quietly("tensorflow", environment, devices, _LATE, _HIDDEN)
