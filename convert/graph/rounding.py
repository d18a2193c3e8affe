"""Finds values whose last bit matters: values that are later rounded, compared or cast to integers.

TensorFlow's optimizer replaces a division by a constant by a product with its reciprocal. So 41 / 41 becomes
0.99999994, which is rounded down to 0. Backends for TensorFlow emit such divisions in another way.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

_STEPS = frozenset(
    {
        "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "QuantizeLinear", "Round",
    }
)  # fmt: skip
"""Operators with discontinuous results."""
_HAND_ON = frozenset(
    {
        "Abs", "Add", "Clip", "Concat", "Div", "Expand", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg",
        "Relu", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators after which a later rounding is as sensitive as before, such as a division by a computed scale."""


def is_rounded(value: ir.Value | None) -> bool:
    """Return whether integers, booleans or rounded values are computed from this value.

    Simple arithmetic in between is followed.
    """
    pending, seen = [value] if value is not None else [], {id(value)}
    while pending:
        for node, _ in pending.pop().uses():
            if node.op_type in _STEPS or (node.op_type == "Cast" and not _is_floating(node.outputs[0])):
                return True
            if node.op_type in _HAND_ON or node.op_type == "Cast":
                fresh = [v for v in node.outputs if id(v) not in seen]
                seen.update(map(id, fresh))
                pending += fresh
    return False


def _is_floating(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()


def is_inexact_divisor(divisor: np.ndarray | None) -> bool:
    """Return whether a constant divisor has no zeros, and some element that is no power of two.

    The reciprocal of such an element is rounded.
    """
    if divisor is None or divisor.dtype.kind != "f" or not divisor.size or not np.all(divisor):
        return False
    mantissas, _ = np.frexp(divisor.astype(np.float64))
    return bool(np.any(np.isfinite(divisor) & (np.abs(mantissas) != 0.5)))
