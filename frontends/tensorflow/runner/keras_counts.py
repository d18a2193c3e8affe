"""Limits the variables of a Keras model by the size of its file, because a few characters of its configuration set
them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import ResourceLimit

_PER_BYTE = 16
"""Elements per byte of the file: float32 has a quarter, and HDF5 and zip compress weights by 1 to 3."""


@contextmanager
def bounded_by_file(path: Path) -> Iterator[None]:
    """Raise `ResourceLimit` inside the context if this thread creates more Keras variables than the file can hold.

    They are counted before Keras initializes them, because Keras does so before it looks for the stored weights.
    """
    from keras.src.backend.common import variables

    kind: Any = variables.KerasVariable if hasattr(variables, "KerasVariable") else variables.Variable
    stored = path.stat().st_size
    most = limits.KERAS_SPARE_ELEMENTS + _PER_BYTE * stored
    thread, usual = threading.get_ident(), kind._validate_shape
    elements, passed = 0, False

    def count(self: Any, shape: Any) -> Any:
        nonlocal elements, passed
        found = usual(self, shape)
        if threading.get_ident() == thread:
            elements += math.prod(found)
            if elements > most:
                passed = True
                raise MemoryError  # Keras turns our error into other errors
        return found

    kind._validate_shape = count
    try:
        yield
    except Exception as error:
        if not passed:
            raise
        text = f"{path} has {stored:,} bytes, and its configuration asks for more than {most:,} elements of weights"
        raise ResourceLimit(text, hint="get the file again, and compare its checksum with the source's") from error
    finally:
        kind._validate_shape = usual
