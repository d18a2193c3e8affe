"""float16 and bfloat16 for operators that ONNX does not define on them: computed in float32 and cast back."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.graph import Graph

FLOAT16, BFLOAT16 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16


def in_float32(*kinds: ir.DataType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a rule so that inputs of these `kinds` are widened to float32, and its float32 results narrowed."""

    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(rule)
        def wrapped(g: Graph, *inputs: Any, **attributes: Any) -> Any:
            found = [x.dtype for x in _flatten_values(inputs) if x.dtype in kinds]
            if not found:
                return rule(g, *inputs, **attributes)
            wide = _map_values(inputs, lambda x: _cast_to_float32(g, x) if x.dtype in kinds else x)
            narrow = lambda x: g.Cast(x, to=found[0]) if x.dtype == ir.DataType.FLOAT else x  # noqa: E731
            return _map_values(rule(g, *wide, **attributes), narrow)

        return wrapped

    return decorate


def _cast_to_float32(g: Graph, x: ir.Value) -> ir.Value:
    """Cast to float32; a constant stays constant, because rules read its content."""
    content = g.static(x)
    return g.Cast(x, to=ir.DataType.FLOAT) if content is None else g.const(content.astype(np.float32))


def _flatten_values(items: Any) -> list[ir.Value]:
    if isinstance(items, (list, tuple)):
        return [v for item in items for v in _flatten_values(item)]
    return [items] if isinstance(items, ir.Value) else []


def _map_values(items: Any, change: Callable[[ir.Value], ir.Value]) -> Any:
    if isinstance(items, (list, tuple)):
        return [_map_values(item, change) for item in items]
    return change(items) if isinstance(items, ir.Value) else items
