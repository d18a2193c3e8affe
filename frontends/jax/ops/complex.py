"""Operators on complex numbers. `complexes.lower_complex` lowers them; these rules are for real operands."""

from __future__ import annotations

from convert.errors import Unsupported

from ..rules import elementwise_op, stablehlo_op


@elementwise_op("real")
def real(g, x):
    """Return x: the real part of a real number is the number itself."""
    return g.Identity(x)


@elementwise_op("imag")
def imag(g, x):
    """Return 0, the imaginary part of real numbers."""
    return g.Mul(x, g.const(0, g.dtype(x)))


@stablehlo_op("complex")
def complex_rule(g, real, imag):
    raise Unsupported("a complex number in the region of a reduction or a sort")


@stablehlo_op("fft")
def fft(g, x, *, fft_type, fft_length):
    raise Unsupported("a transform of numbers that are not complex")
