"""The operators of init_net: each weight as a fill that restores it exactly, written without a copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import onnx_ir as ir

from convert.files.caffe2 import caffe2_pb2 as pb
from convert.files.protobuf_wire import length_delimited_header
from convert.graph.tensors import contiguous_parts, dims_of

from ..common.dtypes import NUMBERS

_OP, _ARG, _FLOATS = (pb.NetDef.OP_FIELD_NUMBER, pb.OperatorDef.ARG_FIELD_NUMBER, pb.Argument.FLOATS_FIELD_NUMBER)


@dataclass(frozen=True)
class Fill:
    """An operator of init_net. `floats` (float32) are the content of its argument `values`, which `op` omits."""

    op: pb.OperatorDef
    floats: np.ndarray | None = None

    def write(self, file: BinaryIO) -> int:
        """Append the operator to a serialized NetDef; return the number of bytes written."""
        if self.floats is None or not self.floats.size:
            return file.write(pb.NetDef(op=[self.op]).SerializeToString())
        # Write Protocol Buffers frame by frame, so that no message holds a second copy of the numbers.
        floats = self.floats.astype("<f4", copy=False)
        values = pb.Argument(name="values").SerializeToString() + length_delimited_header(_FLOATS, floats.nbytes)
        op = self.op.SerializeToString() + length_delimited_header(_ARG, len(values) + floats.nbytes) + values
        head = length_delimited_header(_OP, len(op) + floats.nbytes) + op
        return file.write(head) + sum(file.write(part.reshape(-1).data) for part in contiguous_parts(floats))


def fill_operators(name: str, tensor: ir.TensorProtocol, device: int = 0) -> list[Fill]:
    """Return operators that create the blob `name` on `device` with exactly the content of `tensor`."""
    array = tensor.numpy().reshape(dims_of(tensor))
    if not device:
        return _FILLS[ir.DataType(tensor.dtype)](name, array)
    return [*_FILLS[ir.DataType(tensor.dtype)](f"{name}.cpu", array), Fill(copy_to_device(name, device))]


def copy_to_device(name: str, device: int) -> pb.OperatorDef:
    """Return the operator that copies a weight, filled as `NAME.cpu`, to its device."""
    copy = pb.OperatorDef(type="CopyCPUToIDEEP", input=[f"{name}.cpu"], output=[name])
    copy.device_option.device_type = device
    return copy


def _float_fills(name: str, array: np.ndarray, operator: str = "GivenTensorFill") -> list[Fill]:
    op = _operator(operator, name, array.shape)
    if not array.size:
        op.arg.add(name="values")  # the schema requires it
    return [Fill(op, array)]


def _double_fills(name: str, array: np.ndarray) -> list[Fill]:
    """Return fills of integer mantissas times powers of two.

    GivenTensorDoubleFill keeps only 24 bits of a number; the int64 fill keeps all.
    """
    finite = np.isfinite(array) & (array != 0)  # other numbers (and the sign of zero) fit the first factor unchanged
    fraction, exponent = np.frexp(np.where(finite, array, 1.0))
    mantissas, left = np.ldexp(fraction, 53).astype(np.int64), exponent - 53
    factors: list[np.ndarray] = []
    while not factors or np.any(left):
        step = np.clip(left, -126, 127)  # exponents of float32's normal numbers
        factors.append(np.ldexp(np.float32(1), step))
        left = left - step
    factors[0] = np.where(finite, factors[0], array).astype(np.float32)
    cast = pb.OperatorDef(type="Cast", input=[f"{name}.mantissa"], output=[f"{name}.part"])
    cast.arg.add(name="to", i=NUMBERS[ir.DataType.DOUBLE])
    made = [*_integers("GivenTensorInt64Fill")(f"{name}.mantissa", np.where(finite, mantissas, 1)), Fill(cast)]
    for i, factor in enumerate(factors):
        made += _float_fills(f"{name}.factor{i}", factor, "GivenTensorDoubleFill")
        output = name if i == len(factors) - 1 else f"{name}.part{i}"
        inputs = [f"{name}.part" if i == 0 else f"{name}.part{i - 1}", f"{name}.factor{i}"]
        made.append(Fill(pb.OperatorDef(type="Mul", input=inputs, output=[output])))
    return made


def _half_fills(name: str, array: np.ndarray) -> list[Fill]:
    wide = f"{name}.float32"
    return [*_float_fills(wide, array), Fill(pb.OperatorDef(type="FloatToHalf", input=[wide], output=[name]))]


def _integers(operator: str) -> Callable[[str, np.ndarray], list[Fill]]:
    def fill(name: str, array: np.ndarray) -> list[Fill]:
        op = _operator(operator, name, array.shape)
        op.arg.add(name="values", ints=array.ravel().astype(np.int64).tolist())
        return [Fill(op)]

    return fill


def _cast_integers(dtype: ir.DataType) -> Callable[[str, np.ndarray], list[Fill]]:
    def fill(name: str, array: np.ndarray) -> list[Fill]:
        wide = f"{name}.int32"
        cast = pb.OperatorDef(type="Cast", input=[wide], output=[name])
        cast.arg.add(name="to", i=NUMBERS[dtype])
        return [*_integers("GivenTensorIntFill")(wide, array), Fill(cast)]

    return fill


_FILLS: dict[ir.DataType, Callable[[str, np.ndarray], list[Fill]]] = {
    ir.DataType.FLOAT: _float_fills,
    ir.DataType.DOUBLE: _double_fills,
    ir.DataType.FLOAT16: _half_fills,
    ir.DataType.INT32: _integers("GivenTensorIntFill"),
    ir.DataType.INT64: _integers("GivenTensorInt64Fill"),
    ir.DataType.BOOL: _integers("GivenTensorBoolFill"),
    ir.DataType.INT16: _integers("GivenTensorInt16Fill"),
    ir.DataType.INT8: _cast_integers(ir.DataType.INT8),
    ir.DataType.UINT8: _cast_integers(ir.DataType.UINT8),
    ir.DataType.UINT16: _cast_integers(ir.DataType.UINT16),
}


def _operator(operator: str, name: str, shape: tuple[int, ...]) -> pb.OperatorDef:
    op = pb.OperatorDef(type=operator, output=[name])
    op.arg.add(name="shape", ints=shape)
    return op
