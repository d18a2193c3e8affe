"""Products of matrices and vectors, also of groups of rows with a matrix per group; einsum, distances."""

from __future__ import annotations

import functools
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import dims_of, lazy_tensor, transposed_tensor
from convert.semantics.einsum import squeeze_labels

from ..common.sizes import arange, axis_of, reshape, size, times, vector
from ..common.values import as_value, cast, constant_like, promote_operands, widen_bfloat16
from ..rules import torch_op
from .arithmetic import add, mul
from .shape import roll


@torch_op("matmul", "mm", "bmm", "mv", "dot", "linalg_matmul", "vdot")
def matmul(g, x, y):
    return g.MatMul(*promote_operands(g, x, y))


@torch_op("inner")
def inner(g, x, y):
    if g.rank(x) == 0 or g.rank(y) == 0:
        return g.Mul(x, y)
    return tensordot(g, x, y, [-1], [-1])


@torch_op("addmm")
def addmm(g, x, mat1, mat2, *, beta=1, alpha=1):
    """beta x + alpha mat1 mat2."""
    if g.shape(mat1)[1] == 0:  # onnxruntime drops x from a Gemm that sums nothing
        return _weighted_sum(g, x, g.MatMul(mat1, mat2), beta, alpha)
    return g.Gemm(mat1, mat2, x, alpha=float(alpha), beta=float(beta))


@torch_op("addmv", "baddbmm")
def addmv(g, x, a, b, *, beta=1, alpha=1):
    return _weighted_sum(g, x, g.MatMul(a, b), beta, alpha)


@torch_op("addbmm")
def addbmm(g, x, a, b, *, beta=1, alpha=1):
    return _weighted_sum(g, x, g.ReduceSum(g.MatMul(a, b), [0], keepdims=0), beta, alpha)


@torch_op("addr")
def addr(g, x, a, b, *, beta=1, alpha=1):
    return _weighted_sum(g, x, outer(g, a, b), beta, alpha)


