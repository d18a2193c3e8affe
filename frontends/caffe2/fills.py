"""Operators that create a blob from their arguments alone: the content of init_net."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import BadInput, Unsupported
from convert.files.caffe2.netdef import DTYPES, Op

FILLS = {
    "GivenTensorFill": ir.DataType.FLOAT,
    "GivenTensorDoubleFill": ir.DataType.DOUBLE,
    "GivenTensorIntFill": ir.DataType.INT32,
    "GivenTensorInt64Fill": ir.DataType.INT64,
    "GivenTensorInt16Fill": ir.DataType.INT16,
    "GivenTensorBoolFill": ir.DataType.BOOL,
    "GivenTensorByteStringToUInt8Fill": ir.DataType.UINT8,
    "ConstantFill": ir.DataType.FLOAT,
}
"""The dtype of each fill. `ConstantFill` may have another dtype, and a rule for its form with an input."""


def check_fills(operators: Iterable[Op]) -> None:
    """Raise `BadInput` if the fills without inputs create more elements in total than any model has."""
    total = 0
    for op in operators:
        shape = op.args.get("shape", []) if op.type in FILLS and not op.inputs else None
        if isinstance(shape, (list, np.ndarray)) and all(isinstance(d, (int, np.integer)) and d >= 0 for d in shape):
            total += math.prod(map(int, shape))
    if total > limits.CAFFE2_FILL_ELEMENTS:
        raise BadInput(f"the fills of the net make {total:,} elements", hint="get the file again")


def filled_tensor(op: Op) -> ir.TensorProtocol:
    """Return the tensor of a fill without inputs. Raises `BadInput` if its content and its shape disagree."""
    if not op.outputs:
        raise BadInput(f"a {op.type} fills nothing: it has no output")
    try:
        return _filled(op)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the {op.type} {op.outputs[0]!r} has arguments that make no tensor: {error}") from error


def _filled(op: Op) -> ir.TensorProtocol:
    shape = [int(d) for d in _number_list(op, "shape")]
    if any(d < 0 for d in shape) or np.prod(shape, dtype=object) > limits.CAFFE2_FILL_ELEMENTS:
        raise BadInput(f"the {op.type} {op.outputs[0]!r} has the shape {shape}")
    if op.type == "ConstantFill":
        return ir.tensor(np.full(shape, fill_value(op.args), fill_dtype(op.args).numpy()))
    dtype = FILLS[op.type].numpy()
    if op.type == "GivenTensorByteStringToUInt8Fill":
        texts = [str(v).encode(errors="surrogateescape") for v in _number_list(op, "values")]
        content = np.frombuffer(b"".join(texts), np.uint8)
    else:
        content = np.asarray(_number_list(op, "values")).astype(dtype)
    if content.size != int(np.prod(shape)):
        raise BadInput(f"the {op.type} {op.outputs[0]!r} holds {content.size:,} numbers for the shape {shape}")
    return ir.tensor(content.reshape(shape))


def fill_dtype(args: Any) -> ir.DataType:
    """Return the dtype of a ConstantFill: the given one, else that of its value, else float32."""
    number = args.get("dtype", 0)
    if number:
        if number not in DTYPES:
            raise Unsupported(f"the Caffe2 dtype {number}")
        return DTYPES[number]
    return ir.DataType.INT64 if isinstance(args.get("value", 0.0), int) else ir.DataType.FLOAT


def fill_value(args: Any) -> float | int:
    """Return the number that ConstantFill repeats."""
    value = args.get("value", 0)
    if not isinstance(value, (int, float)):
        raise Unsupported(f"a ConstantFill of {value!r}")
    return value


def _number_list(op: Op, name: str) -> Sequence[Any] | np.ndarray:
    value = op.args.get(name, [])
    if not isinstance(value, (list, np.ndarray)):
        raise BadInput(f"the {op.type} {op.outputs[0]!r} has {name}={value!r}")
    return value
