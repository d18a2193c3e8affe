"""The table of the reference executor's own kernels: `kernel(outputs, *arrays, **attributes) -> array or arrays`.

Users add kernels for their own operators with `@kernel("mine::Cube")`; verification compares with them.

>>> import numpy as np
>>> from convert.reference import kernel
>>> @kernel("mine::Cube")
... def cube(outputs, x, *, scale=1.0):
...     return scale * x**3
>>> kernel.apply(1, "mine::Cube", [np.array([1.0, 2.0])], {"scale": 0.5})
array([0.5, 4. ])
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from convert.rules import Argument, Rules, Schema
from convert.rules.onnx_schemas import schema


@cache
def decimal_schema(operator: str) -> Schema | None:
    """Return ONNX's schema with float defaults as written decimals: 0.01, not the nearest float32.

    A framework in float64 computes with the decimal number, so the float64 run must do the same.
    """
    found = schema(operator)
    return None if found is None else replace(found, keyword=tuple(map(_decimal_default, found.keyword)))


def shortest_decimal(number: float) -> float:
    """Return the shortest decimal that rounds to the same float32."""
    return float(str(np.float32(number)))


def _decimal_default(argument: Argument) -> Argument:
    return (
        replace(argument, default=shortest_decimal(argument.default))
        if isinstance(argument.default, float)
        else argument
    )


kernel = Rules("reference", schema=decimal_schema)
