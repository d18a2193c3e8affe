"""Attributes of TensorFlow nodes as Python values: dtypes, shapes, lists, and tensors that stay in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.errors import BadInput

DTYPES: dict[int, ir.DataType] = {
    1: ir.DataType.FLOAT,
    2: ir.DataType.DOUBLE,
    3: ir.DataType.INT32,
    4: ir.DataType.UINT8,
    5: ir.DataType.INT16,
    6: ir.DataType.INT8,
    7: ir.DataType.STRING,
    8: ir.DataType.COMPLEX64,
    9: ir.DataType.INT64,
    10: ir.DataType.BOOL,
    11: ir.DataType.INT8,
    12: ir.DataType.UINT8,
    13: ir.DataType.INT32,
    14: ir.DataType.BFLOAT16,
    15: ir.DataType.INT16,
    16: ir.DataType.UINT16,
    17: ir.DataType.UINT16,
    18: ir.DataType.COMPLEX128,
    19: ir.DataType.FLOAT16,
    22: ir.DataType.UINT32,
    23: ir.DataType.UINT64,
    24: ir.DataType.FLOAT8E5M2,
    25: ir.DataType.FLOAT8E4M3FN,
}
"""ONNX dtypes by TensorFlow's number (types.proto); quantized ones as the integers that hold them."""

RESOURCE, VARIANT = 20, 21
_REFERENCE = 100

# The repeated field with small contents, by dtype; float16 and bfloat16 are bit patterns in half_val.
_FIELDS = {
    1: ("float_val", np.float32), 2: ("double_val", np.float64), 3: ("int_val", np.int32), 4: ("int_val", np.uint8),
    5: ("int_val", np.int16), 6: ("int_val", np.int8), 9: ("int64_val", np.int64), 10: ("bool_val", np.bool_),
    11: ("int_val", np.int8), 12: ("int_val", np.uint8), 13: ("int_val", np.int32), 15: ("int_val", np.int16),
    16: ("int_val", np.uint16), 17: ("int_val", np.uint16), 22: ("uint32_val", np.uint32),
    23: ("uint64_val", np.uint64),
}  # fmt: skip


def dtype_of(number: int) -> ir.DataType | None:
    """Return the ONNX dtype for TensorFlow's `number` (a reference counts as its target); None for resources."""
    return DTYPES.get(number - _REFERENCE if number > _REFERENCE else number)


def shape_of(proto: Any) -> tuple[int | None, ...] | None:
    """Return the dims of a TensorShapeProto, None for unknown ones; None if the rank is unknown."""
    if proto.unknown_rank:
        return None
    return tuple(None if d.size < 0 else d.size for d in proto.dim)


def decode(value: Any, buffer: memoryview, function: Callable[[Any], Any]) -> Any:
    """Return an AttrValue as a Python value; strings become str, and `function` converts a NameAttrList.

    `buffer` is the file in which large tensors were left.
    """
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        lists = value.list
        for name in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            if items := getattr(lists, name):
                return [_decode_value(name, item, buffer, function) for item in items]
        return []
    return _decode_value(kind, getattr(value, kind), buffer, function)


def _decode_value(kind: str, value: Any, buffer: memoryview, function: Callable[[Any], Any]) -> Any:
    if kind == "s":
        return value.decode("utf-8", "surrogateescape")
    if kind == "f":
        return float(str(np.float32(value)))  # 0.001, not 0.0010000000474974513
    if kind == "type":
        return dtype_of(value)
    if kind == "shape":
        return shape_of(value)
    if kind == "tensor":
        return tensor_of_proto(value, buffer)
    return function(value) if kind == "func" else value


def tensor_of_proto(proto: Any, buffer: memoryview) -> ir.TensorProtocol:
    """Return the content of a TensorProto, without a copy if it is stored as bytes.

    Raises `BadInput` if content and shape disagree.
    """
    dtype = dtype_of(proto.dtype)
    dims = shape_of(proto.tensor_shape)
    if dtype is None or dims is None or None in dims:
        raise BadInput(f"a constant of dtype {proto.dtype} and shape {dims} holds no numbers")
    shape = [int(d or 0) for d in dims]
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if dtype == ir.DataType.STRING:
        return ir.StringTensor(_repeat_last(list(proto.string_val), count, b""), shape=ir.Shape(shape))
    raw = buffer[proto.far_offset : proto.far_offset + proto.far_size] if proto.far_size else proto.tensor_content
    if len(raw):
        return tensor_from_bytes(raw, dtype, shape)
    return ir.Tensor(_array_from_fields(proto, dtype, count, shape), dtype=dtype)


def tensor_from_bytes(raw: Any, dtype: ir.DataType, shape: list[int]) -> ir.Tensor:
    """Return a tensor over little-endian bytes. Raises `BadInput` if they do not fit the dims."""
    kind = np.dtype(dtype.numpy())
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if len(raw) != count * kind.itemsize:
        raise BadInput(f"a tensor of shape {shape} takes {count * kind.itemsize} bytes, but {len(raw)} are there")
    return ir.Tensor(np.frombuffer(raw, dtype=kind).reshape(shape), dtype=dtype)


def _array_from_fields(proto: Any, dtype: ir.DataType, count: int, shape: list[int]) -> np.ndarray:
    number = proto.dtype - _REFERENCE if proto.dtype > _REFERENCE else proto.dtype
    if number in (14, 19):
        bits = np.array(list(proto.half_val), np.uint16)
        array = bits.view(np.float16 if number == 19 else ml_dtypes.bfloat16)
    elif number in (8, 18):
        array = np.array(proto.scomplex_val if number == 8 else proto.dcomplex_val)
        array = (array[0::2] + 1j * array[1::2]).astype(dtype.numpy())
    elif number in _FIELDS:
        field, kind = _FIELDS[number]
        array = np.array(getattr(proto, field)).astype(kind)
    else:
        raise BadInput(f"a constant of dtype {dtype.name} has no content")
    if len(array) == count:
        return array.reshape(shape)
    if len(array) > count:
        raise BadInput(f"a constant of shape {shape} holds {len(array)} numbers")
    # TensorFlow omits repetitions of the last number; broadcasting keeps a splat of any size at one element.
    if len(array) <= 1:
        return np.broadcast_to(array[0] if len(array) else np.zeros((), dtype.numpy()), shape)
    return np.concatenate([array, np.broadcast_to(array[-1], count - len(array))]).reshape(shape)


def _repeat_last(items: list[bytes], count: int, default: bytes) -> list[bytes]:
    return items + [items[-1] if items else default] * (count - len(items)) if len(items) < count else items


def named_functions(node: Any) -> Iterator[str]:
    """Yield the functions that the attributes of a NodeDef name: branches, loop bodies, callees."""
    for value in node.attr.values():
        if value.WhichOneof("value") == "func":
            yield value.func.name
        elif value.WhichOneof("value") == "list":
            yield from (f.name for f in value.list.func)
