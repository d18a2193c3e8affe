"""Where a number that is off by its last bit is another result: what rounds it, or compares it.

TensorFlow's optimizer takes a division by a constant for a product with its reciprocal, so that 41 / 41 is 0.99999994
and rounded down 0. Backends that run there divide otherwise where this says so.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

_STEPS = frozenset(
    {
        "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "QuantizeLinear", "Round",
    }
)  # fmt: skip
"""Operators whose results jump."""
_HAND_ON = frozenset(
    {
        "Abs", "Add", "Clip", "Concat", "Expand", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg", "Relu",
        "Reshape", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators behind which a whole number is one as often as before."""


def is_rounded(value: ir.Value | None) -> bool:
    """Whether integers, truth values or steps are made of this number, or of what is one step of arithmetic from it."""
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
    """Whether a constant divisor has none that is 0 and some whose reciprocal is rounded: all but powers of two."""
    if divisor is None or divisor.dtype.kind != "f" or not divisor.size or not np.all(divisor):
        return False
    mantissas, _ = np.frexp(divisor.astype(np.float64))
    return bool(np.any(np.isfinite(divisor) & (np.abs(mantissas) != 0.5)))
