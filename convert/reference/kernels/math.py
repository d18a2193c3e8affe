"""Reference kernels of functions of one element or one axis, where ONNX's own round to float32 or are slow."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from convert.graph import long_double
from convert.reference.table import kernel

Array = Any


@kernel("Erf")
def erf(count: int, x: Array) -> Array:
    if x.dtype == long_double.WIDE:
        return long_double.erf(x)
    from scipy import special  # importing scipy takes 0.25 s of CPU time, which most graphs need not pay

    return special.erf(x).astype(x.dtype, copy=False)


@kernel("Det")
def det(count: int, x: Array) -> Array:
    return np.asarray(long_double.determinant(x) if x.dtype == long_double.WIDE else np.linalg.det(x))


@kernel("Sigmoid")
def sigmoid(count: int, x: Array) -> Array:
    e = np.asarray(np.abs(x))
    np.exp(np.negative(e, out=e), out=e)  # never overflows
    y = np.where(x < 0, e, np.ones((), e.dtype))
    e += 1
    y /= e
    return y


@kernel("Relu")
def relu(count: int, x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


@kernel("Clip")
def clip(count: int, x: Array, low: Array = None, high: Array = None) -> Array:
    """Clip-13. If the lower bound exceeds the upper bound, the result is the upper bound."""
    return x if low is None and high is None else np.clip(x, low, high)


@kernel("Gelu")
def gelu(count: int, x: Array, *, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(count, x * np.sqrt(0.5)))


@kernel("Mish")
def mish(count: int, x: Array) -> Array:
    return x * np.tanh(np.logaddexp(0, x))


@kernel("Softplus")
def softplus(count: int, x: Array) -> Array:
    return np.logaddexp(0, x).astype(x.dtype)


@kernel("Softsign")
def softsign(count: int, x: Array) -> Array:
    return x / (1 + np.abs(x))


@kernel("HardSigmoid")
def hard_sigmoid(count: int, x: Array, *, alpha: float, beta: float) -> Array:
    return np.clip(x * alpha + beta, 0, 1).astype(x.dtype)


@kernel("HardSwish")
def hard_swish(count: int, x: Array) -> Array:
    return x * np.clip(x / 6 + 0.5, 0, 1)


@kernel("Selu")
def selu(count: int, x: Array, *, alpha: float, gamma: float) -> Array:
    return (gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))).astype(x.dtype)


@kernel("Elu")
def elu(count: int, x: Array, *, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))).astype(x.dtype)


@kernel("Celu")
def celu(count: int, x: Array, *, alpha: float) -> Array:
    return (np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))).astype(x.dtype)


def at_least_float32(x: Array) -> Array:
    """Return numbers of 16 bits in float32, as runtimes sum them; NumPy's sums of bfloat16 round every step."""
    return x.astype(np.float32) if x.dtype == np.float16 or x.dtype == ml_dtypes.bfloat16 else x


@kernel("Softmax")
def softmax(count: int, x: Array, *, axis: int) -> Array:
    wide = at_least_float32(x)
    powers = wide - wide.max(axis, keepdims=True, initial=-np.inf)
    np.exp(powers, out=powers)
    powers /= powers.sum(axis, keepdims=True)
    return powers.astype(x.dtype, copy=False)


@kernel("LogSoftmax")
def log_softmax(count: int, x: Array, *, axis: int) -> Array:
    wide = at_least_float32(x)
    shifted = wide - wide.max(axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))).astype(x.dtype, copy=False)


@kernel("ReduceLogSumExp")
def reduce_log_sum_exp(count: int, x: Array, axes: Array = None, *, keepdims: int, noop_with_empty_axes: int) -> Array:
    if (axes is None or not len(axes)) and noop_with_empty_axes:
        return x
    where = tuple(range(x.ndim)) if axes is None or not len(axes) else tuple(int(a) for a in axes)
    wide = x if x.dtype.kind == "f" else x.astype(np.float64)
    largest = wide.max(where, keepdims=True, initial=-np.inf)
    largest = np.where(np.isinf(largest), 0, largest)
    total = np.log(np.exp(wide - largest).sum(where, keepdims=True)) + largest
    return np.asarray(total if keepdims else total.squeeze(where)).astype(x.dtype)


@kernel("Range")
def number_range(count: int, start: Array, limit: Array, delta: Array) -> Array:
    start, limit, delta = (np.asarray(v).reshape(()) for v in (start, limit, delta))
    steps = max(0, int(np.ceil(np.float64(limit - start) / np.float64(delta))))  # counted as in onnxruntime
    return (start + np.arange(steps, dtype=start.dtype) * delta).astype(start.dtype)


@kernel("GatherElements")
def gather_elements(count: int, x: Array, indices: Array, *, axis: int) -> Array:
    """GatherElements: ONNX's own kernel fails, or repeats the first column, if the axis has more than 32 elements."""
    kept = tuple(slice(None) if d == axis % x.ndim else slice(n) for d, n in enumerate(indices.shape))
    return np.take_along_axis(x[kept], indices, axis)


@kernel("Slice")
def slices(count: int, x: Array, starts: Array, ends: Array, axes: Array | None, steps: Array | None) -> Array:
    """Slice-13: a negative step from before the first element begins with it; ONNX's own kernel returns nothing."""
    numbers = range(len(starts)) if axes is None else axes.tolist()
    place = [slice(None)] * x.ndim
    by = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(numbers, starts.tolist(), ends.tolist(), by, strict=True):
        early = step < 0 and start < 0
        place[axis] = slice(max(start + x.shape[axis], 0) if early else start, end, step)
    return x[tuple(place)]


@kernel("OneHot")
def one_hot(count: int, indices: Array, depth: Array, values: Array, *, axis: int) -> Array:
    """OneHot: the depth may be a tensor of one element, which ONNX's own kernel rejects."""
    depth = int(np.asarray(depth).reshape(()))
    axis = axis % (indices.ndim + 1)
    places = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    steps = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(places.ndim)])
    return np.where(places == steps, values[1], values[0])


@kernel("Pad")
def pad(count: int, x: Array, pads: Array, value: Array | None, axes: Array | None, *, mode: Any) -> Array:
    """Pad: negative pads, which ONNX's own kernel rejects, remove elements before the other pads are added."""
    numbers = list(range(x.ndim)) if axes is None else [int(a) % x.ndim for a in axes]
    before, after = np.zeros(x.ndim, np.int64), np.zeros(x.ndim, np.int64)
    before[numbers], after[numbers] = np.split(np.asarray(pads), 2)
    x = x[tuple(slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, x.shape, strict=True))]
    widths = list(zip(before.clip(0), after.clip(0), strict=True))
    if mode != "constant":
        return np.pad(x, widths, mode=mode)
    return np.pad(x, widths, constant_values=np.zeros((), x.dtype) if value is None else value.reshape(()))


@kernel("Expand")
def expand(count: int, x: Array, shape: Array) -> Array:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(d) for d in shape)))


@kernel("Identity")
def identity(count: int, x: Array) -> Array:
    return x


@kernel("Optional")
def optional(count: int, x: Any, *, type: Any) -> Any:
    """Optional: the element itself; ONNX's own kernel makes a list of it."""
    return x
