"""Imports TensorFlow the way this room needs it: quietly, with Keras set to run on it."""

from __future__ import annotations

from typing import Any

from convert.runners.quiet_import import import_quietly

_LATE = ("keras.wrappers", "keras._tf_keras.keras.wrappers", "tensorflow.python.keras.models")
"""Keras's wrappers for scikit-learn, which import it where it is installed: a fifth of TensorFlow's own import; and the
models of the old Keras inside of TensorFlow, which import scipy: a tenth of the rest.
"""


def import_tensorflow(*, start: bool = True) -> Any:
    """The module `tensorflow`; start: look for its devices as well, which starts threads."""
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    devices = (lambda tf: tf.config.list_logical_devices()) if start else None
    return import_quietly("tensorflow", environment, devices, _LATE)
