"""Complex tensors while a graph is lowered: ONNX has no arithmetic for them, so they are two real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

from .polar import arctangent, length_of

PARTWISE = frozenset(
    """
    Add AddN AddV2 BroadcastTo Concat ConcatV2 Cumsum Diag DiagPart DynamicStitch ExpandDims Fill Gather GatherNd
    GatherV2 MatrixDiag MatrixDiagPart Mean MirrorPad Neg Pack Pad PadV2 Reshape ReverseSequence ReverseV2 Roll
    ScatterNd SegmentSum Select SelectV2 Slice Split SplitV Squeeze StridedSlice Sub Sum TensorScatterAdd
    TensorScatterUpdate Tile Transpose Unpack UnsortedSegmentSum ZerosLike
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that do to a complex tensor what they do to its two parts."""

SHAPES = frozenset(["Shape", "Size", "Rank", "ShapeN"])
PASSING = frozenset(["Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"])
AWARE = frozenset(
    """
    Real Imag Conj ConjugateTranspose Angle ComplexAbs Cast FFT IFFT FFT2D IFFT2D FFT3D IFFT3D IRFFT IRFFT2D
    IRFFT3D
    """.split()  # noqa: SIM905 (a table)
)
"""Operators whose rules take complex tensors."""


@dataclass(frozen=True)
class Complex:
    """A complex tensor: two of the same shape."""

    real: ir.Value
    imag: ir.Value

    @property
    def dtype(self) -> ir.DataType:
        """COMPLEX64 or COMPLEX128."""
        return ir.DataType.COMPLEX128 if self.real.dtype == ir.DataType.DOUBLE else ir.DataType.COMPLEX64

    @property
    def shape(self) -> ir.Shape | None:
        """That of both parts."""
        return self.real.shape


def stack_parts(g: Graph, z: Complex) -> ir.Value:
    """A complex tensor as graphs show it: real and imaginary part in a last dim of 2."""
    return g.Concat(g.Unsqueeze(z.real, [-1]), g.Unsqueeze(z.imag, [-1]), axis=-1)


def split_parts(g: Graph, pair: ir.Value) -> Complex:
    """The complex tensor that is shown so."""
    return Complex(g.Gather(pair, np.int64(0), axis=-1), g.Gather(pair, np.int64(1), axis=-1))


def split_constant(g: Graph, value: Any) -> Any:
    """A complex constant as the two real ones; any other value as it is."""
    complex_kind = isinstance(value, ir.Value) and value.dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)
    return _as_complex(g, value) if complex_kind and value.const_value is not None else value


def is_complex(values: Sequence[Any]) -> bool:
    """Whether there is a complex tensor among a node's inputs."""
    return any(is_complex(v) if isinstance(v, list) else isinstance(v, Complex) for v in values)


