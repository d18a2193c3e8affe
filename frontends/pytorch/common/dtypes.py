"""Maps PyTorch dtypes to ONNX dtypes."""

from __future__ import annotations

import onnx_ir as ir
import torch

from convert.errors import Unsupported

DTYPES = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.bool: ir.DataType.BOOL,
    torch.complex64: ir.DataType.COMPLEX64,
    torch.complex128: ir.DataType.COMPLEX128,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
}
TORCH_DTYPES = {onnx: dtype for dtype, onnx in DTYPES.items()}


def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    """Return ONNX's dtype for PyTorch's. Raises `Unsupported` if there is none (quantized and sub-byte dtypes)."""
    if dtype not in DTYPES:
        raise Unsupported(f"tensors of {dtype} have no equivalent in ONNX")
    return DTYPES[dtype]
