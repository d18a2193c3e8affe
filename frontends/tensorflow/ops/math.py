"""Element-wise arithmetic, comparisons and logic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.graph import Graph
from convert.graph.values import known_dims
from convert.numerics import incomplete
from convert.numerics.complexes import Complex, arctangent
from convert.patterns.matcher import number

from ..common import shape_values
from ..common.lazy_reshape import cast, unsqueeze
from ..patterns.matching import inputs_of, operand_pairs, single_value
from ..rules import tf_op
from .nn import fuse_channel_bias

_MOST_FACTORS = 64
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _unary_rule(name: str) -> Callable[..., ir.Value]:
    return lambda g, x: g.node(name, [x])


def _binary_rule(name: str) -> Callable[..., ir.Value]:
    return lambda g, x, y: g.node(name, [x, y])


tf_op.same(
    _unary_rule, Abs="Abs", Acos="Acos", Acosh="Acosh", Asin="Asin", Asinh="Asinh", Atan="Atan", Atanh="Atanh",
    Ceil="Ceil", Cos="Cos", Cosh="Cosh", Erf="Erf", Exp="Exp", Floor="Floor", Inv="Reciprocal", Reciprocal="Reciprocal",
    IsNan="IsNaN", IsInf="IsInf", LogicalNot="Not", Neg="Neg", Rint="Round", Round="Round",
    Log="Log", Sigmoid="Sigmoid", Sign="Sign", Sin="Sin", Sinh="Sinh", Sqrt="Sqrt", Tan="Tan", Tanh="Tanh",
    Invert="BitwiseNot",
)  # fmt: skip
tf_op.same(
    _binary_rule, Sub="Sub", Div="Div", RealDiv="Div", Less="Less",
    LessEqual="LessOrEqual", Greater="Greater", GreaterEqual="GreaterOrEqual", LogicalAnd="And", LogicalOr="Or",
    BitwiseAnd="BitwiseAnd", BitwiseOr="BitwiseOr", BitwiseXor="BitwiseXor",
)  # fmt: skip


@tf_op("Add", "AddV2")
def add(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    if x.dtype == ir.DataType.STRING:
        return g.StringConcat(x, y)
    return fuse_channel_bias(g, x, y) or g.Add(x, y)


@tf_op("Mul")
def mul(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """Mul. A factor of 1 is left out, because `tf.nn.silu` multiplies by β = 1."""
    for factor, one in ((x, y), (y, x)):
        if number(one) == 1.0 and factor.shape is not None and g.rank(factor) >= g.rank(one):
            return factor
    return g.Mul(x, y)


tf_op.limit(
    "Pow",
    "integers to the power of data, or of more than 64, are float64 on the way in onnxruntime: beyond 2³¹ or 2⁵³ "
    "they are other numbers",
)


@tf_op("Pow")
def pow_(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """Pow. Integers use products for known exponents, because onnxruntime computes powers in float64."""
    known = None if x.dtype in FLOATS else g.static(y)
    if known is None or not known.size or known.min() < 0 or known.max() > _MOST_FACTORS:
        return g.Pow(x, y)
    found, power = g.Where(g.const(known & 1 == 1), x, _constant_like(g, 1, x)) if known.ndim else None, x
    for bit in range(int(known.max()).bit_length()):
        power = g.Mul(power, power) if bit else x
        taken = known >> bit & 1 == 1
        if found is None:
            found = power if taken else None
        elif taken.any() and (bit or not known.ndim):
            product = g.Mul(found, power)
            found = product if taken.all() else g.Where(g.const(taken), product, found)
    return g.Where(g.const(np.array(False)), x, _constant_like(g, 1, x)) if found is None else found


@tf_op("Maximum")
def maximum(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Max(x, y)


@tf_op("Minimum")
def minimum(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Min(x, y)


_PARTS = {ir.DataType.COMPLEX64: ir.DataType.FLOAT, ir.DataType.COMPLEX128: ir.DataType.DOUBLE}


@tf_op("Cast")
def cast_(g: Graph, x: ir.Value | Complex, *, DstT: ir.DataType, Truncate: bool) -> ir.Value | Complex:
    """Cast. A complex number becomes its real part, unless it becomes another complex one; a real one gets an imaginary
    part of 0.
    """
    if isinstance(x, Complex):
        kind = _PARTS.get(DstT)
        return cast(g, x.real, DstT) if kind is None else Complex(cast(g, x.real, kind), cast(g, x.imag, kind))
    if DstT in _PARTS:
        real = cast(g, x, _PARTS[DstT])
        return Complex(real, g.Expand(g.const(0, _PARTS[DstT]), g.Shape(real)))
    if Truncate and DstT in FLOATS:
        raise Unsupported("Truncate=True: ONNX rounds a cast to the nearest number")
    return cast(g, x, DstT)


@tf_op("AddN", "AccumulateNV2")
def add_n(g: Graph, inputs: Sequence[ir.Value], *, shape: object = None) -> ir.Value:
    return reduce(g.Add, inputs)


@tf_op("Equal")
def equal(g: Graph, x: ir.Value, y: ir.Value, *, incompatible_shape_error: bool) -> ir.Value:
    return g.Equal(x, y)


@tf_op("NotEqual")
def not_equal(g: Graph, x: ir.Value, y: ir.Value, *, incompatible_shape_error: bool) -> ir.Value:
    return g.Not(g.Equal(x, y))


@tf_op("Rsqrt")
def rsqrt(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reciprocal(g.Sqrt(x))


@tf_op("Square")
def square(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(x, x)


@tf_op("SquaredDifference")
def squared_difference(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    d = g.Sub(x, y)
    return g.Mul(d, d)


@tf_op("Erfc")
def erfc(g: Graph, x: ir.Value) -> ir.Value:
    return incomplete.erfc(g, x)


@tf_op("IsFinite")
def is_finite(g: Graph, x: ir.Value) -> ir.Value:
    return g.Not(g.Or(g.IsInf(x), g.IsNaN(x)))


@tf_op("Log1p")
def log1p(g: Graph, x: ir.Value) -> ir.Value:
    """Log1p by Kahan's method: x / ((1 + x) - 1) corrects the rounding of 1 + x, so that small x keep their digits."""
    power = single_value(inputs_of(x, "Exp"))
    if power is not None:
        return g.Softplus(power)
    u = g.Add(1.0, x)
    exact = g.Or(g.Equal(u, _constant_like(g, 1.0, x)), g.IsInf(x, detect_negative=0))
    step = g.Where(exact, _constant_like(g, 1.0, x), g.Sub(u, 1.0))
    return g.Where(exact, x, g.Mul(g.Log(u), g.Div(x, step)))


