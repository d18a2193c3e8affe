"""Dtype and shape of the output of a Caffe2 operator, for intermediate blobs of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

if TYPE_CHECKING:
    from .blob import Blob, Dim

_DTYPES = {
    **dict.fromkeys(("LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or", "Xor", "Not"), ir.DataType.BOOL),
    **dict.fromkeys(("Shape", "Size", "ArgMax", "ArgMin"), ir.DataType.INT64),
    "HalfToFloat": ir.DataType.FLOAT,
    "FloatToHalf": ir.DataType.FLOAT16,
}
_SAME = frozenset((
    "Abs", "Acos", "Asin", "Atan", "Cast", "Ceil", "Clip", "ConstantFill", "Copy", "Cos", "Cosh", "Elu", "Erf", "Exp",
    "FloatToHalf", "Floor", "Gelu", "HalfToFloat", "HardSigmoid", "LeakyRelu", "Log", "Mish", "Negative", "Not", "Pow",
    "Relu", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "ThresholdedRelu",
))  # fmt: skip
_BROADCAST = frozenset((
    "Add", "Sub", "Mul", "Div", "LT", "LE", "GT", "GE", "EQ", "NE", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr",
    "BitwiseXor",
))  # fmt: skip


def infer(operator: str, inputs: Sequence[Blob], args: Mapping[str, Any]) -> tuple[ir.DataType, tuple[Dim, ...] | None]:
    """Return dtype and shape of an output; None if unknown. The dtype is that of the first input unless the operator
    has another.
    """
    first = inputs[1 if operator == "Where" else 0] if inputs else None
    dtype = _DTYPES.get(operator, first.dtype if first is not None else ir.DataType.FLOAT)
    if first is None:
        return dtype, None
    if operator in _SAME and not args.get("input_as_shape"):
        return dtype, first.shape
    if operator in ("Where", "Max", "Min"):
        return dtype, first.shape
    if operator in _BROADCAST:
        return dtype, broadcast(*(x.shape for x in inputs))
    return dtype, None


def broadcast(*shapes: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Return the common shape by numpy's broadcasting; a dim is None if it cannot be determined."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known), default=0)
    columns = zip(*(((1,) * (rank - len(s)) + s) for s in known), strict=True)
    return tuple(_dim(column) for column in columns)


def _dim(column: Sequence[Dim]) -> Dim:
    others = set(column) - {1}
    if not others:
        return 1
    sizes = [d for d in others if isinstance(d, int)]
    if sizes:
        return sizes[0]
    return others.pop() if len(others) == 1 else None
