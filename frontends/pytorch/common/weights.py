"""PyTorch tensors as weights of the graph, without copying them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import BadInput
from convert.graph.tensors import lazy_tensor

from .dtypes import TORCH_DTYPES, onnx_dtype

# Dtypes that numpy lacks, and the integers of the same width that view their bytes.
_BYTES = {
    torch.bfloat16: torch.int16,
    torch.uint16: torch.int16,
    torch.uint32: torch.int32,
    torch.uint64: torch.int64,
    torch.float8_e4m3fn: torch.int8,
    torch.float8_e5m2: torch.int8,
    torch.float8_e4m3fnuz: torch.int8,
    torch.float8_e5m2fnuz: torch.int8,
    torch.float8_e8m0fnu: torch.int8,
}


def tensor_of(tensor: torch.Tensor, name: str) -> ir.TensorProtocol:
    """Return `tensor` as an `onnx_ir` tensor over the same memory; one on another device is fetched when it is written.

    Raises `BadInput` for a tensor on the meta device, which has no content.
    """
    if tensor.is_meta:
        raise BadInput(
            f"the weight {name} is on the meta device and has no content", hint="load the weights before converting"
        )
    dtype = onnx_dtype(tensor.dtype)
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return lazy_tensor(dtype, list(tensor.shape), lambda: array_of(tensor), name)
    return ir.Tensor(array_of(tensor), dtype=dtype, name=name)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the content as numpy (bfloat16 and float8 through ml_dtypes); a view if the tensor is in host memory."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    if tensor.dtype in _BYTES:
        target = onnx_dtype(tensor.dtype).numpy()
        return tensor.view(_BYTES[tensor.dtype]).numpy().view(target)
    return tensor.numpy()


def tensor_from(array: np.ndarray) -> torch.Tensor:
    """Return a tensor with a copy of `array`; the inverse of `array_of`."""
    array = np.array(array)
    dtype = TORCH_DTYPES[ir.DataType.from_numpy(array.dtype)]
    if dtype in _BYTES:
        return torch.from_numpy(array.view(np.dtype(f"int{8 * array.itemsize}"))).view(dtype)
    return torch.from_numpy(array)


def identity_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return a key that is equal for tensors that are the same view of the same memory: shared parameters."""
    if tensor.layout != torch.strided or tensor.is_meta:
        return (id(tensor),)
    return (
        tensor.data_ptr(),
        tensor.dtype,
        tuple(tensor.shape),
        tuple(tensor.stride()),
        str(tensor.device),
        tensor.numel() or id(tensor),
    )