@tf_op("Expm1")
def expm1(g: Graph, x: ir.Value) -> ir.Value:
    """Expm1 by Kahan's method: (eˣ - 1)·x / ln eˣ for small x, where the subtraction would lose the digits."""
    one = _constant_like(g, 1.0, x)
    u = g.Exp(x)
    far = g.Or(g.Greater(g.Abs(x), _constant_like(g, 0.5, x)), g.Equal(u, one))
    near = g.Mul(g.Sub(u, one), g.Div(x, g.Log(g.Where(far, g.Exp(one), u))))
    return g.Where(far, g.Where(g.Equal(u, one), x, g.Sub(u, one)), near)


@tf_op("FloorDiv")
def floor_div(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    if x.dtype in FLOATS:
        return g.Floor(g.Div(x, y))
    if x.dtype is not None and not x.dtype.is_signed():
        return g.Div(x, y)
    # x minus its remainder overflows near the least number.
    zero = _constant_like(g, 0, x)
    above = g.And(g.Xor(g.Less(x, zero), g.Less(y, zero)), g.Not(g.Equal(g.Mod(x, y), zero)))
    return g.Sub(g.Div(x, y), g.Cast(above, to=x.dtype))


@tf_op("FloorMod")
def floor_mod(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return the remainder with the sign of the divisor."""
    if x.dtype not in FLOATS:
        return g.Mod(x, y)
    rest = g.Mod(x, y, fmod=1)
    zero = _constant_like(g, 0.0, x)
    opposite = g.Not(g.Equal(g.Less(rest, zero), g.Less(y, zero)))
    return g.Where(g.And(opposite, g.Not(g.Equal(rest, zero))), g.Add(rest, y), rest)


@tf_op("TruncateDiv")
def truncate_div(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    if x.dtype not in FLOATS:
        return g.Div(x, y)
    quotient = g.Div(x, y)
    return g.Mul(g.Sign(quotient), g.Floor(g.Abs(quotient)))


@tf_op("TruncateMod", "Mod")
def truncate_mod(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Mod(x, y, fmod=1)


@tf_op("DivNoNan")
def div_no_nan(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return _where_nonzero(g, y, x, lambda d: g.Div(x, d))


@tf_op("MulNoNan")
def mul_no_nan(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Where(_is_zero(g, y), _constant_like(g, 0.0, x), g.Mul(x, y))


@tf_op("Xdivy")
def xdivy(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Where(_is_zero(g, x), _constant_like(g, 0.0, x), g.Div(x, y))


@tf_op("Xlogy")
def xlogy(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Where(_is_zero(g, x), _constant_like(g, 0.0, x), g.Mul(x, g.Log(y)))


@tf_op("Xlog1py")
def xlog1py(g: Graph, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Where(_is_zero(g, x), _constant_like(g, 0.0, x), g.Mul(x, log1p(g, y)))


@tf_op("Atan2")
def atan2(g: Graph, y: ir.Value, x: ir.Value) -> ir.Value:
    return arctangent(g, y, x)


@tf_op("ClipByValue")
def clip_by_value(g: Graph, t: ir.Value, clip_value_min: ir.Value, clip_value_max: ir.Value) -> ir.Value:
    """ClipByValue; if the bounds are crossed, the lower one applies (cwise_op_clip.cc)."""
    return g.Max(g.Min(t, clip_value_max), clip_value_min)


@tf_op("SelectV2")
def select_v2(g: Graph, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    """SelectV2. If the comparison of sizes is known, so is the selection; `tf.linspace` finds its axis this way."""
    first, dims = _static_condition(g, condition), known_dims(t)
    if first is not None and dims is not None and None not in dims and dims == known_dims(e):
        return t if first else e
    return g.Where(_drop_true_mask(g, condition, t), t, e)


def _drop_true_mask(g: Graph, condition: ir.Value, x: ir.Value) -> ir.Value:
    """Return a condition on `x` without the all-`True` tensor that Keras starts a mask from."""
    both = inputs_of(condition, "And")
    for mask, ones in operand_pairs(condition, "And"):
        if _is_true(ones, x):
            return _drop_true_mask(g, mask, x)
    kept = [_drop_true_mask(g, part, x) for part in both]
    return g.And(*kept) if any(k is not part for k, part in zip(kept, both, strict=True)) else condition


def _is_true(value: ir.Value, x: ir.Value) -> bool:
    """Return whether `value` is `True` everywhere, in the shape of `x`."""
    filled = inputs_of(value, "Expand")
    true = filled[0].const_value if filled else None
    if true is None or true.size != 1 or true.dtype != ir.DataType.BOOL or not bool(true.numpy().item()):
        return False
    dims = list(value.shape) if value.shape is not None else [None]
    return None not in dims and x.shape is not None and dims == list(x.shape)


def _static_condition(g: Graph, condition: ir.Value) -> bool | None:
    """Return the value of a constant scalar, or of a comparison of two known integers."""
    maker, constant = condition.producer(), g.static(condition)
    if condition.shape is None or g.rank(condition):
        return None
    if constant is not None:
        return bool(constant)
    if maker is None or maker.op_type not in _COMPARISONS:
        return None
    sizes = [None if size is None else size.item() for size in map(shape_values.content, maker.inputs)]
    return _COMPARISONS[maker.op_type](*sizes) if all(isinstance(size, int) for size in sizes) else None


_COMPARISONS: dict[str, Callable[..., bool]] = {
    "Equal": operator.eq, "Less": operator.lt, "LessOrEqual": operator.le, "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}  # fmt: skip


@tf_op("Select")
def select(g: Graph, condition: ir.Value, t: ir.Value, e: ir.Value) -> ir.Value:
    """Select; a condition of rank 1 selects rows."""
    if g.rank(condition) == 1 and g.rank(t) > 1:
        condition = unsqueeze(g, condition, range(1, g.rank(t)))
    return g.Where(condition, t, e)


@tf_op("ApproximateEqual")
def approximate_equal(g: Graph, x: ir.Value, y: ir.Value, *, tolerance: float) -> ir.Value:
    return g.Less(g.Abs(g.Sub(x, y)), tolerance)


def _constant_like(g: Graph, number: float, x: ir.Value) -> ir.Value:
    return g.const(number, x.dtype)


def _is_zero(g: Graph, x: ir.Value) -> ir.Value:
    return g.Equal(x, _constant_like(g, 0.0, x))


def _where_nonzero(g: Graph, y: ir.Value, x: ir.Value, compute: Callable[[ir.Value], ir.Value]) -> ir.Value:
    zero = _is_zero(g, y)
    return g.Where(zero, _constant_like(g, 0.0, x), compute(g.Where(zero, _constant_like(g, 1.0, y), y)))
