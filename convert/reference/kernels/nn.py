"""Reference kernels of convolutions, pools, matrix products and normalizations, in the dtype of their inputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from convert.reference.table import kernel

Array = Any

# Patches of a convolution are gathered into one matrix of at most this many bytes; larger ones run one tap at a time.
_PATCHES = 1 << 28

_CACHED = 1 << 18
"""Bytes that stay in a core's own cache while a depthwise convolution goes over them tap by tap."""


@kernel("MatMul")
def matmul(count: int, a: Array, b: Array) -> Array:
    return np.matmul(a, b)


@kernel("Gemm")
def gemm(
    count: int, a: Array, b: Array, c: Array = None, *, alpha: float, beta: float, transA: int, transB: int
) -> Array:
    y = (a.T if transA else a) @ (b.T if transB else b)
    y = y if alpha == 1.0 else (y * alpha).astype(a.dtype)
    return y if c is None else y + (c if beta == 1.0 else (c * beta).astype(a.dtype))


@kernel("Einsum")
def einsum(count: int, *inputs: Array, equation: str) -> Array:
    return np.einsum(equation, *inputs, optimize=len(inputs) > 1)


@kernel("Conv")
def conv(
    count: int,
    x: Array,
    w: Array,
    b: Array = None,
    *,
    auto_pad: str,
    dilations: Any,
    group: int,
    kernel_shape: Any,
    pads: Any,
    strides: Any,
) -> Array:
    """Conv-22: y[n, o] = Σ w[o, c, k] · x[n, c, s·i + d·k − p], over the windows of the padded input."""
    taps = w.shape[2:]
    rank = len(taps)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    before, after = padding(x.shape[2:], taps, strides, dilations, pads, auto_pad)
    padded = _pad(x, before, after, 0)
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in _strict_zip(padded.shape[2:], taps, strides, dilations)]
    images, channels = x.shape[0], w.shape[1]
    out = np.zeros((images, group, w.shape[0] // group, int(np.prod(sizes))), x.dtype)
    weights = w.reshape(group, w.shape[0] // group, channels, -1)
    grouped = padded.reshape(images, group, channels, *padded.shape[2:])
    windows = [grouped[(..., *where)] for where in _tap_slices(taps, sizes, strides, dilations)]
    if len(windows) == 1 and channels > 1:
        np.matmul(weights[..., 0], windows[0].reshape(images, group, channels, out.shape[-1]), out)
    elif channels == 1:
        for n in range(images):
            _add_depthwise(out[n], weights[:, :, 0], [window[n, :, 0] for window in windows])
    else:
        _add_products(out, weights, windows)
    y = out.reshape(images, w.shape[0], *sizes)
    if b is not None:
        y += b.reshape(-1, *[1] * rank)
    return y


def _add_depthwise(out: Array, weights: Array, windows: Sequence[Array]) -> None:
    """Add to `out` [group, each, pixels] the products of `weights` [group, each, taps] and the windows [group, *sizes].

    Processes as many channels at a time as fit into a core's cache, because each tap goes over all of them.
    """
    group, each, pixels = out.shape
    at_once = max(1, _CACHED // max(1, each * pixels * out.itemsize))
    for first in range(0, group, at_once):
        some = slice(first, first + at_once)
        part = out[some]
        product = np.empty_like(part)
        for t, window in enumerate(windows):
            np.multiply(weights[some, :, t, None], window[some].reshape(len(part), 1, pixels), product)
            part += product


def _add_products(out: Array, weights: Array, windows: Sequence[Array]) -> None:
    """Add to `out` [images, group, each, pixels] the products of `weights` [group, each, channels, taps] and windows.

    The windows are [images, group, channels, *sizes]. Their patches are gathered into one matrix, reused for every
    image, unless it would be too large.
    """
    images, group, each, pixels = out.shape
    channels, taps = weights.shape[2:]
    if taps * windows[0][:1].nbytes > _PATCHES:
        for n, (t, window) in itertools.product(range(images), enumerate(windows)):
            out[n] += weights[..., t] @ window[n].reshape(group, channels, pixels)
        return
    rows = weights.reshape(group, each, channels * taps)
    patches = np.empty((group, channels, taps, *windows[0].shape[3:]), out.dtype)
    for n in range(images):
        for t, window in enumerate(windows):
            patches[:, :, t] = window[n]
        np.matmul(rows, patches.reshape(group, channels * taps, pixels), out[n])


@kernel("ConvTranspose")
def conv_transpose(
    count: int,
    x: Array,
    w: Array,
    b: Array = None,
    *,
    auto_pad: str,
    dilations: Any,
    group: int,
    kernel_shape: Any,
    output_padding: Any,
    output_shape: Any,
    pads: Any,
    strides: Any,
) -> Array:
    """ConvTranspose-22, the transpose of Conv: each input element adds w to its window."""
    taps = w.shape[2:]
    rank = len(taps)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    full = [
        s * (n - 1) + e + d * (k - 1) + 1 for n, k, s, d, e in _strict_zip(x.shape[2:], taps, strides, dilations, extra)
    ]
    before, sizes = _transposed_size(x.shape[2:], full, strides, pads, auto_pad, output_shape)
    images, each = x.shape[0], w.shape[1]
    canvas: Array = np.zeros(
        (images, group, each, *[max(f, p + s) for f, p, s in _strict_zip(full, before, sizes)]), x.dtype
    )
    grouped = x.reshape(images, group, -1, int(np.prod(x.shape[2:])))
    weights = w.reshape(group, -1, each, int(np.prod(taps)))
    for t, where in enumerate(_tap_slices(taps, x.shape[2:], strides, dilations)):
        part = np.swapaxes(weights[..., t], 1, 2) @ grouped
        canvas[(..., *where)] += part.reshape(images, group, each, *x.shape[2:])
    cut = tuple(slice(p, p + s) for p, s in zip(before, sizes, strict=True))
    y = canvas[(..., *cut)].reshape(images, group * each, *sizes)
    return y if b is None else y + b.reshape(-1, *[1] * rank)


@kernel("Col2Im")
def col2im(
    count: int, x: Array, image_shape: Array, block_shape: Array, *, dilations: Any, pads: Any, strides: Any
) -> Array:
    """Return the sum of overlapping blocks [n, channels · elements of a block, blocks] at their positions (ONNX
    Col2Im-18).
    """
    dims, taps = [int(n) for n in image_shape], [int(n) for n in block_shape]
    rank = len(dims)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    padded = [a + n + b for a, n, b in _strict_zip(pads[:rank], dims, pads[rank:])]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in _strict_zip(padded, taps, strides, dilations)]
    blocks = x.reshape(x.shape[0], x.shape[1] // int(np.prod(taps)), int(np.prod(taps)), *sizes)
    canvas: Array = np.zeros((*blocks.shape[:2], *padded), x.dtype)
    for t, where in enumerate(_tap_slices(taps, sizes, strides, dilations)):
        canvas[(..., *where)] += blocks[:, :, t]
    return canvas[(..., *(slice(a, a + n) for a, n in zip(pads[:rank], dims, strict=True)))]


def padding(
    dims: Sequence[int], taps: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Any, auto_pad: str
) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis.

    SAME_* pads for ⌈n/s⌉ windows; an odd pad is after (SAME_UPPER) or before (SAME_LOWER).
    """
    rank = len(taps)
    if auto_pad in ("NOTSET", "", None):
        pads = pads or [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    if auto_pad == "VALID":
        return [0] * rank, [0] * rank
    total = [
        max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n) for n, k, s, d in _strict_zip(dims, taps, strides, dilations)
    ]
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def _transposed_size(
    dims: Sequence[int], full: list[int], strides: Any, pads: Any, auto_pad: str, output_shape: Any
) -> tuple[list[int], list[int]]:
    rank = len(dims)
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(dims, strides, strict=True)]
        # SAME removes elements and never adds any, as in ONNX's inference and onnxruntime.
        sizes = list(output_shape[-rank:]) if output_shape else list(map(min, full, wanted))
        total = [max(0, f - s) for f, s in zip(full, sizes, strict=True)]
        upper = auto_pad == "SAME_UPPER"
        return [t // 2 if upper else t - t // 2 for t in total], sizes
    pads = pads if pads and auto_pad in ("NOTSET", "", None) else [0] * 2 * rank
    return list(pads[:rank]), [f - a - b for f, a, b in zip(full, pads[:rank], pads[rank:], strict=True)]


def _tap_slices(
    taps: Sequence[int], sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[slice, ...]]:
    """Yield the slice of the padded input that each kernel position reads."""
    for position in itertools.product(*map(range, taps)):
        starts = [k * d for k, d in zip(position, dilations, strict=True)]
        yield tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in _strict_zip(starts, sizes, strides))


def _pad(x: Array, before: Sequence[int], after: Sequence[int], fill: Any) -> Array:
    if not any(before) and not any(after):
        return x
    widths = [(0, 0)] * (x.ndim - len(before)) + [(max(0, a), max(0, b)) for a, b in zip(before, after, strict=True)]
    return np.pad(x, widths, constant_values=fill)


def _strict_zip(*sequences: Any) -> Iterator[Any]:
    return zip(*sequences, strict=True)


@kernel("BatchNormalization")
def batch_normalization(
    count: int,
    x: Array,
    scale: Array,
    shift: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float,
    momentum: float,
    training_mode: int,
) -> Any:
    by_channel = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    old_mean, old_var = mean, var
    if training_mode:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean, var = x.mean(axes), x.var(axes)
    factor = scale / np.sqrt(var + epsilon)
    y = x - mean.reshape(by_channel)
    # If the dtypes differ, the result needs the wider one, as in a plain sum.
    y = np.multiply(y, factor.reshape(by_channel), out=y if y.dtype == factor.dtype else None)
    y = np.add(y, shift.reshape(by_channel), out=y if y.dtype == shift.dtype else None).astype(x.dtype, copy=False)
    if not training_mode or count == 1:
        return y
    return y, old_mean * momentum + mean * (1 - momentum), old_var * momentum + var * (1 - momentum)


@kernel("LayerNormalization")
def layer_normalization(
    count: int, x: Array, scale: Array, bias: Array = None, *, axis: int, epsilon: float, stash_type: int
) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + epsilon)
    y = (x - mean) * inverse * scale
    return (y if bias is None else y + bias, mean, inverse)[:count]


@kernel("RMSNormalization")
def rms_normalization(count: int, x: Array, scale: Array, *, axis: int, epsilon: float, stash_type: int) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x / np.sqrt(np.square(x).mean(axes, keepdims=True) + epsilon) * scale


@kernel("InstanceNormalization")
def instance_normalization(count: int, x: Array, scale: Array, bias: Array, *, epsilon: float) -> Array:
    return _normalize(x, tuple(range(2, x.ndim)), epsilon) * _broadcast_channels(scale, x) + _broadcast_channels(
        bias, x
    )


@kernel("GroupNormalization")
def group_normalization(
    count: int, x: Array, scale: Array, bias: Array, *, epsilon: float, num_groups: int, stash_type: int
) -> Array:
    normal = _normalize(x.reshape(x.shape[0], num_groups, -1), (2,), epsilon).reshape(x.shape)
    return normal * _broadcast_channels(scale, x) + _broadcast_channels(bias, x)


@kernel("MeanVarianceNormalization")
def mean_variance_normalization(count: int, x: Array, *, axes: Any) -> Array:
    axes = tuple(axes or (0, 2, 3))
    # ONNX's function body adds 1e-9 to the standard deviation.
    return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)


@kernel("LRN")
def lrn(count: int, x: Array, *, alpha: float, beta: float, bias: float, size: int) -> Array:
    """LRN-13: x / (bias + alpha/size · Σ x²)^beta over `size` neighbouring channels."""
    most = max(x.shape[1] - 1, 0)  # no more than the existing channels
    before, after = min((size - 1) // 2, most), min(size - 1 - (size - 1) // 2, most)
    squares = np.pad(np.square(x), [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(before + 1 + after))
    return x / (bias + alpha / size * total) ** beta


@kernel("LpNormalization")
def lp_normalization(count: int, x: Array, *, axis: int, p: int) -> Array:
    norm = np.sum(np.abs(x) ** p, axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, x / norm).astype(x.dtype)


def _normalize(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + epsilon)


def _broadcast_channels(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))
