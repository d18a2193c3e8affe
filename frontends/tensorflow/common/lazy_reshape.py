"""Reshapes, transposes and casts of constants: they are applied lazily to weights, without a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Dim, Graph
from convert.graph.tensors import dims_of, lazy_tensor, tensor_of, transposed_tensor

from . import shape_values
from .dims import dim_quotient, sizes_tensor

_KEY = "convert.tensorflow.transposed"

LAST_KEY = "convert.tensorflow.last"
"""Key in a value's `meta` for another value that is its last element along the first dim."""


def cast(g: Graph, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Return `x` in another dtype; itself if it has that one. Small constants are converted immediately, and wrap
    around.
    """
    if x.dtype == dtype:
        return x
    content = shape_values.content(x)
    if content is not None and all(isinstance(i, int) for i in content.ravel()):
        return g.const(content.astype(np.int64).astype(dtype.numpy()), dtype)
    result = g.Cast(x, to=dtype)
    if content is not None:
        shape_values.set_content(result, content)
    return result


def int64(g: Graph, x: ir.Value) -> ir.Value:
    """Return `x` as int64 for shapes, axes and repeats; sizes with names are read from a value that has them."""
    content = shape_values.content(x)
    if content is not None and content.ndim == 1 and any(isinstance(i, str) for i in content):
        sizes = sizes_tensor(g, content.tolist())
        if sizes is not None:
            return sizes
    return cast(g, x, ir.DataType.INT64)


def transpose(g: Graph, x: ir.Value, perm: Sequence[int]) -> ir.Value:
    """Return `x` with its axes permuted: a new lazy weight if it is one, else a Transpose.

    A quantized weight is permuted as integers, so that kernels still find its DequantizeLinear. Raises `Unsupported`
    for a value that has another number of dims, which a file may say of any weight.
    """
    perm = [int(p) for p in perm]
    if x.shape is not None and len(x.shape) != len(perm):
        raise Unsupported(f"a value of {len(x.shape)} dims, where the operator takes {len(perm)}")
    if perm == list(range(len(perm))):
        return x
    maker = x.producer()
    if maker is not None and maker.op_type == "DequantizeLinear" and maker.inputs[0] is not None:
        stored, axis = transpose(g, maker.inputs[0], perm), maker.attributes.get("axis")
        return g.DequantizeLinear(
            stored, *maker.inputs[1:], axis=None if axis is None else perm.index(axis.as_int() % len(perm))
        )
    if x.const_value is None:
        return g.Transpose(x, perm=perm)
    done = x.meta.setdefault(_KEY, {})
    if tuple(perm) not in done:
        tensor = x.const_value
        done[tuple(perm)] = (
            _view(g, x, (), lambda: np.transpose(tensor.numpy(), perm))
            if tensor.dtype == ir.DataType.STRING
            else g.initializer(x.name or "const", transposed_tensor(tensor, perm))
        )
    return done[tuple(perm)]


def _view(g: Graph, x: ir.Value, shape: Sequence[int], make: Callable[[], np.ndarray]) -> ir.Value:
    """Return a lazy constant of the dtype of `x`; strings, which are never lazy, are computed immediately."""
    dtype = g.dtype(x)
    tensor = tensor_of(make()) if dtype == ir.DataType.STRING else lazy_tensor(dtype, shape, make)
    return g.initializer(x.name or "const", tensor)


def reshape(g: Graph, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Return `x` in a static shape (one -1 allowed): a new lazy weight if it is one, else a Reshape."""
    shape = [int(d) for d in shape]
    tensor = x.const_value
    if tensor is not None and shape == list(tensor.shape):
        return x
    if tensor is None:
        return g.Reshape(x, np.array(shape, np.int64))
    if -1 in shape:
        rest = int(np.prod([d for d in shape if d != -1], dtype=np.int64))
        shape[shape.index(-1)] = int(tensor.size) // rest if rest else 0
    return _view(g, x, shape, lambda: tensor.numpy().reshape(shape))


def unsqueeze(g: Graph, x: ir.Value, axes: Sequence[int]) -> ir.Value:
    """Return `x` with dims of 1 at `axes` of the result."""
    if x.const_value is not None:
        return reshape(g, x, np.expand_dims(np.empty(dims_of(x.const_value)), tuple(axes)).shape)
    return g.Unsqueeze(x, np.array(axes, np.int64)) if len(axes) else x


def infer_reshape_dims(source: Sequence[Dim], target: Sequence[Dim]) -> list[Dim]:
    """Return `target` with its -1 inferred from the dims of the reshaped tensor, if these are known."""
    size = dim_quotient(source, [d for d in target if d != -1]) if -1 in target else None
    return [size if d == -1 else d for d in target]


def unsqueeze_per_channel(g: Graph, x: ir.Value, rank: int) -> ir.Value:
    """Return `x`, of rank 1, as a tensor of `rank` dims along the second one, the channels of NCHW."""
    return unsqueeze(g, x, [0, *range(2, rank)])


def split_weight(g: Graph, x: ir.Value, sizes: Sequence[int], axis: int) -> list[ir.Value]:
    """Return a weight split along `axis` (0 or more), each part a lazy view."""
    ends = np.cumsum(sizes).tolist()
    return [slice_weight(g, x, (*[slice(None)] * axis, slice(e - n, e))) for e, n in zip(ends, sizes, strict=True)]


def squeeze_weight(g: Graph, x: ir.Value, axis: int) -> ir.Value:
    """Return a weight without a dim of 1."""
    assert x.const_value is not None
    return reshape(g, x, [d for i, d in enumerate(dims_of(x.const_value)) if i != axis])


def slice_weight(g: Graph, x: ir.Value, items: tuple[Any, ...]) -> ir.Value:
    """Return a numpy subscript of a weight as a lazy view."""
    tensor = x.const_value
    assert tensor is not None
    shape = np.broadcast_to(np.empty(()), dims_of(tensor))[items].shape
    return _view(g, x, shape, lambda: np.asarray(tensor.numpy()[items]))
