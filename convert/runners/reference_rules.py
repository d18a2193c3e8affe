"""The old home of `convert.reference.kernel`, which works for one more release."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "kernel":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from convert.reference import kernel

    warnings.warn(f"{__name__}.kernel is convert.reference.kernel now", DeprecationWarning, stacklevel=2)
    return kernel
