"""Discrete Fourier transforms: products with constant matrices, or ONNX's DFT for long or unknown lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.semantics.turns import cos_sin, has_part

from ..common.complexes import ComplexPair, split_parts, stack_parts
from ..common.sizes import axis_of, size, vector
from ..common.values import cast, constant_like
from ..rules import torch_op

LARGEST = 1024
"""Maximum length of a transform that is a product with a square matrix of that length."""


Length = int | ir.Value
"""The length of a dim: an int, or a run-time int64 of rank 0."""


def _count(g: Graph, lengths: Iterable[Length]) -> Length:
    """Return how many elements are transformed at once."""
    known, count = 1, None
    for length in lengths:
        if isinstance(length, int):
            known *= length
        else:
            count = length if count is None else g.Mul(count, length)
    return known if count is None else g.Mul(count, g.const(np.array(known, np.int64)))


def _matmul_along_axis(g: Graph, x: ir.Value, axis: int, matrix: np.ndarray) -> ir.Value:
    """Return x times a constant matrix along one axis."""
    constant, last = rounded_tensor(matrix, g.dtype(x)), g.rank(x) - 1
    if axis == last:
        return g.MatMul(x, constant)
    perm = [i for i in range(last + 1) if i != axis] + [axis]
    return g.Transpose(g.MatMul(g.Transpose(x, perm=perm), constant), perm=[perm.index(i) for i in range(last + 1)])


def _cos_sin_matrices(rows: int, columns: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of 2 pi j k / n."""
    return cos_sin(np.outer(np.arange(rows), np.arange(columns)), n)


def _transform_axis(g: Graph, x: ComplexPair, axis: int, forward: bool) -> ComplexPair:
    """Transform one axis of a complex tensor."""
    n = size(g, x.real, axis)
    if not isinstance(n, int) or n > LARGEST:
        return split_parts(g, _emit_dft(g, stack_parts(g, x), axis, forward, n))
    cos, sin = _cos_sin_matrices(n, n, n)
    sin = sin if forward else -sin
    real = g.Add(_matmul_along_axis(g, x.real, axis, cos), _matmul_along_axis(g, x.imag, axis, sin))
    return ComplexPair(real, g.Sub(_matmul_along_axis(g, x.imag, axis, cos), _matmul_along_axis(g, x.real, axis, sin)))


def _emit_dft(g: Graph, x: ir.Value, axis: int, forward: bool, n: Length, onesided: bool = False) -> ir.Value:
    """Return ONNX's DFT without the division by n in the inverse, which PyTorch leaves to the caller.

    Computed in float64: onnxruntime loses four digits for lengths that are no powers of two.
    """
    wide = cast(g, x, ir.DataType.DOUBLE)
    out = g.DFT(wide, None, axis, inverse=int(not forward), onesided=int(onesided))
    if not forward:
        out = g.Mul(out, constant_like(g, float(n), out) if isinstance(n, int) else cast(g, n, ir.DataType.DOUBLE))
    return cast(g, out, g.dtype(x))


def _normalization_factor(g: Graph, normalization: int, count: Length) -> float | ir.Value:
    """Return the factor for n elements: 1, 1/√n or 1/n for a `normalization` of 0, 1 or 2.

    A factor that is known at run time only is a double.
    """
    if isinstance(count, int) or normalization == 0:
        return (1.0, 1 / math.sqrt(count), 1 / count)[normalization] if isinstance(count, int) else 1.0
    wide = cast(g, count, ir.DataType.DOUBLE)
    return g.Reciprocal(g.Sqrt(wide) if normalization == 1 else wide)


def _scale_by(g: Graph, x: ir.Value, scale: float | ir.Value) -> ir.Value:
    if isinstance(scale, ir.Value):
        return g.Mul(x, cast(g, scale, g.dtype(x)))
    return x if scale == 1 else g.Mul(x, constant_like(g, scale, x))


def _scale_pair(g: Graph, x: ComplexPair, scale: float | ir.Value) -> ComplexPair:
    return ComplexPair(_scale_by(g, x.real, scale), _scale_by(g, x.imag, scale))


@torch_op("complex::_fft_c2c")
def _fft_c2c(g, x, dim, normalization, forward):
    axes = [axis_of(g, x.real, d) for d in dim]
    count = _count(g, [size(g, x.real, a) for a in axes])
    for axis in axes:
        x = _transform_axis(g, x, axis, forward)
    return _scale_pair(g, x, _normalization_factor(g, normalization, count))


