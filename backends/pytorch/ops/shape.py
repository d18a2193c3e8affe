"""Shapes and the order of elements: Reshape, Transpose, Concat and similar operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import onnx_ir as ir
import torch

from convert.errors import Unsupported

from ..dtypes import torch_dtype
from ..rules import host, onnx_op
from ..torch_internals import check
from ..values import Known, sizes_of

_NO_REST = onnx_op.limit("Reshape", "-1 beside a dim of 0: any size would do, and ONNX Runtime takes none")
_ANY_ONE = onnx_op.limit("Squeeze", "no axes, of dims that only the run tells: the rank depends on which are 1")


@onnx_op("Shape")
def shape(t, x, *, start, end):
    dims = list(x.shape)[start : len(x.shape) if end is None else end]
    return sizes_of(dims)


@onnx_op("Size")
def size(t, x):
    total = 1
    for n in x.shape:
        total = total * n
    found = sizes_of([total])
    return replace(found, array=found.array.reshape(()))


@onnx_op("Reshape")
@host("shape")
def reshape(t, x, shape, *, allowzero):
    if isinstance(shape, torch.Tensor):
        return x.reshape(_wanted(x, t.ints(shape), shape, bool(allowzero)))
    dims = t.ints(shape)
    if not allowzero:
        dims = [x.shape[i] if isinstance(n, int) and n == 0 else n for i, n in enumerate(dims)]
    if {0, -1} <= {n for n in dims if isinstance(n, int)}:
        raise Unsupported(_NO_REST)
    return x.reshape(dims)


def _wanted(x: Any, dims: Any, shape: Any, zeros: Any) -> Any:
    """Return the sizes for a shape known at run time only: 0 is the input's size, −1 the remainder."""
    found = []
    whole = 1
    for n in x.shape:
        whole = whole * n
    kept = shape.to(torch.int64)
    if not zeros:
        own = [torch.scalar_tensor(x.shape[i] if i < x.dim() else 1, dtype=torch.int64) for i in range(len(dims))]
        kept = torch.where(kept == 0, torch.stack(own), kept) if own else kept
    rest = torch.prod(torch.where(kept < 0, torch.ones_like(kept), kept))
    kept = torch.where(
        kept < 0,
        torch.div(torch.scalar_tensor(whole, dtype=torch.int64), torch.clamp(rest, min=1), rounding_mode="trunc"),
        kept,
    )
    for n in kept.tolist():
        check(n >= 0)
        found.append(n)
    return found


@onnx_op("Flatten")
def flatten(t, x, *, axis):
    axis = axis + x.dim() if axis < 0 else axis
    first, last = 1, 1
    for i, n in enumerate(x.shape):
        first, last = (first * n, last) if i < axis else (first, last * n)
    if axis == 1 and x.dim() > 1:
        return torch.flatten(x, 1)
    return x.reshape([first, last])


@onnx_op("Squeeze")
@host("axes")
def squeeze(t, x, axes=None):
    if axes is None or axes.shape[0] == 0:  # as in onnxruntime, which does not treat empty axes as all axes of size 1
        if not all(isinstance(n, int) for n in x.shape):
            raise Unsupported(_ANY_ONE, hint="say the sizes with --input, or name the axes in the model")
        return x.reshape([n for n in x.shape if n != 1])
    known = t.static(axes)
    if known is None:
        return _squeezed(t, x, axes)
    gone = {int(a) % x.dim() for a in known.ravel()} if x.dim() else set()
    return x.reshape([n for i, n in enumerate(x.shape) if i not in gone])


def _squeezed(t: Any, x: Any, axes: Any) -> Any:
    if not isinstance(axes.shape[0], int):
        raise Unsupported("Squeeze whose number of axes is computed at run time")
    rank = x.dim()
    gone = (torch.remainder(axes, rank)[:, None] == torch.arange(rank)[None]).any(0)
    order = torch.sort(gone.to(torch.int64), stable=True)[1][: rank - axes.shape[0]]
    dims = torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in x.shape])
    return x.reshape(dims[torch.sort(order)[0]].tolist())


@onnx_op("Unsqueeze")
@host("axes")
def unsqueeze(t, x, axes):
    known = t.static(axes)
    if known is None:
        return _unsqueezed(t, x, axes)
    rank = x.dim() + known.size
    new = sorted(int(a) % rank for a in known.ravel())
    for a in new:
        x = x.unsqueeze(a)
    return x


def _unsqueezed(t: Any, x: Any, axes: Any) -> Any:
    if not isinstance(axes.shape[0], int):
        raise Unsupported("Unsqueeze whose number of axes is computed at run time")
    rank = x.dim() + axes.shape[0]
    new = (torch.remainder(axes, rank)[:, None] == torch.arange(rank)[None]).any(0)
    place = torch.cumsum(torch.logical_not(new).to(torch.int64), 0) - 1
    dims = torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in (*x.shape, 1)])
    found = torch.where(new, torch.ones_like(place), dims[torch.clamp(place, 0)])
    return x.reshape(found.tolist())


@onnx_op("Transpose")
def transpose(t, x, *, perm):
    return x.permute(perm if perm is not None else list(range(x.dim()))[::-1])


