"""Constants of the model during emission, read and rearranged only when a layer takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.tensors import dims_of, lazy_tensor, transposed_tensor

_DTYPES = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.BOOL: "bool",
    ir.DataType.INT8: "int8",
    ir.DataType.INT16: "int16",
    ir.DataType.INT32: "int32",
    ir.DataType.INT64: "int64",
    ir.DataType.UINT8: "uint8",
    ir.DataType.UINT16: "uint16",
    ir.DataType.UINT32: "uint32",
    ir.DataType.UINT64: "uint64",
}


def keras_dtype(dtype: ir.DataType | None) -> str:
    """Return Keras's name of a dtype. Raises `Unsupported` for one that its operations lack."""
    if dtype is None:
        raise Unsupported("the dtype of a tensor is unknown")
    if dtype not in _DTYPES:
        raise Unsupported(f"Keras has no operations on {dtype.name}")
    return _DTYPES[dtype]


class Constant:
    """A tensor with known content: an initializer, or a value that a rule computed from initializers."""

    def __init__(
        self, tensor: ir.TensorProtocol, name: str, origin: tuple[str, int] | None = None, trainable: bool | None = None
    ) -> None:
        self.tensor = tensor
        self.name = name
        self.trainable = trainable
        """Whether the source trains it; None if unknown."""
        self.origin = origin or (tensor.name or name, int(tensor.size))
        """The name and the number of elements of the weight that this was computed from."""
        self.dtype = keras_dtype(tensor.dtype)
        self.shape = dims_of(tensor)

    @property
    def array(self) -> np.ndarray:
        """The content, computed again at each access."""
        return self.tensor.numpy()

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def permuted(self, *perm: int) -> Constant:
        """Return this constant with its axes permuted."""
        return (
            self
            if list(perm) == sorted(perm)
            else Constant(transposed_tensor(self.tensor, perm), self.name, self.origin, self.trainable)
        )

    def map(self, shape: Sequence[int], make: Callable[[np.ndarray], np.ndarray]) -> Constant:
        """Return a constant with this shape and the same dtype, whose content `make` computes from this one's."""
        source = self.tensor
        tensor = lazy_tensor(source.dtype, shape, lambda: make(source.numpy()))
        return Constant(tensor, self.name, self.origin, self.trainable)

    def reshaped(self, *shape: int) -> Constant:
        """Return this constant with another shape."""
        return self.map(shape, lambda array: array.reshape(shape))


def constant_of(array: np.ndarray, name: str = "const") -> Constant:
    """Return a constant for an array."""
    return Constant(ir.tensor(np.asarray(array)), name)
