"""Operators that create tensors: constants, ranges, triangles, windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.metadata import DIM_KEY
from convert.graph.tensors import rounded_tensor

from ..common.complexes import ComplexPair, pair_dtype, part_dtype, parts_of
from ..common.sizes import arange as places_up_to
from ..common.sizes import vector
from ..common.values import as_value, cast, onnx_dtype, result_dtype, torch_dtype
from ..releases import RELEASE
from ..rules import torch_op

# Maximum number of elements of a stored constant; larger ones are computed from their shape.
_SMALL = 256


def filled_tensor(g: Graph, size: Any, number: Any, dtype: torch.dtype) -> Any:
    """Return a tensor of `size` (ints, possibly run-time ones) filled with `number`; a pair if complex."""
    if dtype.is_complex:
        return ComplexPair(*(filled_tensor(g, size, part, part_dtype(dtype)) for part in parts_of(number)))
    target = onnx_dtype(dtype)
    if isinstance(number, ir.Value):
        return _annotate_shape(g, g.Expand(cast(g, number, target), vector(g, size)), size)
    if isinstance(number, float) and not dtype.is_floating_point and dtype != torch.bool:
        number = int(number)
    if all(isinstance(d, int) for d in size) and math.prod(size) <= _SMALL:
        return g.const(_rounded_tensor(np.full(size, number), target))
    return _annotate_shape(
        g, g.ConstantOfShape(vector(g, size), value=_rounded_tensor(np.array([number]), target)), size
    )


def _annotate_shape(g: Graph, x: ir.Value, size: Any) -> ir.Value:
    """Return x with its known dims, which inference cannot derive from a vector of sizes."""
    if isinstance(size, ir.Value):
        return x
    return g.facts(x, shape=[d if isinstance(d, int) else d.meta.get(DIM_KEY) for d in size])


def _rounded_tensor(exact: np.ndarray, dtype: ir.DataType) -> ir.TensorProtocol:
    """Return numbers in `dtype`; the float64 run uses the unrounded ones."""
    floats = exact.dtype == np.float64 and dtype.is_floating_point()
    return rounded_tensor(exact, dtype) if floats else ir.Tensor(exact.astype(dtype.numpy()), dtype=dtype)


@torch_op("full", "complex::full")
def full(g, size, fill_value, *, dtype=None):
    return filled_tensor(g, size, fill_value, dtype or result_dtype(g, fill_value))


@torch_op("zeros", "empty", "empty_strided", "empty_permuted")
def zeros(g, size, layout=None, *, dtype=None):
    """Zeros; `layout` (strides or memory order) has no effect in the graph."""
    return filled_tensor(g, size, 0, dtype or torch.get_default_dtype())


@torch_op("ones")
def ones(g, size, *, dtype=None):
    return filled_tensor(g, size, 1, dtype or torch.get_default_dtype())


def full_of_shape(g: Graph, x: ir.Value | ComplexPair, number: Any, dtype: torch.dtype | None) -> Any:
    """Return a tensor shaped like `x`, filled with `number`; a pair if complex."""
    if isinstance(x, ComplexPair):
        return full_of_shape(g, x.real, number, dtype or pair_dtype(g, x))
    dtype = dtype or torch_dtype(g, x)
    if x.shape is not None and x.shape.is_static():
        return filled_tensor(g, list(g.shape(x)), number, dtype)
    if dtype.is_complex:
        return ComplexPair(*(full_of_shape(g, x, part, part_dtype(dtype)) for part in parts_of(number)))
    return g.Expand(as_value(g, number, dtype), g.Shape(x))


def _dtype_of(g: Graph, x: ir.Value | ComplexPair) -> torch.dtype:
    return pair_dtype(g, x) if isinstance(x, ComplexPair) else torch_dtype(g, x)


@torch_op("full_like", "complex::full_like")
def full_like(g, x, fill_value, *, dtype=None):
    return full_of_shape(g, x, fill_value, dtype)


@torch_op("zeros_like", "empty_like", "complex::zeros_like", "complex::empty_like")
def zeros_like(g, x, *, dtype=None):
    return full_of_shape(g, x, 0, dtype)


@torch_op("ones_like", "complex::ones_like")
def ones_like(g, x, *, dtype=None):
    return full_of_shape(g, x, 1, dtype)


@torch_op("new_zeros", "new_empty", "new_empty_strided", "complex::new_zeros", "complex::new_empty")
def new_zeros(g, x, size, stride=None, *, dtype=None):
    return filled_tensor(g, size, 0, dtype or _dtype_of(g, x))


@torch_op("new_ones", "complex::new_ones")
def new_ones(g, x, size, *, dtype=None):
    return filled_tensor(g, size, 1, dtype or _dtype_of(g, x))


@torch_op("new_full", "complex::new_full")
def new_full(g, x, size, fill_value, *, dtype=None):
    return filled_tensor(g, size, fill_value, dtype or _dtype_of(g, x))


@torch_op("fill", "complex::fill")
def fill(g, x, value):
    return full_of_shape(g, x, value, None)


@torch_op("copy")
def copy(g, x, src):
    source = cast(g, src, g.dtype(x))
    return source if g.shape(source) == g.shape(x) and None not in g.shape(x) else g.Expand(source, g.dims(x))


@torch_op("zero", "complex::zero")
def zero(g, x):
    return full_of_shape(g, x, 0, None)


@torch_op("arange")
def arange(g, end, *, dtype=None):
    return _emit_arange(g, 0, end, 1, dtype)


@torch_op("arange.start", "arange.start_step")
def arange_from(g, start, end, step=1, *, dtype=None):
    return _emit_arange(g, start, end, step, dtype)


def _emit_arange(g: Graph, start: Any, end: Any, step: Any, dtype: torch.dtype | None) -> ir.Value:
    """Return start, start + step … below end, computed in int64 or float64 and cast, as in PyTorch's kernel.

    PyTorch counts integers and then truncates start and step; before 2.14 it truncates all three to int64 first.
    """
    numbers = start, end, step
    if dtype == torch.int64 and RELEASE < (2, 14):
        numbers = start, end, step = _truncated(g, start), _truncated(g, end), _truncated(g, step)
    whole = result_dtype(g, *numbers) == torch.int64
    dtype = dtype or (torch.int64 if whole else torch.get_default_dtype())
    narrow = not whole and not dtype.is_floating_point
    if not any(isinstance(n, ir.Value) for n in numbers):
        count = max(math.ceil((end - start) / step), 0)
        if narrow:
            start, step = int(start), int(step)
        array = start + np.arange(count, dtype=np.int64 if whole or narrow else np.float64) * step
        return g.const(_rounded_tensor(array, onnx_dtype(dtype)))
    wide = torch.int64 if whole else torch.float64
    if narrow:
        first, last, by = (as_value(g, n, wide) for n in numbers)
        count = g.Max(cast(g, g.Ceil(g.Div(g.Sub(last, first), by)), torch.int64), 0)
        steps = g.Mul(places_up_to(g, count), cast(g, by, torch.int64))
        return cast(g, g.Add(cast(g, first, torch.int64), steps), dtype)
    return cast(g, g.Range(*(as_value(g, n, wide) for n in numbers)), dtype)


def _truncated(g: Graph, number: Any) -> Any:
    return cast(g, number, torch.int64) if isinstance(number, ir.Value) else int(number)


@torch_op("linspace")
def linspace(g, start, end, steps, *, dtype=None):
    """linspace, where each half is counted from its own end, as in PyTorch."""
    dtype = dtype or torch.get_default_dtype()
    if isinstance(steps, int) and not any(isinstance(n, ir.Value) for n in (start, end)):
        return g.const(_spaced_tensor(lambda wide: torch.linspace(start, end, steps, dtype=wide), dtype))
    wide = dtype if dtype.is_floating_point else torch.float32
    first, last = as_value(g, start, wide), as_value(g, end, wide)
    if isinstance(steps, int) and steps < 2:
        return cast(g, g.Expand(first, [steps]), dtype)
    if not dtype.is_floating_point:
        first, last = (g.Cast(g.Cast(v, to=onnx_dtype(dtype)), to=onnx_dtype(wide)) for v in (first, last))
    count = as_value(g, steps, torch.int64)
    place = places_up_to(g, steps)
    after = g.Sub(g.Sub(count, 1), place)
    step = g.Div(g.Sub(last, first), cast(g, g.Max(g.Sub(count, 1), 1), wide))
    rising = g.Add(first, g.Mul(step, cast(g, place, wide)))
    falling = g.Sub(last, g.Mul(step, cast(g, after, wide)))
    # A single step is the start.
    early = g.Less(place, g.Max(g.Div(count, 2), 1))
    return cast(g, g.Where(early, rising, falling), dtype)


@torch_op("logspace")
def logspace(g, start, end, steps, base=10.0, *, dtype=None):
    dtype = dtype or torch.get_default_dtype()
    if isinstance(steps, int) and not any(isinstance(n, ir.Value) for n in (start, end)):
        return g.const(_spaced_tensor(lambda wide: torch.logspace(start, end, steps, base, dtype=wide), dtype))
    powers = linspace(g, start, end, steps, dtype=dtype)
    wide = dtype if dtype.is_floating_point else torch.float32
    return cast(g, g.Pow(as_value(g, base, wide), cast(g, powers, wide)), dtype)


def _spaced_tensor(make: Callable[[torch.dtype], torch.Tensor], dtype: torch.dtype) -> ir.TensorProtocol:
    """Return a constant of `dtype` with the numbers that PyTorch creates in it, and in float64 for the float64 run."""
    if not dtype.is_floating_point:
        return ir.Tensor(make(dtype).numpy())
    content = make(dtype).double().numpy()
    return rounded_tensor(make(torch.float64).numpy(), onnx_dtype(dtype), content)


@torch_op("eye", "eye.m")
def eye(g, n, m=None, *, dtype=None):
    m = n if m is None else m
    if not isinstance(n, int) or not isinstance(m, int):
        shape = g.ConstantOfShape(vector(g, [n, m]), value=ir.Tensor(np.zeros(1, np.float32)))
        return cast(g, g.EyeLike(shape), dtype or torch.get_default_dtype())
    return g.const(np.eye(n, m).astype(onnx_dtype(dtype or torch.get_default_dtype()).numpy()))


def _triangle_rule(upper: int) -> Any:
    def rule(g: Graph, x: ir.Value, diagonal: int = 0) -> ir.Value:
        return g.Trilu(x, diagonal, upper=upper)

    return rule


torch_op.same(_triangle_rule, tril=0, triu=1)


@torch_op("tril_indices")
def tril_indices(g, row, col, offset=0, *, dtype=torch.int64):
    return g.const(np.stack(np.tril_indices(row, offset, col)).astype(onnx_dtype(dtype or torch.int64).numpy()))


@torch_op("triu_indices")
def triu_indices(g, row, col, offset=0, *, dtype=torch.int64):
    return g.const(np.stack(np.triu_indices(row, offset, col)).astype(onnx_dtype(dtype or torch.int64).numpy()))


@torch_op("one_hot")
def one_hot(g, x, num_classes=-1):
    if num_classes == -1:
        num_classes = g.Add(g.ReduceMax(x, keepdims=0), 1)
    row = g.rank(x) == 0
    out = g.OneHot(g.Reshape(x, [1]) if row else x, vector(g, num_classes), np.array([0, 1], dtype=np.int64), axis=-1)
    return g.Squeeze(out, [0]) if row else out


# -- windows ----------------------------------------------------------------------------------------------------------


@torch_op("hann_window", "hann_window.periodic")
def hann_window(g, window_length, periodic=True, *, dtype=None):
    return _window(g, torch.hann_window, dtype, window_length, periodic)


@torch_op("bartlett_window", "bartlett_window.periodic")
def bartlett_window(g, window_length, periodic=True, *, dtype=None):
    return _window(g, torch.bartlett_window, dtype, window_length, periodic)


@torch_op("blackman_window", "blackman_window.periodic")
def blackman_window(g, window_length, periodic=True, *, dtype=None):
    return _window(g, torch.blackman_window, dtype, window_length, periodic)


@torch_op(
    "hamming_window", "hamming_window.periodic", "hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta"
)
def hamming_window(g, window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None):
    return _window(g, torch.hamming_window, dtype, window_length, periodic, alpha, beta)


@torch_op("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta")
def kaiser_window(g, window_length, periodic=True, beta=12.0, *, dtype=None):
    return _window(g, torch.kaiser_window, dtype, window_length, periodic, beta)


def _window(g: Graph, function: Callable[..., Any], dtype: torch.dtype | None, length: Any, *rest: Any) -> ir.Value:
    """Return a window; one of known length is a constant, rounded from PyTorch's own in float64."""
    if not all(isinstance(number, (bool, int, float)) for number in (length, *rest)):
        raise Unsupported("the length of a window is known only when the model runs")
    exact = function(length, *rest, dtype=torch.float64).numpy()
    return g.const(_rounded_tensor(exact, onnx_dtype(dtype or torch.get_default_dtype())))
