"""Reshapes, permutations, flips, and sizes."""

from __future__ import annotations

import functools
import math

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported

from ..common.sizes import axes_of, axis_of, reshape, size, times, vector
from ..common.values import as_value, mark_scalar
from ..rules import torch_op

INT64 = ir.DataType.INT64
END = np.iinfo(np.int64).max


# -- reshapes ---------------------------------------------------------------------------------------------------------


@torch_op("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy")
def view(g, x, size):
    return reshape(g, x, size)


@torch_op("view.dtype")
def view_dtype(g, x, dtype):
    raise Unsupported(f"view as {dtype} reads the bytes of a tensor as another dtype, which ONNX cannot express")


@torch_op("view_as", "reshape_as")
def view_as(g, x, other):
    return reshape(g, x, [size(g, other, d) for d in range(g.rank(other))])


@torch_op("flatten")
def flatten(g, x, start_dim=0, end_dim=-1):
    rank = g.rank(x)
    if rank == 0:
        return g.Reshape(x, [1])
    start, end = axis_of(g, x, start_dim), axis_of(g, x, end_dim)
    if start == end:
        return x
    dims = g.shape(x)
    merged = dims[start : end + 1]
    known = [d for d in merged if isinstance(d, int)]
    length: int | ir.Value = math.prod(known) if len(known) == len(merged) or 0 in known else -1
    behind = [size(g, x, d) for d in range(end + 1, rank)]
    if 0 in dims:
        if length == -1:  # ONNX cannot infer -1 next to a dim of 0
            length = functools.reduce(g.Mul, (as_value(g, size(g, x, d), INT64) for d in range(start, end + 1)))
        return reshape(g, x, [*(size(g, x, d) for d in range(start)), length, *behind])
    # Leading dims are unchanged, which ONNX writes as 0.
    front = [d if isinstance(d, int) else 0 for d in dims[:start]]
    if length != -1 and len([d for d in behind if not isinstance(d, int)]) == 1:
        behind = [d if isinstance(d, int) else -1 for d in behind]
    return g.Reshape(x, vector(g, [*front, length, *behind]))


