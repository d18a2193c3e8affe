"""Writes Caffe2's minidb: consecutive records of key and value; tensors are written in chunks, without a whole copy."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import numpy as np
import onnx_ir as ir

from convert.files.caffe2 import caffe2_pb2 as pb
from convert.files.caffe2.netdef import NUMBERS
from convert.files.protobuf_wire import length_delimited_header
from convert.graph.tensors import contiguous_array, dims_of

_CHUNK = 1_000_000
"""Elements per record: the runtime's own default."""

_WIDE = {ir.DataType.FLOAT: "float_data", ir.DataType.DOUBLE: "double_data"}


def write_text(file: BinaryIO, key: str, content: bytes) -> int:
    """Append a blob that holds a string; return the number of bytes written."""
    return _record(file, key, pb.BlobProto(name=key, type="std::string", content=content).SerializeToString())


def write_tensor(file: BinaryIO, name: str, tensor: ir.TensorProtocol) -> int:
    """Append the blob `name` with the content of `tensor`, in a Caffe2 dtype; return the number of bytes written."""
    array = contiguous_array(tensor.numpy().reshape(dims_of(tensor)))
    flat, written = array.reshape(-1), 0
    for number, begin in enumerate(range(0, max(flat.size, 1), _CHUNK)):
        part = flat[begin : begin + _CHUNK]
        head = pb.TensorProto(dims=array.shape, data_type=NUMBERS[ir.DataType(tensor.dtype)], name=name)
        head.device_detail.device_type = 0
        head.segment.begin, head.segment.end = begin, begin + part.size
        body = head.SerializeToString() + _content(ir.DataType(tensor.dtype), part)
        blob = pb.BlobProto(name=name, type="Tensor").SerializeToString()
        written += _record(
            file,
            f"{name}#%{number}",
            blob + length_delimited_header(pb.BlobProto.TENSOR_FIELD_NUMBER, len(body)) + body,
        )
    return written


def _content(dtype: ir.DataType, part: np.ndarray) -> bytes:
    """Return the TensorProto field with the numbers: floats as in memory, others as integers."""
    if dtype in _WIDE:
        data = np.ascontiguousarray(part).astype(part.dtype.newbyteorder("<"), copy=False)
        number = pb.TensorProto.DESCRIPTOR.fields_by_name[_WIDE[dtype]].number
        return length_delimited_header(number, data.nbytes) + data.tobytes()
    if dtype == ir.DataType.INT64:
        return _serialize_tensor(int64_data=part.tolist())
    if dtype == ir.DataType.FLOAT16:
        part = part.view(np.uint16)
    return _serialize_tensor(int32_data=part.astype(np.int32).tolist())


def _serialize_tensor(**fields: Any) -> bytes:
    return pb.TensorProto(**fields).SerializeToString()


def _record(file: BinaryIO, key: str, value: bytes) -> int:
    name = key.encode()
    return file.write(struct.pack("<ii", len(name), len(value)) + name) + file.write(value)
