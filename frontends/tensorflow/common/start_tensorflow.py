"""Imports TensorFlow the way this room needs it: quietly, with Keras set to run on it."""

from __future__ import annotations

from typing import Any

from convert.runners.quiet_import import import_quietly


def import_tensorflow(*, start: bool = True) -> Any:
    """The module `tensorflow`; start: look for its devices as well, which starts threads."""
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return import_quietly("tensorflow", environment, (lambda tf: tf.config.list_logical_devices()) if start else None)
