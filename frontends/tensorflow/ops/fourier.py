"""Complex numbers as pairs, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.tensors import rounded_tensor

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
    for place, length in enumerate(reversed(shape_values.ints(fft_length, "fft_length"))):
        pair = _dft(g, pair, length, -2 - place, onesided=int(place == 0))
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
    *outer, last = shape_values.ints(fft_length, "fft_length")
    for axis, length in zip(range(-2, -2 - len(outer), -1), reversed(outer), strict=True):
        have = g.shape(input.real)[axis]
        if not isinstance(have, int) or have < length:
            raise Unsupported("a spectrum with fewer rows than fft_length, or with an unknown number of them")
        if have > length:
            input = Complex(*(g.Slice(p, [0], [length], [axis]) for p in (input.real, input.imag)))
        input = _pair_to_complex(g, _dft(g, _complex_to_pair(g, input), None, axis - 1, inverse=1))
    return _inverse_real_dft(g, input, last)


def _inverse_real_dft(g: Graph, input: Complex, length: int) -> ir.Value:
    """Products with the matrices of the real inverse: every frequency but the first (and the middle) counts twice."""
    have, want = g.shape(input.real)[-1], length // 2 + 1
    if not isinstance(have, int) or have < want:
        raise Unsupported("a spectrum that is shorter than half of fft_length, or of unknown length")
    parts = [input.real, input.imag]
    if have > want:
        parts = [g.Slice(p, [0], [want], [-1]) for p in parts]
    angles = 2 * np.pi * np.outer(np.arange(want), np.arange(length)) / length
    weight = np.full((want, 1), 2.0 / length)
    weight[0] = 1.0 / length
    if length % 2 == 0:
        weight[-1] = 1.0 / length
    dtype = g.dtype(input.real)
    cosines, sines = (g.const(rounded_tensor(m, dtype)) for m in (weight * np.cos(angles), -weight * np.sin(angles)))
    return g.Add(g.MatMul(parts[0], cosines), g.MatMul(parts[1], sines))


def _dft(g: Graph, x: ir.Value, length: int | None, axis: int, *, onesided: int = 0, inverse: int = 0) -> ir.Value:
    """ONNX's transform of [..., parts] along `axis`; it wants a batch in front."""
    alone = g.rank(x) + axis == 0
    x = g.Unsqueeze(x, [0]) if alone else x
    count = None if length is None else g.const(np.array(length, np.int64))
    y = g.DFT(x, count, g.const(np.array(axis + g.rank(x), np.int64)), onesided=onesided, inverse=inverse)
    return g.Squeeze(y, [0]) if alone else y


def _complex_to_pair(g: Graph, x: Complex) -> ir.Value:
    return g.Concat(g.Unsqueeze(x.real, [-1]), g.Unsqueeze(x.imag, [-1]), axis=-1)


def _pair_to_complex(g: Graph, x: ir.Value) -> Complex:
    return Complex(*(g.Gather(x, g.const(np.array(i, np.int64)), axis=-1) for i in (0, 1)))