def _weighted_sum(g: Graph, x: ir.Value, product: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    if alpha != 1:
        product = mul(g, product, as_value(g, alpha, g.dtype(product)))
    if beta == 0:
        return product
    return add(g, x if beta == 1 else mul(g, x, as_value(g, beta, g.dtype(x))), product)


@torch_op("outer", "ger")
def outer(g, x, y):
    a, b = promote_operands(g, x, y)
    return mul(g, g.Unsqueeze(a, [1]), g.Unsqueeze(b, [0]))


@torch_op("einsum")
def einsum(g, equation, tensors, *, path=None):
    operands = promote_operands(g, *tensors)
    equation = _expand_ellipsis(g, equation.replace(" ", ""), operands)
    # ONNX's inference takes each dim of the result from the first operand with that label, even if it is 1 there.
    known = [[d if isinstance(d, int) else None for d in g.shape(x)] for x in operands]
    equation, ones = squeeze_labels(equation, known)
    squeezed = [g.Squeeze(x, axes) if axes else x for x, axes in zip(operands, ones, strict=True)]
    out = g.Einsum(*(widen_bfloat16(g, x) for x in squeezed), equation=equation)
    return cast(g, out, g.dtype(operands[0]))


def _expand_ellipsis(g: Graph, equation: str, operands: list[ir.Value]) -> str:
    """Return an equation with letters for "...", if the operands' ellipses differ in rank or are summed.

    Missing dims of an operand are the first ones.
    """
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    hidden = [g.rank(x) - len(term.replace("...", "")) for x, term in zip(operands, terms, strict=True)]
    dotted = [count for count, term in zip(hidden, terms, strict=True) if "..." in term]
    if not arrow or not dotted or (len(set(dotted)) == 1 and "..." in result):
        return equation
    letters = "".join(sorted(set(string.ascii_letters) - set(equation))[: max(dotted)])
    named = [t.replace("...", letters[len(letters) - n :]) for t, n in zip(terms, hidden, strict=True)]
    return ",".join(named) + arrow + result.replace("...", letters)


@torch_op("tensordot")
def tensordot(g, x, y, dims_self, dims_other):
    """Return one matrix product, after the summed dims have moved to the end of x and to the start of y."""
    a = [axis_of(g, x, d) for d in dims_self]
    b = [axis_of(g, y, d) for d in dims_other]
    for i, j in zip(a, b, strict=True):  # a length of 1 matches any length; the other operand is summed first
        lengths = g.shape(x)[i], g.shape(y)[j]
        x = g.ReduceSum(x, [i]) if lengths[1] == 1 and lengths[0] != 1 else x
        y = g.ReduceSum(y, [j]) if lengths[0] == 1 and lengths[1] != 1 else y
    left = [i for i in range(g.rank(x)) if i not in a]
    right = [i for i in range(g.rank(y)) if i not in b]
    summed = [size(g, x, d) for d in a]
    length = times(g, *summed)
    if isinstance(length, int) and length == 0:  # every sum is empty
        shape = [*(size(g, x, i) for i in left), *(size(g, y, i) for i in right)]
        return g.Expand(constant_like(g, 0, x), vector(g, shape)) if shape else constant_like(g, 0, x)
    rows: Any = -1
    columns: Any = -1
    if not isinstance(length, int):
        rows, columns = (times(g, *(size(g, v, i) for i in dims)) for v, dims in ((x, left), (y, right)))
    m = reshape(g, g.Transpose(x, perm=left + a), [rows, length])
    n = reshape(g, g.Transpose(y, perm=b + right), [length, columns])
    return reshape(g, g.MatMul(m, n), [*(size(g, x, i) for i in left), *(size(g, y, i) for i in right)])


@torch_op("linalg_multi_dot", "chain_matmul")
def multi_dot(g, tensors):
    """Multiply in the cheapest order, as PyTorch does; from the left if a size is unknown."""
    first, last = tensors[0], tensors[-1]
    lengths = [1 if g.rank(first) == 1 else g.shape(first)[0], *(g.shape(x)[0] for x in tensors[1:])]
    lengths.append(1 if g.rank(last) == 1 else g.shape(last)[1])
    known = [n for n in lengths if isinstance(n, int)]
    if len(known) < len(lengths):
        return functools.reduce(g.MatMul, tensors)
    splits = _cheapest_splits(known)

    def product(i: int, j: int) -> ir.Value:
        if i == j:
            return tensors[i]
        at = splits[i, j]
        return g.MatMul(product(i, at), product(at + 1, j))

    return product(0, len(tensors) - 1)


def _cheapest_splits(lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return where to split each run of matrices i to j, of `lengths[i]` rows each: matrix chain order.

    For equal costs the first split is used, but for three matrices the last one, as in PyTorch.
    """
    count = len(lengths) - 1
    costs: dict[tuple[int, int], int] = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for run in range(1, count):
        for i in range(count - run):
            j = i + run

            def cost(k: int, i: int = i, j: int = j) -> int:
                return costs[i, k] + costs[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1]

            places = range(i, j) if count > 3 else range(j - 1, i - 1, -1)
            splits[i, j] = min(places, key=cost)
            costs[i, j] = cost(splits[i, j])
    return splits


@torch_op("linalg_cross")
def linalg_cross(g, x, y, *, dim=-1):
    a, b = promote_operands(g, x, y)
    axis = axis_of(g, a, dim)
    a1, a2 = (g.Gather(a, order, axis=axis) for order in ([1, 2, 0], [2, 0, 1]))
    b1, b2 = (g.Gather(b, order, axis=axis_of(g, b, dim)) for order in ([1, 2, 0], [2, 0, 1]))
    return g.Sub(g.Mul(a1, b2), g.Mul(a2, b1))


@torch_op("cross")
def cross(g, x, y, *, dim=None):
    """The default `dim` is the first one of length 3; if lengths before it are unknown, the graph decides at run
    time.
    """
    if dim is not None:
        return linalg_cross(g, x, y, dim=dim)
    found = None
    for axis in reversed(_dims_of_three(g, x)):
        product = linalg_cross(g, x, y, dim=axis) if g.shape(x)[axis] == 3 else _rolled_cross(g, x, y, axis)
        three = g.Equal(as_value(g, size(g, x, axis), ir.DataType.INT64), 3)
        found = product if found is None else g.Where(three, product, found)
    return found


def _rolled_cross(g: Graph, x: ir.Value, y: ir.Value, axis: int) -> ir.Value:
    """Return the cross product along an axis of any length, even of fewer than three elements."""
    a, b = promote_operands(g, x, y)
    (a1, a2), (b1, b2) = ([roll(g, v, [-by], [axis]) for by in (1, 2)] for v in (a, b))
    return g.Sub(g.Mul(a1, b2), g.Mul(a2, b1))


def _dims_of_three(g: Graph, x: ir.Value) -> list[int]:
    """Return the first dim of length 3, and those before it that may have that length, in order."""
    found = []
    for axis, length in enumerate(g.shape(x)):
        if length == 3 or not isinstance(length, int):
            found.append(axis)
        if length == 3:
            break
    if not found:
        raise Unsupported("cross of tensors without a dim of length 3")
    return found


@torch_op("kron")
def kron(g, x, y):
    """Every element of x times the whole of y."""
    a, b = promote_operands(g, x, y)
    rank = max(g.rank(a), g.rank(b))
    a, b = (g.Unsqueeze(v, list(range(rank - g.rank(v)))) if g.rank(v) < rank else v for v in (a, b))
    lengths = [(size(g, a, i), size(g, b, i)) for i in range(rank)]
    a = g.Unsqueeze(a, [2 * i + 1 for i in range(rank)]) if rank else a
    b = g.Unsqueeze(b, [2 * i for i in range(rank)]) if rank else b
    return reshape(g, mul(g, a, b), [times(g, *pair) for pair in lengths]) if rank else mul(g, a, b)


@torch_op("linalg_det", "det")
def det(g, x):
    return g.Det(x)


@torch_op("trace")
def trace(g, x):
    from .reduce import sum_
    from .shape import diagonal

    return sum_(g, diagonal(g, x))


@torch_op("dist")
def dist(g, x, y, p=2):
    from .reduce import vector_norm

    return vector_norm(g, g.Sub(*promote_operands(g, x, y)), p)


@torch_op("pairwise_distance")
def pairwise_distance(g, x1, x2, p=2, eps=1e-6, keepdim=False):
    from .reduce import vector_norm

    gap = g.Add(g.Sub(x1, x2), constant_like(g, eps, x1))
    return vector_norm(g, gap, p, [g.rank(gap) - 1], keepdim)


@torch_op("cdist", "_cdist_forward")
def cdist(g, x1, x2, p=2, compute_mode=None):
    """Norms of all differences between rows; compute_mode only affects how PyTorch computes them."""
    from .reduce import vector_norm

    gap = g.Sub(g.Unsqueeze(x1, [g.rank(x1) - 1]), g.Unsqueeze(x2, [g.rank(x2) - 2]))
    return vector_norm(g, gap, p, [g.rank(gap) - 1])


def _pairs(g: Graph, count: int | ir.Value) -> tuple[Any, Any]:
    """Return the indices of all pairs of `count` rows, ordered by the first."""
    if isinstance(count, int):
        return np.triu_indices(count, 1)
    place = arange(g, count)
    before = g.NonZero(g.Less(g.Unsqueeze(place, [1]), place))
    return g.Gather(before, 0, axis=0), g.Gather(before, 1, axis=0)


@torch_op("pdist", "_pdist_forward")
def pdist(g, x, p=2.0):
    """Distances of all pairs of rows."""
    from .reduce import vector_norm

    first, second = _pairs(g, size(g, x, 0))
    return vector_norm(g, g.Sub(g.Gather(x, first, axis=0), g.Gather(x, second, axis=0)), p, [1])


# -- groups of rows with a matrix per group, as in mixtures of experts ------------------------------------------------


@torch_op("_grouped_mm")
def _grouped_mm(g, x, mat2, offs=None, bias=None):
    if offs is None or g.rank(x) != 2 or g.rank(mat2) != 3:
        raise Unsupported("a grouped product of other than rows [rows, k] in groups with matrices [groups, k, n]")
    out = grouped_matmul(g, x, mat2, offs)
    return out if bias is None else g.Add(out, bias)


@torch_op("transformers::grouped_mm_fallback")
def grouped_mm_fallback(g, input, weight, offs):
    return grouped_matmul(g, input, weight, offs)


def grouped_matmul(g: Graph, x: ir.Value, matrices: ir.Value, ends: ir.Value) -> ir.Value:
    """Return x [rows, k] times matrices [groups, k, n]: group i has the rows from ends[i - 1] up to ends[i].

    Rows after the last group are zero.
    """
    groups = g.shape(matrices)[0]
    if not isinstance(groups, int):
        raise Unsupported("a grouped product whose number of groups is not known")
    ends = cast(g, ends, ir.DataType.INT64)
    start = g.const(np.array([0]))
    parts = []
    for i, matrix in enumerate(_group_matrices(g, matrices, groups)):
        end = g.Slice(ends, [i], [i + 1])
        parts.append(g.MatMul(g.Slice(x, start, end, [0]), matrix))
        start = end
    missing = g.Sub(vector(g, [size(g, x, 0)]), start)
    pads = g.Concat(g.const(np.zeros(2, np.int64)), missing, g.const(np.zeros(1, np.int64)), axis=0)
    return g.Pad(g.Concat(*parts, axis=0), pads)


def _group_matrices(g: Graph, matrices: ir.Value, groups: int) -> Iterator[ir.Value]:
    """Yield the matrices one by one, as views of a weight, transposed or not, so that nothing is copied at run time."""
    weight = _constant_content(matrices)
    for i in range(groups):
        if weight is None:
            yield g.Gather(matrices, g.const(i), axis=0)
        else:
            yield g.initializer(f"{matrices.name}.{i}", _group_view(weight, i))


def _constant_content(value: ir.Value) -> ir.TensorProtocol | None:
    node = value.producer()
    if node is not None and node.op_type == "Transpose" and node.inputs[0] is not None:
        tensor = node.inputs[0].const_value
        return None if tensor is None else transposed_tensor(tensor, list(node.attributes["perm"].as_ints()))
    return value.const_value


def _group_view(weight: ir.TensorProtocol, i: int) -> ir.TensorProtocol:
    return lazy_tensor(weight.dtype, dims_of(weight)[1:], lambda: weight.numpy()[i])