def apply_complex(
    g: Graph,
    operator: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    run: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """The operator on complex tensors, with `run` its rule. Raises `Unsupported` for those that need more."""
    if operator in AWARE or operator in PASSING:
        return run(inputs)
    if operator in SHAPES:
        return run(_components(inputs, "real"))
    if operator in PARTWISE:
        if operator in ("Add", "AddV2", "Sub", "AddN", "Select", "SelectV2"):
            inputs = [v if _dtype(v) == ir.DataType.BOOL else _as_complex(g, v) for v in inputs]
        pairs = zip(run(_components(inputs, "real")), run(_components(inputs, "imag")), strict=True)
        return [Complex(real, imag) for real, imag in pairs]
    if operator in _ALONE:
        return [_ALONE[operator](g, *(_as_complex(g, v) for v in inputs))]
    if operator in _PRODUCTS:
        listed = isinstance(inputs[0], list)
        x, y = _factors(g, inputs[0] if listed else inputs, attributes)
        return [_multiply(g, lambda pair: run([pair] if listed else pair), x, y)]
    if operator in ("Equal", "NotEqual"):
        x, y = (_as_complex(g, v) for v in inputs)
        (real,), (imag,) = run([x.real, y.real]), run([x.imag, y.imag])
        return [(g.And if operator == "Equal" else g.Or)(real, imag)]
    raise Unsupported("complex numbers in an operator that ONNX has for real ones only")


_PRODUCTS = frozenset(["MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"])
"""Operators that are linear in each of two tensors."""


def _factors(g: Graph, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[Complex]:
    """The two tensors of a product, conjugated where they are adjoints.

    Raises `Unsupported` for an Einsum of another number of them.
    """
    if len(inputs) != 2:
        raise Unsupported(f"a product of {len(inputs)} complex tensors: of two only")
    x, y = (_as_complex(g, v) for v in inputs)
    if attributes.get("adj_x"):
        x = Complex(x.real, g.Neg(x.imag))
    return [x, Complex(y.real, g.Neg(y.imag)) if attributes.get("adj_y") else y]


def _multiply(g: Graph, run: Callable[[Sequence[Any]], list[Any]], x: Complex, y: Complex) -> Complex:
    """The product of complex tensors, by `run` for that of real ones."""
    ((rr,), (ii,), (ri,), (ir_,)) = (
        run([a, b]) for a, b in ((x.real, y.real), (x.imag, y.imag), (x.real, y.imag), (x.imag, y.real))
    )
    return Complex(g.Sub(rr, ii), g.Add(ri, ir_))


def _product(g: Graph, x: Complex, y: Complex) -> Complex:
    return _multiply(g, lambda pair: [g.Mul(*pair)], x, y)


def _square(g: Graph, x: Complex) -> Complex:
    return _product(g, x, x)


def _quotient(g: Graph, x: Complex, y: Complex) -> Complex:
    """x·ȳ / |y|²."""
    size = g.Add(g.Mul(y.real, y.real), g.Mul(y.imag, y.imag))
    real = g.Add(g.Mul(x.real, y.real), g.Mul(x.imag, y.imag))
    imag = g.Sub(g.Mul(x.imag, y.real), g.Mul(x.real, y.imag))
    return Complex(g.Div(real, size), g.Div(imag, size))


def _reciprocal(g: Graph, x: Complex) -> Complex:
    size = g.Add(g.Mul(x.real, x.real), g.Mul(x.imag, x.imag))
    return Complex(g.Div(x.real, size), g.Neg(g.Div(x.imag, size)))


def _exponential(g: Graph, x: Complex) -> Complex:
    size = g.Exp(x.real)
    return Complex(g.Mul(size, g.Cos(x.imag)), g.Mul(size, g.Sin(x.imag)))


def _cosine(g: Graph, x: Complex) -> Complex:
    """cos(a + bi) = cos a cosh b - i sin a sinh b."""
    real = g.Mul(g.Cos(x.real), g.Cosh(x.imag))
    return Complex(real, g.Neg(g.Mul(g.Sin(x.real), g.Sinh(x.imag))))


def _sine(g: Graph, x: Complex) -> Complex:
    """sin(a + bi) = sin a cosh b + i cos a sinh b."""
    return Complex(g.Mul(g.Sin(x.real), g.Cosh(x.imag)), g.Mul(g.Cos(x.real), g.Sinh(x.imag)))


def _hyperbolic_cosine(g: Graph, x: Complex) -> Complex:
    """cosh(a + bi) = cosh a cos b + i sinh a sin b."""
    return Complex(g.Mul(g.Cosh(x.real), g.Cos(x.imag)), g.Mul(g.Sinh(x.real), g.Sin(x.imag)))


def _hyperbolic_sine(g: Graph, x: Complex) -> Complex:
    """sinh(a + bi) = sinh a cos b + i cosh a sin b."""
    return Complex(g.Mul(g.Sinh(x.real), g.Cos(x.imag)), g.Mul(g.Cosh(x.real), g.Sin(x.imag)))


def _logarithm(g: Graph, x: Complex) -> Complex:
    """log z = log |z| + i arg z."""
    return Complex(g.Log(length_of(g, x.real, x.imag)), arctangent(g, x.imag, x.real))


def _root(g: Graph, x: Complex) -> Complex:
    """√z, of the two the one to the right: with t = √((|a| + |z|) / 2) it is t + i b/2t, for a < 0 |b|/2t ± i t."""
    half, zero = g.const(0.5, g.dtype(x.real)), g.const(0, g.dtype(x.real))
    t = g.Sqrt(g.Mul(g.Add(g.Abs(x.real), length_of(g, x.real, x.imag)), half))
    other = g.Where(g.Greater(t, zero), g.Div(g.Mul(x.imag, half), t), zero)
    right, up = g.GreaterOrEqual(x.real, zero), g.GreaterOrEqual(x.imag, zero)
    return Complex(
        g.Where(right, t, g.Abs(other)),
        g.Where(right, other, g.Where(up, t, g.Neg(t))),
    )


def _power(g: Graph, x: Complex, y: Complex) -> Complex:
    """exp(y log x), and 0 where x is: its logarithm has no angle."""
    found = _exponential(g, _product(g, y, _logarithm(g, x)))
    zero = g.const(0, g.dtype(x.real))
    nothing = g.And(g.Equal(x.real, zero), g.Equal(x.imag, zero))
    return Complex(g.Where(nothing, zero, found.real), g.Where(nothing, zero, found.imag))


def _reciprocal_root(g: Graph, x: Complex) -> Complex:
    return _reciprocal(g, _root(g, x))


def _hyperbolic_tangent(g: Graph, x: Complex) -> Complex:
    """tanh(a + bi) = (sinh 2a + i sin 2b) / (cosh 2a + cos 2b)."""
    a, b = g.Add(x.real, x.real), g.Add(x.imag, x.imag)
    below = g.Add(g.Cosh(a), g.Cos(b))
    return Complex(g.Div(g.Sinh(a), below), g.Div(g.Sin(b), below))


_ALONE: dict[str, Callable[..., Complex]] = {
    "Mul": _product,
    "Square": _square,
    "Log": _logarithm,
    "Sqrt": _root,
    "Rsqrt": _reciprocal_root,
    "Tanh": _hyperbolic_tangent,
    "Pow": _power,
    "Div": _quotient,
    "RealDiv": _quotient,
    "Reciprocal": _reciprocal,
    "Inv": _reciprocal,
    "Exp": _exponential,
    "Cos": _cosine,
    "Sin": _sine,
    "Cosh": _hyperbolic_cosine,
    "Sinh": _hyperbolic_sine,
}


def _components(values: Sequence[Any], name: str) -> list[Any]:
    return [
        _components(v, name) if isinstance(v, list) else getattr(v, name) if isinstance(v, Complex) else v
        for v in values
    ]


def _dtype(value: Any) -> Any:
    return None if isinstance(value, list) else value.dtype


def _as_complex(g: Graph, value: Any) -> Any:
    """A constant beside complex tensors as one of them."""
    if isinstance(value, list):
        return [_as_complex(g, v) for v in value]
    if isinstance(value, Complex):
        return value
    content = g.static(value)
    if content is None:
        raise Unsupported("real and complex numbers in one operator")
    return Complex(g.const(content.real.copy()), g.const(content.imag.copy()))
