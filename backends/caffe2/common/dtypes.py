"""The dtypes that Caffe2 and its kernels support, and casts into and out of them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from convert.errors import Unsupported
from convert.files.caffe2.netdef import NUMBERS
from convert.graph.tensors import dtype_name, lazy_tensor

from ..blob import Blob
from ..net import Net

F = ir.DataType

FLOAT = (F.FLOAT,)
ARITHMETIC = (F.FLOAT, F.DOUBLE, F.INT32, F.INT64)
COMPARED = (*ARITHMETIC, F.BOOL)

# For each dtype, the dtypes that represent all of its values exactly; the dtype itself is first.
_SMALL_INTEGER = (F.INT32, F.INT64, F.FLOAT, F.DOUBLE)
_HOLDS = {
    F.FLOAT: (F.FLOAT, F.DOUBLE),
    F.DOUBLE: (F.DOUBLE,),
    F.FLOAT16: (F.FLOAT16, F.FLOAT, F.DOUBLE),
    F.INT64: (F.INT64,),
    F.INT32: (F.INT32, F.INT64, F.DOUBLE),
    F.BOOL: (F.BOOL, *_SMALL_INTEGER),
    F.INT8: (F.INT8, *_SMALL_INTEGER),
    F.UINT8: (F.UINT8, *_SMALL_INTEGER),
    F.INT16: (F.INT16, *_SMALL_INTEGER),
    F.UINT16: (F.UINT16, *_SMALL_INTEGER),
}


def cast(net: Net, x: Blob, dtype: ir.DataType) -> Blob:
    """Return `x` as `dtype`. float16 is cast by way of float32, with Caffe2's own operators for both directions."""
    if x.dtype == dtype:
        return x
    if dtype not in NUMBERS:
        raise Unsupported(f"Caffe2 has no {dtype_name(dtype)} tensors")
    content = x.content
    if content is not None and dtype != F.BOOL:
        return net.const(lazy_tensor(dtype, content.shape.numpy(), lambda: content.numpy().astype(dtype.numpy())))
    if x.dtype == F.FLOAT16:
        return cast(net, net.HalfToFloat(x), dtype)
    if dtype == F.FLOAT16:
        return net.FloatToHalf(cast(net, x, F.FLOAT))
    return net.facts(net.Cast(x, to=NUMBERS[dtype]), dtype)


def widen(net: Net, x: Blob, kernels: Iterable[ir.DataType] = ARITHMETIC) -> Blob:
    """Return `x` in the first dtype of `kernels` that represents all of its values. Raises `Unsupported` if there is
    none.
    """
    for dtype in _HOLDS[x.dtype]:
        if dtype in kernels:
            return cast(net, x, dtype)
    raise Unsupported(
        f"Caffe2 computes this in {_dtype_names(kernels)} only, and the model does in {dtype_name(x.dtype)}"
    )


def _dtype_names(kernels: Iterable[ir.DataType]) -> str:
    return " or ".join(dtype_name(k) for k in kernels)
