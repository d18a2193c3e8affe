"""Weights without copies: tensors over numpy arrays, lazy transposes, and the map between dtypes.

`onnx_ir` tensors are lazy already: an `ir.Tensor` over a memory-mapped or a strided numpy view touches its bytes when
it is written. What is here makes such tensors from Python content and derives new ones from old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph.metadata import EXACT_KEY

_PYTHON = {bool: ir.DataType.BOOL, int: ir.DataType.INT64, float: ir.DataType.FLOAT, str: ir.DataType.STRING}

SHORT_NAMES = {
    "float32": ir.DataType.FLOAT,
    "float64": ir.DataType.DOUBLE,
    "float16": ir.DataType.FLOAT16,
    "bfloat16": ir.DataType.BFLOAT16,
    "int8": ir.DataType.INT8,
    "int16": ir.DataType.INT16,
    "int32": ir.DataType.INT32,
    "int64": ir.DataType.INT64,
    "uint8": ir.DataType.UINT8,
    "uint16": ir.DataType.UINT16,
    "uint32": ir.DataType.UINT32,
    "uint64": ir.DataType.UINT64,
    "bool": ir.DataType.BOOL,
    "complex64": ir.DataType.COMPLEX64,
    "complex128": ir.DataType.COMPLEX128,
    "string": ir.DataType.STRING,
}
"""The names that users write in `--input x:float32[1,3]`, as ONNX dtypes."""

_LONG_NAMES = {dtype: name for name, dtype in SHORT_NAMES.items()}


ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff by the name of a dtype: half a unit in the last place of 1."""


def dtype_name(dtype: ir.DataType | None) -> str:
    """The user's name of a dtype: `float32`, not `FLOAT`."""
    return "?" if dtype is None else _LONG_NAMES.get(dtype, dtype.name.lower())


# Numbers written in a program are few; arrays of more are weights.
_EXACT_SIZE = 64
_PART = 1 << 24
"""Bytes of a transposed matrix that are written at a time."""
_SMALL, _BLOCK, _COLUMNS = 1 << 17, 1 << 20, 64
"""Bytes of what numpy copies as fast; of a block of the result, and rows of the matrix that go into it together."""


def plain_array(array: np.ndarray) -> np.ndarray:
    """The array as every framework reads it, copied where it is of another byte order or goes backwards in memory."""
    native = np.asarray(array, array.dtype.newbyteorder("="))
    return native.copy() if any(step < 0 for step in native.strides) else native


def numpy_dtype(dtype: ir.DataType) -> np.dtype:
    """The numpy dtype that holds `dtype` (bfloat16 and float8 through ml_dtypes, strings as object)."""
    return np.dtype(object) if dtype == ir.DataType.STRING else dtype.numpy()


def tensor_of(content: Any, dtype: ir.DataType | None = None) -> ir.TensorProtocol:
    """An `onnx_ir` tensor over `content` without a copy where the dtype fits.

    Numpy arrays keep their dtype unless `dtype` is given; Python floats become float32 and ints int64. Raises
    ValueError where a number does not fit the integer dtype asked for.
    """
    if isinstance(
        content, (ir.Tensor, ir.LazyTensor, ir.ExternalTensor, ir.TensorProtoTensor, ir.StringTensor, ir.PackedTensor)
    ):
        return content
    if isinstance(content, (np.ndarray, np.generic)):
        array = np.asarray(content)
    else:
        array = np.array(content)
        if dtype is None:
            kinds = {"b": ir.DataType.BOOL, "i": ir.DataType.INT64, "f": ir.DataType.FLOAT, "U": ir.DataType.STRING}
            dtype = kinds.get(array.dtype.kind) if array.size else ir.DataType.INT64
    if array.dtype.kind in "UOS":
        if other := next((s for s in array.ravel().tolist() if not isinstance(s, (str, bytes))), None):
            raise Unsupported(f"a {type(other).__name__} where a tensor is needed")
        flat = [s if isinstance(s, bytes) else str(s).encode() for s in array.ravel().tolist()]
        return ir.StringTensor(flat, shape=ir.Shape(array.shape))
    if dtype is not None and dtype.numpy() != array.dtype:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype.numpy())
        if array.dtype.kind in "iu" and np.dtype(dtype.numpy()).kind in "iu" and not np.array_equal(cast, array):
            raise ValueError(f"{content!r} does not fit {dtype_name(dtype)}")
        if array.dtype == np.float64 and array.size <= _EXACT_SIZE and cast.dtype.itemsize < 8:
            return rounded_tensor(array, dtype)
        array = cast
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return ir.Tensor(array, dtype=dtype)


