"""Convert deep-learning models between frameworks and prove that the numbers agree: `convert.convert(model, "tf")`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# typing takes longer to import than everything here, and an interrupt during that time would print a traceback.
TYPE_CHECKING = False

# The `convert` folder of a clone hides an installed tree, and with it convert.frontends and convert.backends: look
# there too.
_places = dict.fromkeys(os.path.join(place, "convert") for place in sys.path if place)
__path__ += [p for p in _places if p not in __path__ and os.path.isfile(os.path.join(p, "__init__.py"))]

__version__ = "0.2.0"

if TYPE_CHECKING:
    from typing import Any

    from convert.api import convert, inspect, to_onnx, verify
    from convert.errors import (
        BadInput,
        ConvertError,
        ParityError,
        ResourceLimit,
        UnsafeInput,
        Unsupported,
        UsageError,
    )
    from convert.outcome.report import Report

_MODULES = {
    **dict.fromkeys(("convert", "inspect", "to_onnx", "verify"), "convert.api"),
    "Report": "convert.outcome.report",
    **dict.fromkeys(
        ("BadInput", "ConvertError", "ParityError", "ResourceLimit", "UnsafeInput", "Unsupported", "UsageError"),
        "convert.errors",
    ),
}

__all__ = [
    "BadInput",
    "ConvertError",
    "ParityError",
    "Report",
    "ResourceLimit",
    "UnsafeInput",
    "Unsupported",
    "UsageError",
    "convert",
    "inspect",
    "to_onnx",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that `import convert` alone is cheap."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'convert' has no attribute {name!r}")
