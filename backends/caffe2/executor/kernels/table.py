"""The executor's table, and checks of dtypes and shapes that kernels make, as the runtime does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convert.errors import Unsupported
from convert.rules import Rules, Schema

Array = Any

FLOAT = frozenset({"float32"})
ARITHMETIC = frozenset({"float32", "float64", "int32", "int64"})
COMPARED = ARITHMETIC | {"bool"}
INTEGERS = frozenset({"int32", "int64"})
"""The dtypes that kernels of the CPU build take, as measured; the runtime rejects the others."""

_IMMATERIAL = Schema(implied=frozenset({"order", "is_test", "momentum", "device_option"}))

kernel = Rules("Caffe2 executor", schema=lambda operator: _IMMATERIAL)


@dataclass(frozen=True)
class ExecutorRun:
    """One run: in float64 (`wide`), or in the runtime's dtypes."""

    wide: bool

    def widen_array(self, array: Array) -> Array:
        """Return `array`, converted to float64 if it is floating-point and the run is wide."""
        return array.astype(np.float64) if self.wide and array.dtype.kind == "f" else array

    def takes(self, dtypes: Iterable[str], *arrays: Array) -> None:
        """Raise `Unsupported` unless all arrays have the same dtype, and it is among `dtypes`."""
        found = {a.dtype.name for a in arrays}
        if len(found) > 1:
            raise Unsupported(f"operands of {', '.join(sorted(found))}: Caffe2 wants one dtype")
        (name,) = found
        if name not in dtypes and not (self.wide and name == "float64"):
            raise Unsupported(f"{name}: Caffe2's kernel takes {', '.join(sorted(dtypes))}")

    def check_same_shape(self, *arrays: Array) -> None:
        """Raise `Unsupported` unless all arrays have the same shape; the runtime reads past the end of a smaller
        one.
        """
        shapes = {a.shape for a in arrays}
        if len(shapes) > 1:
            raise Unsupported(f"operands of shapes {', '.join(map(str, sorted(shapes)))}: Caffe2 wants one shape")
