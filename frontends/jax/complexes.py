"""Operators on complex numbers, which are pairs of real tensors during lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from jaxlib.mlir import ir as mlir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.numerics import complexes as numbers
from convert.numerics.complexes import Complex
from convert.numerics.fourier import inverse_real_transform, transform
from convert.semantics.turns import has_part

from .ops.elementwise import exponential_minus_one as expm1
from .ops.elementwise import log_plus_one as log1p
from .regions import attribute_of
from .types import ResultType, complex_constant
from .values import Pair, Tensor, join_pairs, merge_dims, part_owners, plain, split_pairs, whole

Run = Callable[..., Sequence[Any]]

PARTWISE = frozenset(
    """
    add subtract negate reshape dynamic_reshape broadcast_in_dim dynamic_broadcast_in_dim transpose slice
    real_dynamic_slice dynamic_slice dynamic_update_slice concatenate reverse pad dynamic_pad gather dynamic_gather
    select optimization_barrier
    """.split()  # noqa: SIM905 (a table)
)
"""Operators that apply to the real and the imaginary part separately."""

SUMMING = frozenset(["reduce", "reduce_window", "scatter"])
"""Operators that apply to the parts separately if their function is a sum."""

JOINING = frozenset(["reduce", "reduce_window", "@stablehlo.dynamic_reduce_window", "map"])
"""Operators that apply any function to elements; it gets both parts, and complex tensors are given as two tensors."""

PRODUCTS = frozenset(["dot_general", "dot", "convolution"])
"""Operators that are linear in each of two tensors."""

_ALONE: dict[str, Callable[..., Complex]] = {
    "multiply": numbers.product, "divide": numbers.quotient, "exponential": numbers.exponential,
    "log": numbers.logarithm, "sqrt": numbers.root, "rsqrt": numbers.reciprocal_root, "power": numbers.power,
    "cosine": numbers.cosine, "sine": numbers.sine, "tanh": numbers.hyperbolic_tangent,
    "tan": numbers.tangent, "exponential_minus_one": lambda g, x: numbers.exponential_minus_one(g, x, expm1),
    "log_plus_one": lambda g, x: numbers.logarithm_plus_one(g, x, log1p), "logistic": numbers.sigmoid,
    "atan2": numbers.angle_of_pair, "maximum": numbers.larger, "minimum": numbers.smaller,
    "chlo.cosh": numbers.hyperbolic_cosine, "chlo.sinh": numbers.hyperbolic_sine, "chlo.square": numbers.square,
    "sign": lambda g, x: _direction(g, x),
    "chlo.conj": lambda g, x: Complex(x.real, g.Neg(x.imag)),
}  # fmt: skip


def is_complex(operands: Sequence[Any], types: Sequence[ResultType | None]) -> bool:
    """Return whether an operator takes or gives complex numbers."""
    return any(isinstance(t, Pair) for t in operands) or any(t is not None and t.is_complex for t in types)


def has_complex_form(name: str) -> bool:
    """Return whether a function of CHLO is lowered for complex numbers; others are read from their decomposition."""
    return name in _ALONE


def lower_complex(
    g: Graph, op: mlir.Operation, name: str, operands: Sequence[Any], types: Sequence[ResultType | None], run: Run,
    lifted: bool = False,
) -> Sequence[Any]:  # fmt: skip
    """Return the results of an operator on complex tensors; `run` is its rule for real ones. Raises `Unsupported`.

    lifted: as in `Walker.block`.
    """
    if name == "constant":
        return [_constant(g, op, types[0])]
    if name in ("real", "imag"):
        return [getattr(operands[0], name)]
    if name == "complex":
        return [Pair(*operands)]
    if name == "get_dimension_size":
        return run([operands[0].real])
    if name == "iota":
        return [_as_pair(g, run(operands)[0])]
    if name in PARTWISE or (name in SUMMING and _is_sum(op)):
        parts = ([getattr(t, part) if isinstance(t, Pair) else t for t in operands] for part in ("real", "imag"))
        return [Pair(a, b) for a, b in zip(run(next(parts)), run(next(parts)), strict=True)]
    if name in JOINING:
        return join_pairs(run(split_pairs(operands), [types[k] for k in part_owners(types)]), types)
    if name in PRODUCTS:
        return [_multiplied(g, run, *(_as_pair(g, t) for t in operands))]
    if name == "fft":
        return [fourier(g, operands[0], attribute_of(op, "fft_type"), list(attribute_of(op, "fft_length")), types[0])]
    if name not in _ALONE and name not in ("convert", "abs", "compare"):
        raise Unsupported("complex numbers in an operator that is read for real ones only")
    values = [_opened(g, _as_pair(g, t)) for t in operands]
    dims = None if lifted or types[0] is None else merge_dims(types[0].dims, *(t.dims for t in operands))
    if name in _ALONE:
        return [_closed(g, _ALONE[name](g, *values), dims)]
    if name == "convert" and types[0] is not None:
        return [_converted(g, values[0], types[0], dims)]
    if name == "abs":
        return [_tensor(g, numbers.length_of(g, values[0].real, values[0].imag), dims)]
    (x, y), different = values, attribute_of(op, "comparison_direction") == "NE"  # StableHLO has no other complex dtype
    same = g.And(g.Equal(x.real, y.real), g.Equal(x.imag, y.imag))
    return [_tensor(g, g.Not(same) if different else same, dims)]


def _direction(g: Graph, x: Complex) -> Complex:
    """Return z / |z|, and 0 for 0."""
    length = numbers.length_of(g, x.real, x.imag)
    zero, one = (g.const(n, g.dtype(x.real)) for n in (0, 1))
    length = g.Where(g.Equal(length, zero), one, length)
    return Complex(g.Div(x.real, length), g.Div(x.imag, length))


def _is_sum(op: mlir.Operation) -> bool:
    """Return whether the function of an operator adds its two arguments, or returns the second, as in a scatter."""
    block = op.regions[0].blocks[0]
    inner, arguments = [o.operation for o in block.operations], list(block.arguments)
    if op.name == "stablehlo.scatter" and len(inner) == 1 and list(inner[0].operands) == arguments[1:]:
        return len(arguments) == 2
    return len(inner) == 2 and inner[0].name == "stablehlo.add" and set(inner[0].operands) == set(arguments)


def _constant(g: Graph, op: mlir.Operation, type_: ResultType | None) -> Pair:
    assert type_ is not None
    array = complex_constant(op)
    parts = (g.const(ir.Tensor(np.array(part, order="C"), dtype=type_.dtype)) for part in (array.real, array.imag))
    return Pair(*(Tensor(part, tuple(array.shape)) for part in parts))


def _as_pair(g: Graph, tensor: Any) -> Pair:
    """Return a real tensor as a complex one, for an operator with complex operands."""
    if isinstance(tensor, Pair):
        return tensor
    zero = Tensor(g.const(0, g.dtype(tensor.value)), tensor.dims, frozenset(range(len(tensor.dims))))
    return Pair(tensor, zero)


def _opened(g: Graph, pair: Pair) -> Complex:
    return Complex(whole(g, pair.real).value, whole(g, pair.imag).value)


def _closed(g: Graph, found: Complex, dims: Any) -> Pair:
    return Pair(_tensor(g, found.real, dims), _tensor(g, found.imag, dims))


def _tensor(g: Graph, value: ir.Value, dims: Any) -> Tensor:
    return plain(value) if dims is None else Tensor(g.facts(value, shape=dims), tuple(dims))


def _converted(g: Graph, x: Complex, type_: ResultType, dims: Any) -> Any:
    real, imag = (v if v.dtype == type_.dtype else g.Cast(v, to=type_.dtype) for v in (x.real, x.imag))
    return _closed(g, Complex(real, imag), dims) if type_.is_complex else _tensor(g, real, dims)


def _multiplied(g: Graph, run: Run, x: Pair, y: Pair) -> Pair:
    """Return the complex product, computed with the product of real tensors."""
    pairs = ((x.real, y.real), (x.imag, y.imag), (x.real, y.imag), (x.imag, y.real))
    real, negative, first, second = (run(pair)[0] for pair in pairs)
    found = Complex(g.Sub(real.value, negative.value), g.Add(first.value, second.value))
    return _closed(g, found, real.dims)


def fourier(g: Graph, x: Any, kind: str, lengths: list[int], result: ResultType | None) -> Any:
    """Return a transform along the last axes; for real numbers half a spectrum is returned, or taken by the inverse
    transform.
    """
    assert result is not None
    if kind == "RFFT":
        pair = g.Unsqueeze(whole(g, x).value, [-1])
        for place, length in enumerate(reversed(lengths)):
            pair = transform(g, pair, length, -2 - place, onesided=int(place == 0))
            if place == 0:
                # Set the imaginary part to 0: a rounding error there has a sign, which would flip the angle of a
                # negative number.
                pair = g.Where(has_part(length), pair, g.const(0.0, g.dtype(pair)))
        dims = merge_dims(result.dims, (*x.dims[:-1], lengths[-1] // 2 + 1))
        return _closed(g, numbers.split_parts(g, pair), dims)
    *outer, last = range(-1 - len(lengths), -1)
    pair = numbers.stack_parts(g, _opened(g, _as_pair(g, x)))
    inverse = int(kind in ("IFFT", "IRFFT"))
    for axis in outer if kind == "IRFFT" else [*outer, last]:
        pair = transform(g, pair, None, axis, inverse=inverse)
    parts = numbers.split_parts(g, pair)
    if kind == "IRFFT":
        return plain(inverse_real_transform(g, parts, lengths[-1]), result.dims)
    return _closed(g, parts, merge_dims(result.dims, x.dims))
