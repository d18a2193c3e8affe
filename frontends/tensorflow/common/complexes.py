"""Complex tensors during lowering: ONNX has no complex arithmetic, so they are pairs of real tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics.complexes import (
    Complex,
    cosine,
    exponential,
    hyperbolic_cosine,
    hyperbolic_sine,
    hyperbolic_tangent,
    logarithm,
    multiply_by,
    power,
    product,
    quotient,
    reciprocal,
    reciprocal_root,
    root,
    sine,
    square,
)

PARTWISE = frozenset(
    """
    Add AddN AddV2 BroadcastTo Concat ConcatV2 Cumsum Diag DiagPart DynamicStitch ExpandDims Fill Gather GatherNd
    GatherV2 MatrixDiag MatrixDiagPart Mean MirrorPad Neg Pack Pad PadV2 Reshape ReverseSequence ReverseV2 Roll
    ScatterNd SegmentSum Select SelectV2 Slice Split SplitV Squeeze StridedSlice Sub Sum TensorScatterAdd
    TensorScatterUpdate Tile Transpose Unpack UnsortedSegmentSum ZerosLike
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that apply separately to both parts of a complex tensor."""

SHAPES = frozenset(["Shape", "Size", "Rank", "ShapeN"])
PASSING = frozenset(["Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"])
AWARE = frozenset(
    """
    Real Imag Conj ConjugateTranspose Angle ComplexAbs Cast FFT IFFT FFT2D IFFT2D FFT3D IFFT3D IRFFT IRFFT2D
    IRFFT3D
    """.split()  # noqa: SIM905 (a table)
)
"""Operators whose rules take complex tensors."""


def split_constant(g: Graph, value: Any) -> Any:
    """Return a complex constant as two real ones; any other value unchanged."""
    complex_kind = isinstance(value, ir.Value) and value.dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)
    return _as_complex(g, value) if complex_kind and value.const_value is not None else value


def is_complex(values: Sequence[Any]) -> bool:
    """Return whether a node's inputs include a complex tensor."""
    return any(is_complex(v) if isinstance(v, list) else isinstance(v, Complex) for v in values)


def apply_complex(
    g: Graph,
    operator: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
    run: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """Apply an operator to complex tensors; `run` is its rule. Raises `Unsupported` for operators that need more."""
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
        return [multiply_by(g, lambda pair: run([pair] if listed else pair), x, y)]
    if operator in ("Equal", "NotEqual"):
        x, y = (_as_complex(g, v) for v in inputs)
        (real,), (imag,) = run([x.real, y.real]), run([x.imag, y.imag])
        return [(g.And if operator == "Equal" else g.Or)(real, imag)]
    raise Unsupported("complex numbers in an operator that ONNX has for real ones only")


_PRODUCTS = frozenset(["MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"])
"""Operators that are linear in each of two tensors."""


def _factors(g: Graph, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> list[Complex]:
    """Return the two factors of a product, conjugated for adjoints.

    Raises `Unsupported` for an Einsum of another number of operands.
    """
    if len(inputs) != 2:
        raise Unsupported(f"a product of {len(inputs)} complex tensors: of two only")
    x, y = (_as_complex(g, v) for v in inputs)
    if attributes.get("adj_x"):
        x = Complex(x.real, g.Neg(x.imag))
    return [x, Complex(y.real, g.Neg(y.imag)) if attributes.get("adj_y") else y]


_ALONE: dict[str, Callable[..., Complex]] = {
    "Mul": product,
    "Square": square,
    "Log": logarithm,
    "Sqrt": root,
    "Rsqrt": reciprocal_root,
    "Tanh": hyperbolic_tangent,
    "Pow": power,
    "Div": quotient,
    "RealDiv": quotient,
    "Reciprocal": reciprocal,
    "Inv": reciprocal,
    "Exp": exponential,
    "Cos": cosine,
    "Sin": sine,
    "Cosh": hyperbolic_cosine,
    "Sinh": hyperbolic_sine,
}


def _components(values: Sequence[Any], name: str) -> list[Any]:
    return [
        _components(v, name) if isinstance(v, list) else getattr(v, name) if isinstance(v, Complex) else v
        for v in values
    ]


def _dtype(value: Any) -> Any:
    return None if isinstance(value, list) else value.dtype


def _as_complex(g: Graph, value: Any) -> Any:
    """Return a constant next to complex tensors as a complex tensor."""
    if isinstance(value, list):
        return [_as_complex(g, v) for v in value]
    if isinstance(value, Complex):
        return value
    content = g.static(value)
    if content is None:
        raise Unsupported("real and complex numbers in one operator")
    return Complex(g.const(content.real.copy()), g.const(content.imag.copy()))