@torch_op("_fft_r2c")
def _fft_r2c(g, x, dim, normalization, onesided):
    """Transform real numbers along the last of `dim`, which gives half a spectrum, and then along the other dims."""
    axes = [axis_of(g, x, d) for d in dim]
    count = _count(g, [size(g, x, a) for a in axes])
    *others, last = axes
    n = size(g, x, last)
    if not isinstance(n, int) or n > LARGEST:
        out = split_parts(g, _emit_dft(g, g.Unsqueeze(x, [-1]), last, True, n, onesided))
        if isinstance(n, int):  # a rounding error in a part that should be 0 has a sign, which changes angles
            out = _without_absent_part(g, out, last, n, onesided)
    else:
        cos, sin = _cos_sin_matrices(n, n // 2 + 1 if onesided else n, n)
        out = ComplexPair(_matmul_along_axis(g, x, last, cos), _matmul_along_axis(g, x, last, -sin))
    for axis in others:
        out = _transform_axis(g, out, axis, True)
    return _scale_pair(g, out, _normalization_factor(g, normalization, count))


def _without_absent_part(g: Graph, x: ComplexPair, axis: int, n: int, onesided: bool) -> ComplexPair:
    """Return the spectrum of `n` real numbers with a zero imaginary part at the first and the middle frequency."""
    there = has_part(n)[:, 1]
    there = there if onesided else np.append(there, there[1 : n - len(there) + 1])
    kept = there.reshape([-1] + [1] * (g.rank(x.imag) - 1 - axis))
    return ComplexPair(x.real, g.Where(g.const(kept), x.imag, constant_like(g, 0.0, x.imag)))


@torch_op("complex::_fft_c2r")
def _fft_c2r(g, x, dim, normalization, last_dim_size):
    """Transform back: along all of `dim` but the last as complex numbers, then from half a spectrum to real numbers."""
    *others, last = [axis_of(g, x.real, d) for d in dim]
    n = last_dim_size
    count = _count(g, [n, *(size(g, x.real, a) for a in others)])
    for axis in others:
        x = _transform_axis(g, x, axis, False)
    given = size(g, x.real, last)
    if not isinstance(n, int) or not isinstance(given, int) or n > LARGEST:
        whole = _emit_dft(g, stack_parts(g, _mirrored(g, x, last, vector(g, n))), last, False, n)
        return _scale_by(g, split_parts(g, whole).real, _normalization_factor(g, normalization, count))
    half = n // 2 + 1
    if given != half:
        raise Unsupported(f"an inverse transform to {n} real numbers from other than {half} complex ones")
    cos, sin = _cos_sin_matrices(half, n, n)
    weights = np.full((half, 1), 2.0)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    out = g.Sub(_matmul_along_axis(g, x.real, last, weights * cos), _matmul_along_axis(g, x.imag, last, weights * sin))
    return _scale_by(g, out, _normalization_factor(g, normalization, count))


def _mirrored(g: Graph, x: ComplexPair, axis: int, n: ir.Value) -> ComplexPair:
    """Return all `n` (int64 [1]) numbers of a real signal's spectrum from its half: X[n - k] = conj X[k]."""
    half, last = g.Add(g.Div(n, [2]), [1]), g.Div(g.Add(n, [1]), [2])  # after the last element that has a mirror image
    first = ComplexPair(*(g.Slice(part, [0], half, [axis]) for part in (x.real, x.imag)))
    inner = (g.Slice(part, [1], last, [axis]) for part in (x.real, x.imag))
    real, imag = (g.Slice(part, [-1], [-(2**63)], [axis], [-1]) for part in inner)
    return ComplexPair(g.Concat(first.real, real, axis=axis), g.Concat(first.imag, g.Neg(imag), axis=axis))


@torch_op("stft")
def stft(
    g, self, n_fft, hop_length=None, win_length=None, window=None, normalized=False, onesided=None,
    return_complex=None, align_to_window=None,
):  # fmt: skip
    """Transforms of overlapping frames; TorchScript's stft, which pads before this call."""
    if align_to_window:
        raise Unsupported("align_to_window=True")
    length = n_fft if win_length is None else win_length
    if window is None:
        window = g.const(np.ones(length, g.dtype(self).numpy()))
    before = (n_fft - length) // 2
    window = g.Pad(window, [before, n_fft - length - before]) if length < n_fft else window
    waves = g.Unsqueeze(self, [0]) if g.rank(self) == 1 else self
    frames = torch_op.apply(g, "unfold", [waves, -1, n_fft, n_fft // 4 if hop_length is None else hop_length])
    found = _fft_r2c(g, g.Mul(frames, cast(g, window, g.dtype(self))), [2], int(normalized), onesided is not False)
    parts = [g.Transpose(part, perm=[0, 2, 1]) for part in (found.real, found.imag)]
    result = ComplexPair(*(g.Squeeze(p, [0]) if g.rank(self) == 1 else p for p in parts))
    return result if return_complex else stack_parts(g, result)
