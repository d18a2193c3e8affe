"""Complex tensors while a graph is lowered: ONNX has no arithmetic for them, so they are two real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph

PARTWISE = frozenset(
    """
    Add AddN AddV2 BroadcastTo Concat ConcatV2 DynamicStitch ExpandDims Gather GatherNd GatherV2 MatrixDiagPart Mean Neg
    Pack Pad Reshape ReverseV2 Roll Select SelectV2 Slice Split SplitV Squeeze StridedSlice Sub Sum Tile Transpose
    Unpack ZerosLike
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that do to a complex tensor what they do to its two parts."""

SHAPES = frozenset(["Shape", "Size", "Rank", "ShapeN"])
PASSING = frozenset(["Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"])
AWARE = frozenset(
    ["Real", "Imag", "Conj", "Angle", "ComplexAbs", "Cast", "FFT", "IFFT", "FFT2D", "IFFT2D", "IRFFT", "IRFFT2D"]
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


def is_complex(values: Sequence[Any]) -> bool:
    """Whether there is a complex tensor among a node's inputs."""
    return any(is_complex(v) if isinstance(v, list) else isinstance(v, Complex) for v in values)


def apply_complex(
    g: Graph, operator: str, inputs: Sequence[Any], run: Callable[[Sequence[Any]], list[Any]]
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
    if operator in ("Mul", "Square"):
        x, y = (_as_complex(g, v) for v in (inputs if operator == "Mul" else (inputs[0], inputs[0])))
        real = g.Sub(g.Mul(x.real, y.real), g.Mul(x.imag, y.imag))
        return [Complex(real, g.Add(g.Mul(x.real, y.imag), g.Mul(x.imag, y.real)))]
    raise Unsupported("complex numbers in an operator that ONNX has for real ones only")


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


_ALONE: dict[str, Callable[..., Complex]] = {
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
