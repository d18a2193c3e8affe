"""Reshapes, permutations, flips and sizes; diagonals and windows; broadcasting, tiling and grids."""

from __future__ import annotations

import functools
import math

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph

from ..common.sizes import arange, axes_of, axis_of, broadcast_to_rank, reshape, size, times, vector
from ..common.values import as_value, cast, mark_scalar, promote_operands
from ..rules import torch_op

# -- reshapes, permutations, flips, sizes -----------------------------------------------------------------------------


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


# -- diagonals of matrices, and windows along a dim -------------------------------------------------------------------


@torch_op("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(g, x, offset=0, dim1=0, dim2=1):
    """diagonal by flat indices i · columns + i + offset of the last two dims."""
    a, b = axis_of(g, x, dim1), axis_of(g, x, dim2)
    perm = [i for i in range(g.rank(x)) if i not in (a, b)] + [a, b]
    flat = flatten(g, g.Transpose(x, perm=perm), -2, -1)
    return g.Gather(flat, _diagonal_indices(g, size(g, x, a), size(g, x, b), offset), axis=g.rank(x) - 2)


def _diagonal_indices(g: Graph, rows: int | ir.Value, columns: int | ir.Value, offset: int) -> ir.Value:
    """Return the flat indices of a diagonal in a matrix."""
    below = max(-offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        length = max(min(rows - below, columns - max(offset, 0)), 0)
        return g.const(max(offset, 0) + below * columns + np.arange(length, dtype=np.int64) * (columns + 1))
    rows, columns = (g.const(n) if isinstance(n, int) else n for n in (rows, columns))
    length = g.Max(g.Min(g.Sub(rows, below), g.Sub(columns, max(offset, 0))), 0)
    first = g.Add(g.Mul(columns, below), max(offset, 0))
    return g.Add(g.Mul(arange(g, length), g.Add(columns, 1)), first)


@torch_op("diag_embed")
def diag_embed(g, x, offset=0, dim1=-2, dim2=-1):
    rank = g.rank(x) + 1
    padded = _padded_diagonal(g, x, offset)
    column = arange(g, size(g, padded, -1))
    on = g.Equal(g.Sub(column, g.Unsqueeze(column, [1])), offset)
    row = g.Unsqueeze(padded, [rank - 2 if offset >= 0 else rank - 1])
    spread = g.Where(on, row, as_value(g, 0, g.dtype(x)))
    a, b = (d + rank if d < 0 else d for d in (dim1, dim2))
    rest = iter(range(rank - 2))
    return g.Transpose(spread, perm=[rank - 2 if i == a else rank - 1 if i == b else next(rest) for i in range(rank)])


def _padded_diagonal(g: Graph, x: ir.Value, offset: int) -> ir.Value:
    if offset == 0:
        return x
    rank = g.rank(x)
    pads = [0] * (rank - 1) + [abs(offset)] + [0] * rank
    return g.Pad(x, pads, as_value(g, 0, g.dtype(x)))


@torch_op("diag")
def diag(g, x, diagonal=0):
    return diag_embed(g, x, diagonal) if g.rank(x) == 1 else globals()["diagonal"](g, x, diagonal)


@torch_op("unfold", "unfold_copy")
def unfold(g, x, dimension, size, step):
    axis = axis_of(g, x, dimension)
    if g.rank(x) == 0:
        return g.Reshape(x, [1])
    length = g.shape(x)[axis]
    inside = np.arange(size, dtype=np.int64)
    if isinstance(length, int):
        windows = np.arange((length - size) // step + 1, dtype=np.int64)[:, None] * step + inside
    else:
        last = g.Squeeze(g.Shape(x, start=axis, end=axis + 1), [0])
        windows = g.Add(g.Unsqueeze(g.Range(0, g.Sub(last, size - 1), step), [1]), inside)
    return movedim(g, g.Gather(x, windows, axis=axis), axis + 1, -1)


# -- broadcasting, tiling, grids --------------------------------------------------------------------------------------


@torch_op("expand", "expand_copy", "broadcast_to")
def expand(g, x, size, *, implicit=False):
    """expand; a dim of -1 keeps its length, which ONNX writes as 1."""
    x = broadcast_to_rank(g, x, len(size))
    dims = [1 if isinstance(d, int) and d == -1 else d for d in size]
    if all(d == have or d == 1 for d, have in zip(dims, g.shape(x), strict=True) if isinstance(d, int)) and all(
        isinstance(d, int) for d in dims
    ):
        return x
    return g.Expand(x, vector(g, dims))


@torch_op("expand_as")
def expand_as(g, x, other):
    return g.Expand(x, g.dims(other))


@torch_op("broadcast_tensors")
def broadcast_tensors(g, tensors):
    shape = None
    for x in tensors:
        zero = g.Expand(g.const(0), g.dims(x))
        shape = zero if shape is None else g.Add(shape, zero)
    return [g.Expand(x, g.dims(shape)) for x in tensors]


@torch_op("repeat")
def repeat(g, x, repeats):
    x = broadcast_to_rank(g, x, len(repeats))
    return g.Tile(x, vector(g, repeats)) if repeats else x


@torch_op("tile")
def tile(g, x, dims):
    return repeat(g, x, [1] * (g.rank(x) - len(dims)) + list(dims))


@torch_op("repeat_interleave.self_int")
def repeat_interleave(g, x, repeats, dim=None, *, output_size=None):
    if dim is None:
        x, dim = flatten(g, x), 0
    if g.rank(x) == 0:
        x = g.Reshape(x, [1])
    axis = axis_of(g, x, dim)
    spread = g.Unsqueeze(x, [axis + 1])
    repeated = g.Tile(spread, vector(g, [*[1] * (axis + 1), repeats, *[1] * (g.rank(x) - axis - 1)]))
    dims = [size(g, x, d) for d in range(g.rank(x))]
    length = dims[axis] * repeats if isinstance(dims[axis], int) and isinstance(repeats, int) else -1
    return reshape(g, repeated, [*dims[:axis], length, *dims[axis + 1 :]])


@torch_op("repeat_interleave.self_Tensor")
def repeat_interleave_each(g, x, repeats, dim=None, *, output_size=None):
    """Return x with its rows repeated; `repeats` is one number for all rows, or one number for each."""
    if dim is None:
        x, dim = flatten(g, x), 0
    x = atleast_1d(g, x)
    axis = axis_of(g, x, dim)
    length = g.Shape(x, start=axis, end=axis + 1)
    return g.Gather(x, repeated_places(g, g.Expand(atleast_1d(g, repeats), length)), axis=axis)


@torch_op("repeat_interleave.Tensor")
def repeated_places(g, repeats, *, output_size=None):
    """Return each index i repeats[i] times in a row: 0, 0, 1, 2, 2, 2 for repeats of 2, 1, 3.

    The indices are a running sum that increases by 1 at the end of each run.
    """
    ends = g.CumSum(cast(g, repeats, torch.int64), 0)
    total = g.ReduceMax(g.Concat(g.const([0]), ends, axis=0), keepdims=1)
    blank = g.Expand(g.const(0), g.Add(total, 1))
    steps = g.ScatterElements(blank, ends, g.Expand(g.const(1), g.Shape(ends)), axis=0, reduction="add")
    return g.Slice(g.CumSum(steps, 0), [0], total, [0])


@torch_op("meshgrid", "meshgrid.indexing")
def meshgrid(g, tensors, *, indexing="ij"):
    rank = len(tensors)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    placed = []
    for place, x in zip(order, (atleast_1d(g, x) for x in tensors), strict=True):
        placed.append(g.Unsqueeze(x, [i for i in range(rank) if i != place]) if rank > 1 else x)
    if rank == 1:
        return placed
    shape = g.Concat(*(g.dims(atleast_1d(g, tensors[order.index(i)])) for i in range(rank)), axis=0)
    return [g.Expand(x, shape) for x in placed]


@torch_op("cartesian_prod")
def cartesian_prod(g, tensors):
    """Return all combinations of one element of each tensor; the last tensor varies fastest."""
    if len(tensors) == 1:
        return tensors[0]
    return g.Concat(*(g.Reshape(x, [-1, 1]) for x in meshgrid(g, promote_operands(g, *tensors))), axis=1)