def rounded_tensor(array: np.ndarray, dtype: ir.DataType, content: np.ndarray | None = None) -> ir.Tensor:
    """A table computed in float64, in a floating `dtype`; the float64 run computes with the table itself.

    content: what to round instead, where a framework's own table in `dtype` is not the rounded one.
    """
    with np.errstate(all="ignore"):
        narrow = (array if content is None else content).astype(dtype.numpy())
        differs = not np.array_equal(narrow.astype(np.float64), array, equal_nan=True)
    tensor = ir.Tensor(narrow, dtype=dtype)
    if differs:
        tensor.meta[EXACT_KEY] = array
    return tensor


def lazy_tensor(
    dtype: ir.DataType, shape: Sequence[int], make: Callable[[], np.ndarray], name: str | None = None
) -> ir.LazyTensor:
    """A tensor whose array is computed when it is asked for, each time anew, and never kept."""
    return ir.LazyTensor(
        lambda: ir.Tensor(make(), dtype=dtype), dtype=dtype, shape=ir.Shape(shape), cache=False, name=name
    )


def dims_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """The shape of a tensor as plain ints."""
    return tuple(int(d) for d in tensor.shape.numpy())


def transposed_tensor(tensor: ir.TensorProtocol, perm: Sequence[int]) -> ir.LazyTensor:
    """`tensor` with its axes permuted, as a view that is materialized only when it is written."""
    dims = dims_of(tensor)
    return lazy_tensor(tensor.dtype, [dims[p] for p in perm], lambda: np.transpose(tensor.numpy(), perm), tensor.name)


def contiguous_parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """The content of an array in C order, as arrays that follow each other; a matrix comes some rows at a time."""
    if array.ndim != 2 or array.flags.c_contiguous or array.nbytes <= _PART:
        yield contiguous_array(array)
        return
    rows = max(_PART // (array.shape[1] * array.itemsize), 1)
    for start in range(0, array.shape[0], rows):
        yield contiguous_array(array[start : start + rows])


def contiguous_array(array: np.ndarray) -> np.ndarray:
    """An array in C order, copied where it is not yet.

    Of a contiguous one whose first axis was moved to the end, or the last to the front, a matrix is transposed first,
    and only then the axes between, whose rows stay whole.
    """
    if array.flags.c_contiguous or array.ndim < 2 or array.nbytes < _SMALL:
        return np.ascontiguousarray(array)
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    base = array.transpose(order)
    last = array.ndim - 1
    if array.ndim == 2 or not base.flags.c_contiguous or (order[0] != last and order[last] != 0):
        return _transposed_matrix(array) if array.ndim == 2 else np.ascontiguousarray(array)
    perm = [int(axis) for axis in np.argsort(order)]
    if order[0] == last:
        rows = _transposed_matrix(base.reshape(base.shape[0], -1).T).reshape(*base.shape[1:], base.shape[0])
        return np.ascontiguousarray(rows.transpose(*(axis - 1 for axis in perm[:-1]), last))
    rows = _transposed_matrix(base.reshape(-1, base.shape[last]).T).reshape(base.shape[last], *base.shape[:-1])
    return np.ascontiguousarray(rows.transpose(0, *(axis + 1 for axis in perm[1:])))


def _transposed_matrix(array: np.ndarray) -> np.ndarray:
    """A matrix in C order, copied block by block.

    numpy goes along rows of the result, and so to another line of the cache for each number, which takes four times as
    long and more.
    """
    found = np.empty(array.shape, array.dtype)
    rows = max(_BLOCK // max(array.shape[1] * array.itemsize, 1), _COLUMNS)
    for start in range(0, array.shape[0], rows):
        for column in range(0, array.shape[1], _COLUMNS):
            place = slice(start, start + rows), slice(column, column + _COLUMNS)
            found[place] = array[place]
    return found


def widened_array(array: np.ndarray) -> np.ndarray:
    """Floating content in float64 (complex in complex128), everything else as it is."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind == "f" or array.dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        return array.astype(np.float64)
    return array
