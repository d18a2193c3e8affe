"""Complex numbers as pairs, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor
from convert.semantics.turns import cos_sin, has_part

from ..common import shape_values
from ..common.complexes import Complex
from ..common.polar import arctangent, length_of
from ..rules import tf_op
from .shape import transpose_


@tf_op("Complex")
def complex_(g: Graph, real: ir.Value, imag: ir.Value) -> Complex:
    return Complex(real, imag)


@tf_op("Real")
def real(g: Graph, input: Complex) -> ir.Value:
    return input.real


@tf_op("Imag")
def imag(g: Graph, input: Complex) -> ir.Value:
    return input.imag


@tf_op("Conj")
def conj(g: Graph, input: Any) -> Any:
    return Complex(input.real, g.Neg(input.imag)) if isinstance(input, Complex) else input


@tf_op("ConjugateTranspose")
def conjugate_transpose(g: Graph, x: Any, perm: ir.Value) -> Any:
    if isinstance(x, Complex):
        return Complex(transpose_(g, x.real, perm), g.Neg(transpose_(g, x.imag, perm)))
    return transpose_(g, x, perm)


@tf_op("Angle")
def angle(g: Graph, input: Complex) -> ir.Value:
    return arctangent(g, input.imag, input.real)


@tf_op("ComplexAbs")
def complex_abs(g: Graph, x: Complex) -> ir.Value:
    return length_of(g, x.real, x.imag)


@tf_op("RFFT", "RFFT2D", "RFFT3D")
def rfft(g: Graph, input: ir.Value, fft_length: ir.Value) -> Complex:
    """Along the last dims, one for each length; of the last one, which is of real numbers, half is given."""
    pair = g.Unsqueeze(input, [-1])
    for place, length in enumerate(reversed(_lengths(g, fft_length))):
        pair = _dft(g, pair, length, -2 - place, onesided=int(place == 0))
        if place == 0 and isinstance(length, int):
            # Not what rounding leaves there, whose sign would turn the angle of a negative number round.
            pair = g.Where(has_part(length), pair, g.const(0.0, g.dtype(pair)))
    return _pair_to_complex(g, pair)


def _fourier_rule(transform: tuple[int, int]) -> Callable[[Graph, Complex], Complex]:
    """Along the last dims, as many as `transform` says, and which way."""
    count, inverse = transform

    def rule(g: Graph, input: Complex) -> Complex:
        pair = _complex_to_pair(g, input)
        for axis in range(-2, -2 - count, -1):
            pair = _dft(g, pair, None, axis, inverse=inverse)
        return _pair_to_complex(g, pair)

    return rule


tf_op.same(_fourier_rule, FFT=(1, 0), FFT2D=(2, 0), FFT3D=(3, 0), IFFT=(1, 1), IFFT2D=(2, 1), IFFT3D=(3, 1))


@tf_op("IRFFT", "IRFFT2D", "IRFFT3D")
def irfft(g: Graph, input: Complex, fft_length: ir.Value) -> ir.Value:
    """Along rows (and planes) first, cut to fft_length; there it is a transform of numbers that are not real."""
    *outer, last = _lengths(g, fft_length)
    for axis, length in zip(range(-2, -2 - len(outer), -1), reversed(outer), strict=True):
        have = g.shape(input.real)[axis]
        cut = isinstance(have, int) and isinstance(length, int) and have >= length
        if cut and have != length:
            input = Complex(*(g.Slice(p, [0], [length], [axis]) for p in (input.real, input.imag)))
        pair = _dft(g, _complex_to_pair(g, input), None if cut else length, axis - 1, inverse=1)
        input = _pair_to_complex(g, pair)
    have = g.shape(input.real)[-1]
    if isinstance(last, int) and isinstance(have, int) and have >= last // 2 + 1:
        return _inverse_real_dft(g, input, last)
    return _inverse_of_full(g, input, last)


def _lengths(g: Graph, fft_length: ir.Value) -> list[int | ir.Value]:
    """The lengths of a transform, those that a run decides as int64 scalars."""
    if shape_values.is_known(fft_length):
        return list(shape_values.ints(fft_length, "fft_length"))
    (count,) = g.shape(fft_length)
    if not isinstance(count, int):
        raise Unsupported("fft_length has an unknown number of elements")
    known = shape_values.content(fft_length)
    found = [None] * count if known is None else list(known)
    wide = g.Cast(fft_length, to=ir.DataType.INT64)
    return [n if isinstance(n, int) else g.Gather(wide, g.const(i)) for i, n in enumerate(found)]


def _inverse_of_full(g: Graph, input: Complex, length: int | ir.Value) -> ir.Value:
    """The half that is given, cut or with zeros behind it, and its mirror, whose imaginary part is negative."""
    wanted = g.const(length) if isinstance(length, int) else length
    middle = g.Div(wanted, 2)
    have = g.Shape(input.real, start=-1)
    lacking = g.Max(g.Sub(g.Add(g.Unsqueeze(middle, [0]), 1), have), 0)
    places = g.Range(0, wanted, 1)
    mirrored = g.Sub(wanted, places)
    first = g.LessOrEqual(places, middle)
    picked = g.Where(first, places, mirrored)
    # Of the first frequency and the middle one the imaginary part counts for nothing.
    alone = g.Or(g.Equal(places, 0), g.Equal(places, mirrored))
    sign = g.Cast(g.Where(alone, 0, g.Where(first, 1, -1)), to=g.dtype(input.real))
    pads = g.Concat([0], lacking, axis=0)
    real, imag = (g.Gather(g.Pad(part, pads, None, [-1]), picked, axis=-1) for part in (input.real, input.imag))
    pair = _complex_to_pair(g, Complex(real, g.Mul(imag, sign)))
    return _pair_to_complex(g, _dft(g, pair, None, -2, inverse=1)).real


def _inverse_real_dft(g: Graph, input: Complex, length: int) -> ir.Value:
    """Products with the matrices of the real inverse: every frequency but the first (and the middle) counts twice."""
    have, want = g.shape(input.real)[-1], length // 2 + 1
    parts = [input.real, input.imag]
    if have != want:
        parts = [g.Slice(p, [0], [want], [-1]) for p in parts]
    cos, sin = cos_sin(np.outer(np.arange(want), np.arange(length)), length)
    weight = np.full((want, 1), 2.0 / length)
    weight[0] = 1.0 / length
    if length % 2 == 0:
        weight[-1] = 1.0 / length
    dtype = g.dtype(input.real)
    cosines, sines = (g.const(rounded_tensor(m, dtype)) for m in (weight * cos, -weight * sin))
    return g.Add(g.MatMul(parts[0], cosines), g.MatMul(parts[1], sines))


def _dft(
    g: Graph, x: ir.Value, length: int | ir.Value | None, axis: int, *, onesided: int = 0, inverse: int = 0
) -> ir.Value:
    """ONNX's transform of [..., parts] along `axis`; it wants a batch in front.

    In float64 but for powers of two: onnxruntime loses digits on other lengths.
    """
    alone, dtype = g.rank(x) + axis == 0, g.dtype(x)
    points = g.shape(x)[axis] if length is None else length
    if not isinstance(points, int) or points & (points - 1):
        x = g.Cast(x, to=ir.DataType.DOUBLE)
    x = g.Unsqueeze(x, [0]) if alone else x
    count = g.const(length) if isinstance(length, int) else length
    y = g.DFT(x, count, g.const(np.array(axis + g.rank(x), np.int64)), onesided=onesided, inverse=inverse)
    return g.Cast(g.Squeeze(y, [0]) if alone else y, to=dtype)


def _complex_to_pair(g: Graph, x: Complex) -> ir.Value:
    return g.Concat(g.Unsqueeze(x.real, [-1]), g.Unsqueeze(x.imag, [-1]), axis=-1)


def _pair_to_complex(g: Graph, x: ir.Value) -> Complex:
    return Complex(*(g.Gather(x, g.const(np.array(i, np.int64)), axis=-1) for i in (0, 1)))
