"""Kernels of operators that create a blob from their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convert.errors import Unsupported
from convert.files.caffe2.netdef import DTYPES
from convert.rules import Rule

from .table import Array, ExecutorRun, kernel


def given_tensor_fill(dtype: type) -> Rule:
    """Return a kernel for one of the GivenTensor…Fill operators."""

    def rule(run: ExecutorRun, *, shape: Sequence[int], values: Array = ()) -> Array:
        content = np.asarray(values)
        if content.size != int(np.prod(shape)):
            raise Unsupported(f"{content.size:,} numbers for the shape {list(shape)}")
        return run.widen_array(content.astype(dtype).reshape(list(shape)))

    return rule


kernel.same(
    given_tensor_fill,
    GivenTensorFill=np.float32, GivenTensorDoubleFill=np.float64, GivenTensorIntFill=np.int32,
    GivenTensorInt64Fill=np.int64, GivenTensorInt16Fill=np.int16, GivenTensorBoolFill=np.bool_,
)  # fmt: skip


@kernel("GivenTensorByteStringToUInt8Fill")
def given_bytes(run: ExecutorRun, *, shape: Sequence[int], values: Sequence[str]) -> Array:
    content = b"".join(v.encode(errors="surrogateescape") for v in values)
    return np.frombuffer(content, np.uint8).reshape(list(shape))


@kernel("ConstantFill")
def constant_fill(
    run: ExecutorRun, x: Array = None, *, value: float = 0.0, dtype: int = 0, shape: Sequence[int] = (),
    extra_shape: Sequence[int] = (), input_as_shape: int = 0,
) -> Array:  # fmt: skip
    """Fill a shape: an argument, the shape of the input, or the numbers in the input."""
    number = dtype or (10 if isinstance(value, int) else 1)
    if number not in DTYPES or DTYPES[number].name in ("FLOAT16", "INT8", "UINT16"):
        raise Unsupported(f"the Caffe2 dtype {number}")
    sizes = [int(d) for d in (shape if x is None else x if input_as_shape else x.shape)]
    return run.widen_array(np.full([*sizes, *extra_shape], value, DTYPES[number].numpy()))
