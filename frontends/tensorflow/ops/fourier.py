"""Complex numbers as pairs, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.complexes import Complex, arctangent, length_of, split_parts, stack_parts
from convert.numerics.fourier import inverse_real_transform, transform
from convert.semantics.turns import has_part

from ..common import shape_values
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
    """RFFT along the last dims, one per length; the last one is real, and half of its spectrum is returned."""
    pair = g.Unsqueeze(input, [-1])
    for place, length in enumerate(reversed(_lengths(g, fft_length))):
        pair = transform(g, pair, length, -2 - place, onesided=int(place == 0))
        if place == 0 and isinstance(length, int):
            # Exactly zero, because the sign of a rounding error would flip the angle of a negative number.
            pair = g.Where(has_part(length), pair, g.const(0.0, g.dtype(pair)))
    return split_parts(g, pair)


def _fourier_rule(form: tuple[int, int]) -> Callable[[Graph, Complex], Complex]:
    """Return the rule of a transform along the last dims, given their number and the direction."""
    count, inverse = form

    def rule(g: Graph, input: Complex) -> Complex:
        pair = stack_parts(g, input)
        for axis in range(-2, -2 - count, -1):
            pair = transform(g, pair, None, axis, inverse=inverse)
        return split_parts(g, pair)

    return rule


tf_op.same(_fourier_rule, FFT=(1, 0), FFT2D=(2, 0), FFT3D=(3, 0), IFFT=(1, 1), IFFT2D=(2, 1), IFFT3D=(3, 1))


@tf_op("IRFFT", "IRFFT2D", "IRFFT3D")
def irfft(g: Graph, input: Complex, fft_length: ir.Value) -> ir.Value:
    """IRFFT: first along rows (and planes), cropped to fft_length, as a complex transform; the last dim is real."""
    *outer, last = _lengths(g, fft_length)
    for axis, length in zip(range(-2, -2 - len(outer), -1), reversed(outer), strict=True):
        have = g.shape(input.real)[axis]
        cut = isinstance(have, int) and isinstance(length, int) and have >= length
        if cut and have != length:
            input = Complex(*(g.Slice(p, [0], [length], [axis]) for p in (input.real, input.imag)))
        pair = transform(g, stack_parts(g, input), None if cut else length, axis - 1, inverse=1)
        input = split_parts(g, pair)
    have = g.shape(input.real)[-1]
    if isinstance(last, int) and isinstance(have, int) and have >= last // 2 + 1:
        return inverse_real_transform(g, input, last)
    return _inverse_of_full(g, input, last)


def _lengths(g: Graph, fft_length: ir.Value) -> list[int | ir.Value]:
    """Return the lengths of a transform, run-time ones as int64 scalars."""
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
    """Return the real inverse DFT of a half spectrum, computed as the inverse of the full one.

    The half is cropped or zero-padded to the frequencies that `length` needs, and mirrored as its conjugate.
    """
    wanted = g.const(length) if isinstance(length, int) else length
    middle = g.Div(wanted, 2)
    have = g.Shape(input.real, start=-1)
    lacking = g.Max(g.Sub(g.Add(g.Unsqueeze(middle, [0]), 1), have), 0)
    places = g.Range(0, wanted, 1)
    mirrored = g.Sub(wanted, places)
    first = g.LessOrEqual(places, middle)
    picked = g.Where(first, places, mirrored)
    # The imaginary part of the first and the middle frequency is ignored.
    alone = g.Or(g.Equal(places, 0), g.Equal(places, mirrored))
    sign = g.Cast(g.Where(alone, 0, g.Where(first, 1, -1)), to=g.dtype(input.real))
    pads = g.Concat([0], lacking, axis=0)
    real, imag = (g.Gather(g.Pad(part, pads, None, [-1]), picked, axis=-1) for part in (input.real, input.imag))
    pair = stack_parts(g, Complex(real, g.Mul(imag, sign)))
    return split_parts(g, transform(g, pair, None, -2, inverse=1)).real
