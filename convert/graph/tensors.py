"""Weights without copies: tensors over numpy arrays, lazy transposes, and the map between dtypes.

`onnx_ir` tensors are lazy already: an `ir.Tensor` over a memory-mapped or strided numpy view reads its bytes when it is
written. This module makes such tensors from Python content, and derives new ones from them.
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
"""The dtype names that users write in `--input x:float32[1,3]`, as ONNX dtypes."""

_LONG_NAMES = {dtype: name for name, dtype in SHORT_NAMES.items()}


ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""Unit roundoff by the name of a dtype: half a unit in the last place of 1."""


def dtype_name(dtype: ir.DataType | None) -> str:
    """Return the user's name of a dtype: `float32`, not `FLOAT`."""
    return "?" if dtype is None else _LONG_NAMES.get(dtype, dtype.name.lower())


# A program contains few literal numbers; arrays with more elements are weights.
_EXACT_SIZE = 64
_PART = 1 << 24
"""Bytes of a transposed matrix that are written at a time."""
_SMALL = 1 << 17
"""Below this many bytes numpy copies a transposed matrix as fast."""
_ROWS, _LINE = 1024, 64
"""Rows, and bytes of a row, of the blocks in which a matrix is transposed."""


def plain_array(array: np.ndarray) -> np.ndarray:
    """Return the array in a form that every framework reads: native byte order and no negative strides.

    Copies only if needed.
    """
    native = np.asarray(array, array.dtype.newbyteorder("="))
    return native.copy() if any(step < 0 for step in native.strides) else native


def numpy_dtype(dtype: ir.DataType) -> np.dtype:
    """Return the numpy dtype that holds `dtype` (bfloat16 and float8 through ml_dtypes, strings as object)."""
    return np.dtype(object) if dtype == ir.DataType.STRING else dtype.numpy()


def tensor_of(content: Any, dtype: ir.DataType | None = None) -> ir.TensorProtocol:
    """Return an `onnx_ir` tensor over `content`, without a copy if the dtype already matches.

    Numpy arrays keep their dtype unless `dtype` is given. Python floats become float32 and ints int64. Raises
    ValueError if a number does not fit the requested integer dtype, and `Unsupported` for an element that is no number
    or string.
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
    """Return a table computed in float64 as a tensor of a floating `dtype`; the float64 run uses the unrounded table.

    Pass a framework's own table as `content` if it differs from the rounded `array`: the tensor then holds `content` in
    `dtype`.
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
    """Return a tensor whose array is computed by `make` on each access, and never cached."""
    return ir.LazyTensor(
        lambda: ir.Tensor(make(), dtype=dtype), dtype=dtype, shape=ir.Shape(shape), cache=False, name=name
    )


def dims_of(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    """Return the shape of a tensor as plain ints."""
    return tuple(int(d) for d in tensor.shape.numpy())


def transposed_tensor(tensor: ir.TensorProtocol, perm: Sequence[int]) -> ir.LazyTensor:
    """Return `tensor` with its axes permuted, as a view that is materialized only when it is written."""
    dims = dims_of(tensor)
    return lazy_tensor(tensor.dtype, [dims[p] for p in perm], lambda: np.transpose(tensor.numpy(), perm), tensor.name)


def contiguous_parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the content of an array in C order, as consecutive arrays. Large matrices come some rows at a time."""
    if array.ndim != 2 or array.flags.c_contiguous or array.nbytes <= _PART:
        yield contiguous_array(array)
        return
    rows = max(_PART // (array.shape[1] * array.itemsize), 1)
    for start in range(0, array.shape[0], rows):
        yield contiguous_array(array[start : start + rows])


def contiguous_array(array: np.ndarray) -> np.ndarray:
    """Return the array in C order, copied if it is not already.

    If the first axis of a contiguous array was moved last, or its last axis first, the copy takes two steps: the
    transpose of a matrix, then a permutation of the other axes, which copies whole rows.
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
    """Return a matrix in C order, copied block by block.

    numpy copies along rows of the result, and so touches another cache line of the source for each number. A block is
    one cache line wide: its lines are read whole, and the part of the source that they cover stays in the cache.
    """
    found = np.empty(array.shape, array.dtype)
    columns = max(_LINE // array.itemsize, 1)
    for start in range(0, array.shape[0], _ROWS):
        for column in range(0, array.shape[1], columns):
            place = slice(start, start + _ROWS), slice(column, column + columns)
            found[place] = array[place]
    return found


def widened_array(array: np.ndarray) -> np.ndarray:
    """Return floating-point content as float64 (complex as complex128), and everything else unchanged."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind == "f" or array.dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        return array.astype(np.float64)
    return array


def nonfinite_kinds(array: np.ndarray) -> np.ndarray:
    """Return 0 for numbers, 1 for NaN, 2 and 3 for positive and negative infinity; for complex, 1 if not finite."""
    if array.dtype.kind == "c":
        return (~np.isfinite(array)).astype(np.int8)
    return (np.isnan(array) + 2 * (array == np.inf) + 3 * (array == -np.inf)).astype(np.int8)


def holds_floats(array: Any) -> bool:
    """Return whether a value is an array with elements, which are floating-point numbers that NumPy knows."""
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size > 0
