"""TensorFlow imported without the chatter that its libraries print before their log levels apply."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def import_tensorflow(*, start: bool = True) -> Any:
    """The module `tensorflow`, started up once, with Keras set to run on it. Raises ImportError as the import does.

    start: False imports it only, which starts no thread.
    """
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # read when they are imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"]
    with _silent():
        import tensorflow as tf

        if start:
            tf.config.list_logical_devices()  # looks for devices, and says so
    return tf


@contextmanager
def _silent() -> Iterator[None]:
    """Native libraries write to nowhere instead of the process's stderr meanwhile; exceptions pass as ever."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