@torch_op("unflatten")
def unflatten(g, x, dim, sizes):
    dim = axis_of(g, x, dim)
    dims = [size(g, x, d) for d in range(g.rank(x))]
    whole = dims[dim]
    if (
        -1 in [s for s in sizes if isinstance(s, int)]
        and isinstance(whole, int)
        and all(isinstance(s, int) for s in sizes)
    ):
        rest = math.prod(s for s in sizes if s != -1)
        sizes = [whole // rest if s == -1 else s for s in sizes]
    return reshape(g, x, [*dims[:dim], *sizes, *dims[dim + 1 :]])


@torch_op("squeeze", "squeeze_copy")
def squeeze(g, x):
    return squeeze_dims(g, x, list(range(g.rank(x))))


@torch_op("squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze_dims(g, x, dim):
    """Drop the dims of length 1; a dim of unknown length is assumed to be longer, as torch.export's guard requires."""
    axes = [a for a in axes_of(g, x, dim) if g.shape(x)[a] == 1] if dim != [] else []
    return g.Squeeze(x, axes) if axes else x


@torch_op("unsqueeze", "unsqueeze_copy")
def unsqueeze(g, x, dim):
    rank = g.rank(x) + 1
    return g.Unsqueeze(x, [dim + rank if dim < 0 else dim])


@torch_op("_shape_as_tensor")
def _shape_as_tensor(g, x):
    return g.Shape(x)


@torch_op("atleast_1d")
def atleast_1d(g, x):
    if isinstance(x, list):
        return [atleast_1d(g, v) for v in x]
    return g.Reshape(x, [1]) if g.rank(x) == 0 else x


@torch_op("ravel")
def ravel(g, x):
    return flatten(g, x)


@torch_op("resize")
def resize(g, x, size):
    """Return the first elements in order. In PyTorch, elements beyond the existing ones are undefined."""
    have, want = list(g.shape(x)), times(g, *size)
    if isinstance(want, int) and all(isinstance(d, int) for d in have) and want > math.prod(have):
        raise Unsupported("resize to more elements than there are leaves the others undefined")
    return g.Reshape(g.Slice(flatten(g, x), [0], vector(g, want), [0]), vector(g, list(size)), allowzero=1)


@torch_op("resize_as")
def resize_as(g, x, the_template):
    return resize(g, x, [size(g, the_template, i) for i in range(g.rank(the_template))])


# -- permutations -----------------------------------------------------------------------------------------------------


@torch_op("permute", "permute_copy")
def permute(g, x, dims):
    return g.Transpose(x, perm=[axis_of(g, x, d) for d in dims])


@torch_op("transpose", "swapaxes", "swapdims", "transpose_copy")
def transpose(g, x, dim0, dim1):
    perm = list(range(g.rank(x)))
    if not perm:
        return x
    a, b = axis_of(g, x, dim0), axis_of(g, x, dim1)
    perm[a], perm[b] = perm[b], perm[a]
    return g.Transpose(x, perm=perm) if a != b else x


@torch_op("t", "t_copy", "numpy_T")
def t(g, x):
    return g.Transpose(x, perm=list(range(g.rank(x)))[::-1]) if g.rank(x) > 1 else x


@torch_op("mT", "adjoint", "mH", "matrix_H")
def matrix_transpose(g, x):
    return transpose(g, x, -2, -1) if g.rank(x) > 1 else x


@torch_op("movedim", "moveaxis")
def movedim(g, x, source, destination):
    pairs = [([v] if isinstance(v, int) else v) for v in (source, destination)]
    moved = {axis_of(g, x, d): axis_of(g, x, s) for s, d in zip(*pairs, strict=True)}
    rest = iter(i for i in range(g.rank(x)) if i not in moved.values())
    return g.Transpose(x, perm=[moved[i] if i in moved else next(rest) for i in range(g.rank(x))])


@torch_op("flip")
def flip(g, x, dims):
    axes = axes_of(g, x, dims) if dims else []
    if not axes:
        return x
    n = len(axes)
    return g.Slice(x, [-1] * n, [-END] * n, axes, [-1] * n)


@torch_op("fliplr")
def fliplr(g, x):
    return flip(g, x, [1])


@torch_op("flipud")
def flipud(g, x):
    return flip(g, x, [0])


@torch_op("rot90")
def rot90(g, x, k=1, dims=(0, 1)):
    k %= 4
    if k == 2:
        return flip(g, x, dims)
    if k == 0:
        return x
    swapped = transpose(g, x, *dims)
    return flip(g, swapped, [dims[0] if k == 1 else dims[1]])


@torch_op("roll")
def roll(g, x, shifts, dims=()):
    """Roll along one axis: the slice from -shift on, followed by the rest."""
    if not dims:
        return view_as(g, roll(g, flatten(g, x), shifts, [0]), x)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(g, x, dim)
        length = g.shape(x)[axis]
        if isinstance(length, int) and isinstance(shift, int):
            shift = shift % length if length else 0
        if isinstance(shift, int) and shift == 0:
            continue
        cut = g.const([-shift]) if isinstance(shift, int) else g.Neg(vector(g, shift))
        if not isinstance(length, int) or not isinstance(shift, int):
            # A shift may exceed the length; ONNX's Mod has the sign of the length.
            cut = g.Mod(cut, g.Max(g.Shape(x, start=axis, end=axis + 1), [1]))
        x = g.Concat(g.Slice(x, cut, [END], [axis]), g.Slice(x, [0], cut, [axis]), axis=axis)
    return x


# -- sizes ------------------------------------------------------------------------------------------------------------


@torch_op("sym_size", "size")
def sym_size(g, x, dim=None):
    if dim is None:
        return [size(g, x, d) for d in range(g.rank(x))]
    return size(g, x, dim)


@torch_op("sym_numel", "numel")
def sym_numel(g, x):
    dims = g.shape(x)
    return math.prod(dims) if all(isinstance(d, int) for d in dims) else mark_scalar(g.Size(x))
