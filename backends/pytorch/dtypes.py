"""Maps ONNX dtypes to PyTorch dtypes, and arrays to tensors."""

from __future__ import annotations

import warnings

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported

from .byte_containers import BYTE_CONTAINERS

DTYPES = {
    ir.DataType.FLOAT: torch.float32,
    ir.DataType.DOUBLE: torch.float64,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
    ir.DataType.INT8: torch.int8,
    ir.DataType.INT16: torch.int16,
    ir.DataType.INT32: torch.int32,
    ir.DataType.INT64: torch.int64,
    ir.DataType.UINT8: torch.uint8,
    ir.DataType.UINT16: torch.uint16,
    ir.DataType.UINT32: torch.uint32,
    ir.DataType.UINT64: torch.uint64,
    ir.DataType.BOOL: torch.bool,
    ir.DataType.COMPLEX64: torch.complex64,
    ir.DataType.COMPLEX128: torch.complex128,
    ir.DataType.FLOAT8E4M3FN: torch.float8_e4m3fn,
    ir.DataType.FLOAT8E5M2: torch.float8_e5m2,
    ir.DataType.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    ir.DataType.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
    ir.DataType.FLOAT8E8M0: torch.float8_e8m0fnu,
    # Numbers of less than a byte take a whole byte, as in PyTorch's own quantized operators.
    ir.DataType.INT4: torch.int8,
    ir.DataType.UINT4: torch.uint8,
    ir.DataType.INT2: torch.int8,
    ir.DataType.UINT2: torch.uint8,
    ir.DataType.FLOAT4E2M1: torch.float8_e4m3fn,
}

_BYTES = {
    torch.bfloat16: np.int16,
    torch.uint16: np.int16,
    torch.uint32: np.int32,
    torch.uint64: np.int64,
    torch.float8_e4m3fn: np.int8,
    torch.float8_e5m2: np.int8,
    torch.float8_e4m3fnuz: np.int8,
    torch.float8_e5m2fnuz: np.int8,
    torch.float8_e8m0fnu: np.uint8,
}
"""Dtypes that numpy lacks or that PyTorch does not accept from it, with the integer dtypes that view their bytes."""

FLOAT8 = (
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
)  # fmt: skip
SCARCE = (torch.uint16, torch.uint32, torch.uint64)
"""Dtypes that PyTorch stores but has few kernels for."""


def torch_dtype(dtype: ir.DataType | int | None) -> torch.dtype:
    """Return PyTorch's dtype. Raises `Unsupported` if there is none (strings)."""
    found = None if dtype is None else DTYPES.get(ir.DataType(dtype))
    if found is None:
        name = "unknown" if dtype is None else ir.DataType(dtype).name
        raise Unsupported(f"PyTorch has no tensors of dtype {name}")
    return found


_LARGE = 1 << 20
"""Minimum number of bytes of a weight that keeps its strides."""


def tensor_from(array: np.ndarray, *, only_read: bool = False) -> torch.Tensor:
    """Return a tensor that shares the memory of `array`; a copy if the memory is read-only or not aligned.

    With `only_read`, the tensor must not be written to. It shares read-only memory too, such as that of a mapped file,
    also transposed: a large matrix of MatMul has its rows and columns exchanged in `linear`.
    """
    dtype = torch_dtype(ir.DataType.from_numpy(array.dtype))
    if any(step < 0 for step in array.strides):  # a dim of size 1 may be contiguous all the same
        array = array.copy()
    if not (only_read and array.nbytes >= _LARGE and _is_dense(array)):
        array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.name in BYTE_CONTAINERS:
        array = array.astype(BYTE_CONTAINERS[array.dtype.name])
    if dtype in _BYTES:
        array = array.view(_BYTES[dtype])
    if not (array.flags.writeable or only_read) or not array.flags.aligned:
        array = array.copy()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(array)
    return tensor.view(dtype) if dtype in _BYTES else tensor


def _is_dense(array: np.ndarray) -> bool:
    """Return whether the elements fill their memory without gaps, whatever the order of the dims."""
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    return array.transpose(order).flags.c_contiguous