@onnx_op("Expand")
@host("shape")
def expand(t, x, shape):
    dims = t.ints(shape)
    if isinstance(shape, torch.Tensor):
        # A 1 keeps a size and a 0 turns 1 into 0, so this gives the broadcast of both sizes.
        own = [1] * (len(dims) - x.dim()) + list(x.shape)
        dims = [1] * (len(own) - len(dims)) + dims
        there, asked = (torch.stack([torch.scalar_tensor(n, dtype=torch.int64) for n in part]) for part in (own, dims))
        wanted = torch.where(asked == 1, there, asked)
        return torch.broadcast_to(x, wanted.tolist())
    dims = [1] * (x.dim() - len(dims)) + dims
    own = [1] * (len(dims) - x.dim()) + list(x.shape)
    return x.expand([n if isinstance(d, int) and d == 1 else d for d, n in zip(dims, own, strict=True)])


@onnx_op("Concat")
def concat(t, *xs, axis):
    return torch.cat(list(xs), axis)


@onnx_op("Split")
@host("split")
def split(t, x, split=None, *, axis, num_outputs):
    length = x.shape[axis]
    if split is not None:
        return tuple(torch.split(x, t.ints(split), axis))
    count = num_outputs or len(t.node.outputs)
    each = -(-length // count)
    sizes = [each] * (count - 1)
    return tuple(torch.split(x, [*sizes, length - each * (count - 1)], axis))


@onnx_op("Tile")
@host("repeats")
def tile(t, x, repeats):
    counts = t.ints(repeats)
    for n in counts:
        if not isinstance(n, int):
            check(n >= 0)
    return x.repeat(counts) if x.dim() else x


@onnx_op("Constant")
def constant(t, *, value, value_float, value_floats, value_int, value_ints, value_string, value_strings, sparse_value):
    if value is not None:
        return value.numpy()
    if value_string is not None or value_strings is not None or sparse_value is not None:
        raise Unsupported("text, or a sparse constant")
    import numpy as np

    if value_float is not None or value_floats is not None:
        return np.array(value_float if value_float is not None else value_floats, np.float32)
    return np.array(value_int if value_int is not None else value_ints, np.int64)


@onnx_op("ConstantOfShape")
@host("shape")
def constant_of_shape(t, shape, *, value):
    dims = t.ints(shape)
    for n in dims:
        if not isinstance(n, int):
            check(n >= 0)
    if value is None:
        return torch.zeros(dims, dtype=torch.float32)
    return torch.full(dims, value.numpy().ravel()[0].item(), dtype=torch_dtype(value.dtype))


@onnx_op("Range")
@host("start", "limit", "delta")
def range_(t, start, limit, delta):
    dtype = start.array.dtype if isinstance(start, Known) else t.tensor(start).dtype
    dtype = dtype if isinstance(dtype, torch.dtype) else torch_dtype(ir.DataType.from_numpy(dtype))
    if dtype.is_floating_point:
        a, b, c = (t.tensor(v).reshape(()) for v in (start, limit, delta))
        # Counted in float64, as in onnxruntime.
        first, end = (v.to(torch.float64) for v in (a, b))
        count = torch.clamp(torch.ceil((end - first) / c), min=0).to(torch.int64).item()
        check(count >= 0)
        return a + torch.arange(count, dtype=dtype) * c
    a, b, c = t.number(start), t.number(limit), t.number(delta)
    if all(isinstance(v, int) for v in (a, b, c)):
        return torch.arange(a, max(a, b) if c > 0 else min(a, b), c, dtype=dtype)
    if isinstance(c, int) and c == 1 and isinstance(a, int) and a == 0 and not isinstance(limit, torch.Tensor):
        return torch.arange(b, dtype=dtype)
    first, last, step = (t.tensor(v).reshape(()).to(torch.int64) for v in (start, limit, delta))
    count = torch.clamp(-torch.div(first - last, step, rounding_mode="floor"), min=0).item()
    check(count >= 0)
    return (first + torch.arange(count) * step).to(dtype)


@onnx_op("EyeLike")
def eye_like(t, x, *, dtype, k):
    kind = x.dtype if dtype is None else torch_dtype(ir.DataType(dtype))
    rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None]
    return (columns - rows == k).to(kind)


@onnx_op("Trilu")
def trilu(t, x, k=None, *, upper):
    rows, columns = torch.arange(x.shape[-2])[:, None], torch.arange(x.shape[-1])[None]
    offset = columns - rows
    place = 0 if k is None else k.reshape(())
    kept = offset >= place if upper else offset <= place
    return torch.where(kept, x, torch.zeros_like(x))


@onnx_op("DepthToSpace")
def depth_to_space(t, x, *, blocksize, mode):
    n, c, h, w = x.shape
    b, left = blocksize, c // (blocksize * blocksize)
    if mode == "CRD":
        return torch.pixel_shuffle(x, b)
    y = x.reshape(n, b, b, left, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, left, h * b, w * b)


@onnx_op("SpaceToDepth")
def space_to_depth(t, x, *, blocksize):
    n, c, h, w = x.shape
    b = blocksize
    y = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)
