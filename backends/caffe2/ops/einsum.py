"""The rule for Einsum: operands are multiplied pairwise, and labels that are no longer needed are summed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ..blob import Blob, Dim
from ..common.dtypes import ARITHMETIC, FLOAT, cast, widen
from ..common.indexing import fixed_dims, strides_of
from ..common.shapes import reshape_fixed, transpose
from ..net import Net
from ..rules import onnx_op

Term = tuple[Blob, str]


@onnx_op("Einsum")
def einsum(net: Net, *xs: Blob, equation: str) -> Blob:
    """Float32 contractions are batched products; others are sums of broadcast products, which take more memory."""
    labels, result = _parse_equation(net, xs, equation)
    kernels = FLOAT if xs[0].dtype in (ir.DataType.FLOAT, ir.DataType.FLOAT16) else ARITHMETIC
    terms = [_take_diagonal(net, widen(net, x, kernels), names) for x, names in zip(xs, labels, strict=True)]
    while len(terms) > 1:
        (a, b), rest = terms[:2], terms[2:]
        wanted = set(result).union(*(names for _, names in rest))
        terms = [_contract(net, a, b, wanted), *rest]
    x, names = _sum_unwanted(net, terms[0], set(result))
    y = transpose(net, x, [names.index(c) for c in result])
    return cast(net, y, xs[0].dtype)


def _parse_equation(net: Net, xs: Sequence[Blob], equation: str) -> tuple[list[str], str]:
    """Return one letter per dim for each operand and the result; dims of `...` get unused capitals."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    counts = [net.rank(x) - len(t.replace("...", "")) for x, t in zip(xs, terms, strict=True)]
    widest = max((n for n, t in zip(counts, terms, strict=True) if "..." in t), default=0)
    dots = "".join(free[:widest])
    labels = [t.replace("...", dots[widest - n :] if n else "") for t, n in zip(terms, counts, strict=True)]
    if not arrow:
        once = sorted(c for c in set("".join(labels)) - set(dots) if "".join(terms).count(c) == 1)
        return labels, dots + "".join(once)
    return labels, right.replace("...", dots)


def _take_diagonal(net: Net, x: Blob, names: str) -> Term:
    """Take the diagonal for a label that an operand has twice."""
    if len(set(names)) == len(names):
        return x, names
    shape = fixed_dims(net, x, "Einsum of a diagonal")
    kept = "".join(dict.fromkeys(names))
    sizes = [shape[names.index(c)] for c in kept]
    grid = np.indices(sizes)
    linear = sum((grid[kept.index(c)] * s for c, s in zip(names, strides_of(shape), strict=True)), np.zeros(sizes, int))
    vector = reshape_fixed(net, x, [int(np.prod(shape))])
    return net.facts(net.Gather(vector, net.const(linear.astype(np.int64))), x.dtype, sizes), kept


def _sum_unwanted(net: Net, term: Term, wanted: set[str]) -> Term:
    """Sum over the labels that are not wanted in the result."""
    x, names = term
    axes = [i for i, c in enumerate(names) if c not in wanted]
    if not axes:
        return term
    shape = [d for i, d in enumerate(net.shape(x)) if i not in axes]
    y = net.op("ReduceSum", [x], axes=axes, keepdims=0)
    return net.facts(y, x.dtype, shape), "".join(c for c in names if c in wanted)


def _contract(net: Net, a: Term, b: Term, wanted: set[str]) -> Term:
    """Return the product of two operands, summed over the shared labels that the result does not have."""
    a, b = _sum_unwanted(net, a, wanted | set(b[1])), _sum_unwanted(net, b, wanted | set(a[1]))
    shared = [c for c in a[1] if c in b[1]]
    batch, inner = [c for c in shared if c in wanted], [c for c in shared if c not in wanted]
    mine, theirs = ([c for c in names if c not in shared] for names in (a[1], b[1]))
    if inner and a[0].dtype == ir.DataType.FLOAT and _same_sizes(net, a, b, shared):
        return _product(net, a, b, batch, mine, inner, theirs)
    order = [*batch, *mine, *theirs, *inner]
    x = net.Mul(_align_dims(net, a, order), _align_dims(net, b, order))
    return _sum_unwanted(net, (x, "".join(order)), wanted)


def _same_sizes(net: Net, a: Term, b: Term, names: list[str]) -> bool:
    """Return whether the operands agree in all shared dims, so that neither broadcasts a dim of 1."""
    return all(net.shape(a[0])[a[1].index(c)] == net.shape(b[0])[b[1].index(c)] for c in names)


def _align_dims(net: Net, term: Term, order: list[str]) -> Blob:
    """Return the operand with its dims in `order`, and dims of 1 for missing labels."""
    x, names = term
    present = [c for c in order if c in names]
    y = transpose(net, x, [names.index(c) for c in present])
    missing = [i for i, c in enumerate(order) if c not in names]
    if not missing:
        return y
    shape: list[Dim] = [net.shape(x)[names.index(c)] if c in names else 1 for c in order]
    return net.facts(net.ExpandDims(y, dims=missing), x.dtype, shape)


def _product(
    net: Net, a: Term, b: Term, batch: list[str], mine: list[str], inner: list[str], theirs: list[str]
) -> Term:
    """Return [batch, own, inner] times [batch, inner, other's], with each group of labels merged into one dim."""
    sizes = {c: d for x, names in (a, b) for c, d in zip(names, net.shape(x), strict=True)}
    left = _group_dims(net, a, [batch, mine, inner], sizes)
    right = _group_dims(net, b, [batch, inner, theirs], sizes)
    if left is None or right is None:
        order = [*batch, *mine, *theirs, *inner]
        x = net.Mul(_align_dims(net, a, order), _align_dims(net, b, order))
        return _sum_unwanted(net, (x, "".join(order)), {*batch, *mine, *theirs})
    y = net.BatchMatMul(left, right)
    names = "".join([*batch, *mine, *theirs])
    shape = [sizes[c] for c in names]
    if all(isinstance(d, int) for d in shape):
        net.facts(y, FLOAT[0], [math.prod(int(str(sizes[c])) for c in g) for g in (batch, mine, theirs)])
        return reshape_fixed(net, y, [int(str(d)) for d in shape]), names
    # Every group has at least one label; empty ones become dims of 1.
    gone = [i for i, g in enumerate((batch, mine, theirs)) if not g]
    return net.facts(net.Squeeze(y, dims=gone) if gone else y, FLOAT[0], shape), names


def _group_dims(net: Net, term: Term, groups: list[list[str]], sizes: dict[str, Dim]) -> Blob | None:
    """Return the operand with one dim per group; None if that would multiply sizes that are not static."""
    x, names = term
    y = transpose(net, x, [names.index(c) for g in groups for c in g])
    if all(isinstance(sizes[c], int) for s in (names,) for c in s) and all(isinstance(d, int) for d in sizes.values()):
        return reshape_fixed(net, y, [math.prod(int(str(sizes[c])) for c in g) for g in groups])
    if any(len(g) > 1 for g in groups):
        return None
    gone = [i for i, g in enumerate(groups) if not g]
    shape: list[Dim] = [sizes[g[0]] if g else 1 for g in groups]
    return net.facts(net.ExpandDims(y, dims=gone) if gone else y, x.dtype, shape)
