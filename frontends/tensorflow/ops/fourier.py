"""Complex numbers as pairs, and Fourier transforms."""

from __future__ import annotations

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


@tf_op("Angle")
def angle(g: Graph, input: Complex) -> ir.Value:
    return arctangent(g, input.imag, input.real)


@tf_op("ComplexAbs")
def complex_abs(g: Graph, x: Complex) -> ir.Value:
    return length_of(g, x.real, x.imag)


@tf_op("RFFT")
def rfft(g: Graph, input: ir.Value, fft_length: ir.Value) -> Complex:
    (length,) = shape_values.ints(fft_length, "fft_length")
    return _pair_to_complex(g, _dft(g, g.Unsqueeze(input, [-1]), length, -2, onesided=1))


@tf_op("RFFT2D")
def rfft2d(g: Graph, input: ir.Value, fft_length: ir.Value) -> Complex:
    rows, columns = shape_values.ints(fft_length, "fft_length")
    half = _dft(g, g.Unsqueeze(input, [-1]), columns, -2, onesided=1)
    return _pair_to_complex(g, _dft(g, half, rows, -3))


@tf_op("FFT")
def fft(g: Graph, input: Complex) -> Complex:
    return _pair_to_complex(g, _dft(g, _complex_to_pair(g, input), None, -2))


@tf_op("IFFT")
def ifft(g: Graph, input: Complex) -> Complex:
    return _pair_to_complex(g, _dft(g, _complex_to_pair(g, input), None, -2, inverse=1))


@tf_op("FFT2D")
def fft2d(g: Graph, input: Complex) -> Complex:
    return _pair_to_complex(g, _dft(g, _dft(g, _complex_to_pair(g, input), None, -2), None, -3))


@tf_op("IFFT2D")
def ifft2d(g: Graph, input: Complex) -> Complex:
    return _pair_to_complex(g, _dft(g, _dft(g, _complex_to_pair(g, input), None, -2, inverse=1), None, -3, inverse=1))


@tf_op("IRFFT")
def irfft(g: Graph, input: Complex, fft_length: ir.Value) -> ir.Value:
    """Products with the matrices of the real inverse: every frequency but the first (and the middle) counts twice."""
    (length,) = shape_values.ints(fft_length, "fft_length")
    return _inverse_real_dft(g, input, length)


@tf_op("IRFFT2D")
def irfft2d(g: Graph, input: Complex, fft_length: ir.Value) -> ir.Value:
    """Along the rows first, which are cut to fft_length; there a transform of numbers that are not real."""
    rows, columns = shape_values.ints(fft_length, "fft_length")
    have = g.shape(input.real)[-2]
    if not isinstance(have, int) or have < rows:
        raise Unsupported("a spectrum with fewer rows than fft_length, or with an unknown number of them")
    if have > rows:
        input = Complex(*(g.Slice(p, [0], [rows], [-2]) for p in (input.real, input.imag)))
    return _inverse_real_dft(g, _pair_to_complex(g, _dft(g, _complex_to_pair(g, input), None, -3, inverse=1)), columns)


def _inverse_real_dft(g: Graph, input: Complex, length: int) -> ir.Value:
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
