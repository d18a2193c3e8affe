"""Transposed convolutions as convolutions: zeros between the input elements, and a flipped kernel."""

from __future__ import annotations

import numpy as np

from convert.errors import Unsupported
from convert.semantics.windows import Window

from ..blob import Blob
from ..net import Net
from .padding import crop, pad_constant, slice_axis
from .shapes import concat, full_like, reshape_fixed, transpose


def transpose_by_convolution(
    net: Net, x: Blob, w: Blob, b: Blob | None, made: Window, extra: list[int], group: int
) -> Blob:
    """Return a transposed convolution of any rank, dilation and pads. The kernel, [in, out / group, …], may be
    computed.
    """
    n = made.rank
    for i in range(n):
        x = _insert_zeros(net, x, 2 + i, made.strides[i])
    around = [r - 1 - p for r, p in zip(made.spans, made.before, strict=True)]
    around += [r - 1 - p + e for r, p, e in zip(made.spans, made.after, extra, strict=True)]
    full = [0, 0, *around[:n], 0, 0, *around[n:]]
    if min(around) < 0 or any(p >= r for p, r in zip(around, made.spans * 2, strict=True)):
        x, around = pad_constant(net, crop(net, x, full), full, 0.0), [0] * 2 * n
    operands = [x, _flip_kernel(net, w, group), *([] if b is None else [b])]
    return net.op(
        "Conv",
        operands,
        kernels=list(made.kernel),
        strides=[1] * n,
        pads=around,
        dilations=list(made.dilations),
        group=group,
    )


def _insert_zeros(net: Net, x: Blob, axis: int, stride: int) -> Blob:
    """Insert `stride` − 1 zeros between the elements along an axis: pad a new dim, and merge it into the axis."""
    if stride == 1:
        return x
    size, rank = net.shape(x)[axis], net.rank(x)
    apart = net.facts(net.ExpandDims(x, dims=[axis + 1]), x.dtype,
                      (*net.shape(x)[: axis + 1], 1, *net.shape(x)[axis + 1 :]))  # fmt: skip
    zeros = full_like(net, apart, 0.0, x.dtype)
    wide = concat(net, [apart, *[zeros] * (stride - 1)], axis + 1)
    shape = list(net.shape(x))
    shape[axis] = size * stride if isinstance(size, int) else None
    if sum(not isinstance(d, int) for d in shape[1:]) > 1 or (rank > axis + 1 and None in shape[axis + 1 :]):
        raise Unsupported("a transposed convolution of this kind over dims that are not fixed")
    target = [0 if i < axis else d if isinstance(d, int) else -1 for i, d in enumerate(shape)]
    joined = net.facts(net.Reshape(wide, shape=target, outputs=2)[0], x.dtype, shape)
    # The last element is followed by no zeros.
    return slice_axis(net, joined, axis, 0, -stride)


def _flip_kernel(net: Net, w: Blob, group: int) -> Blob:
    """Return [in, out / group, …] as [out, in / group, …] with every spatial axis flipped."""
    sizes = [d for d in net.shape(w) if isinstance(d, int)]
    if len(sizes) < net.rank(w):
        raise Unsupported("a transposed convolution with a kernel whose size is not fixed")
    inner, outer, *kernel = sizes
    for i, size in enumerate(kernel):
        if size > 1:
            order = net.const(np.arange(size, dtype=np.int64)[::-1].copy())
            w = net.facts(net.Gather(w, order, axis=2 + i), w.dtype, sizes)
    split = reshape_fixed(net, w, [group, inner // group, outer, *kernel])
    moved = transpose(net, split, [0, 2, 1, *range(3, 3 + len(kernel))])
    return reshape_fixed(net, moved, [group * outer, inner // group, *kernel])
