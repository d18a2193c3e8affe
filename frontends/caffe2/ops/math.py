"""Element-wise operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.files.caffe2.netdef import DTYPES
from convert.graph import Graph
from convert.rules import Rule

from ..rules import caffe2_op

LARGEST = float(np.finfo(np.float32).max)


def unary_rule(operator: str) -> Rule:
    """Return the rule of an operator that ONNX has, under the same or another name."""

    def rule(g: Graph, x: ir.Value) -> ir.Value:
        return g.node(operator, [x])

    return rule


caffe2_op.same(
    unary_rule,
    Abs="Abs", Acos="Acos", Asin="Asin", Atan="Atan", Ceil="Ceil", Cos="Cos", Cosh="Cosh", Erf="Erf", Exp="Exp",
    Floor="Floor", Log="Log", Mish="Mish", Negative="Neg", Not="Not", Relu="Relu", Sigmoid="Sigmoid", Sign="Sign",
    Sin="Sin", Sinh="Sinh", Softplus="Softplus", Softsign="Softsign", Sqrt="Sqrt", Tan="Tan", Tanh="Tanh",
    Copy="Identity", Alias="Identity", StopGradient="Identity", EnsureCPUOutput="Identity",
    CopyCPUToIDEEP="Identity", CopyIDEEPToCPU="Identity", CopyFromCPUInput="Identity",
)  # fmt: skip


def binary_rule(operator: str) -> Rule:
    """Return the rule of an operator that broadcasts as numpy does, or in Caffe2's older way."""

    def rule(g: Graph, a: ir.Value, b: ir.Value, *, broadcast: int = 0, axis: int = -1) -> ir.Value:
        return g.node(operator, [a, align_dims(g, a, b, axis) if broadcast else b])

    return rule


def align_dims(g: Graph, a: ir.Value, b: ir.Value, axis: int) -> ir.Value:
    """Return `b` with its dims aligned to those of `a` from `axis` on (-1: to the last ones), as `broadcast=1` says.

    One element counts as a scalar, whatever its rank: the result has the shape of `a`.
    """
    if g.rank(b) > g.rank(a) and all(d == 1 for d in g.shape(b)):
        return g.Reshape(b, [1] * g.rank(a))
    if axis == -1:
        return b
    after = g.rank(a) - axis - g.rank(b)
    return g.Unsqueeze(b, [g.rank(b) + i for i in range(after)]) if after > 0 else b


caffe2_op.same(
    binary_rule,
    Add="Add", Sub="Sub", Mul="Mul", Div="Div", LT="Less", LE="LessOrEqual", GT="Greater", GE="GreaterOrEqual",
    EQ="Equal", And="And", Or="Or", Xor="Xor",
)  # fmt: skip


def bitwise_rule(operator: str) -> Rule:
    """Return the rule of a bitwise operator. ONNX's takes integers only; booleans use the logical operator."""

    def rule(g: Graph, a: ir.Value, b: ir.Value, *, broadcast: int = 0, axis: int = -1) -> ir.Value:
        logical = g.dtype(a) == ir.DataType.BOOL
        name = operator if logical else f"Bitwise{operator}"
        return g.node(name, [a, align_dims(g, a, b, axis) if broadcast else b])

    return rule


caffe2_op.same(bitwise_rule, BitwiseAnd="And", BitwiseOr="Or", BitwiseXor="Xor")


@caffe2_op("NE")
def not_equal(g: Graph, a: ir.Value, b: ir.Value, *, broadcast: int = 0, axis: int = -1) -> ir.Value:
    return g.Not(g.Equal(a, align_dims(g, a, b, axis) if broadcast else b))


def variadic_rule(operator: str) -> Rule:
    """Return the rule of an operator with any number of blobs of the same shape."""

    def rule(g: Graph, *xs: ir.Value) -> ir.Value:
        return g.node(operator, xs)

    return rule


caffe2_op.same(variadic_rule, Sum="Sum", Max="Max", Min="Min", Mean="Mean")


@caffe2_op("Pow")
def power(
    g: Graph, x: ir.Value, y: ir.Value | None = None, *, exponent: float = 0.0, broadcast: int = 0, axis: int = -1
) -> ir.Value:
    if y is None:
        return g.Pow(x, g.const(np.array(exponent, g.dtype(x).numpy())))
    return g.Pow(x, align_dims(g, x, y, axis) if broadcast else y)


@caffe2_op("Sqr")
def square(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(x, x)


@caffe2_op("Cube")
def cube(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(g.Mul(x, x), x)


@caffe2_op("Rsqrt")
def reciprocal_root(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reciprocal(g.Sqrt(x))


@caffe2_op("Reciprocal")
def reciprocal(g: Graph, x: ir.Value) -> ir.Value:
    return g.Reciprocal(x)


@caffe2_op("Scale")
def scale_by(g: Graph, x: ir.Value, *, scale: float = 1.0) -> ir.Value:
    return g.Mul(x, g.const(np.array(scale, g.dtype(x).numpy())))


@caffe2_op("Clip")
def clip(g: Graph, x: ir.Value, *, min: float = -LARGEST, max: float = LARGEST) -> ir.Value:
    """Clip. Missing bounds are float32's largest numbers, so infinities are clipped to them."""
    return g.Clip(x, *(g.const(np.array(v, g.dtype(x).numpy())) for v in (min, max)))


@caffe2_op("LeakyRelu")
def leaky_relu(g: Graph, x: ir.Value, *, alpha: float = 0.01) -> ir.Value:
    return g.LeakyRelu(x, alpha=alpha)


@caffe2_op("Elu")
def elu(g: Graph, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    return g.Elu(x, alpha=alpha)


@caffe2_op("Selu")
def selu(g: Graph, x: ir.Value, *, alpha: float = 1.6732631921768188, scale: float = 1.0507010221481323) -> ir.Value:
    return g.Selu(x, alpha=alpha, gamma=scale)


@caffe2_op("ThresholdedRelu")
def thresholded_relu(g: Graph, x: ir.Value, *, alpha: float = 1.0) -> ir.Value:
    return g.ThresholdedRelu(x, alpha=alpha)


@caffe2_op("HardSigmoid")
def hard_sigmoid(g: Graph, x: ir.Value, *, alpha: float = 0.2, beta: float = 0.5) -> ir.Value:
    return g.HardSigmoid(x, alpha=alpha, beta=beta)


@caffe2_op("Swish")
def swish(g: Graph, x: ir.Value) -> ir.Value:
    return g.Mul(x, g.Sigmoid(x))


@caffe2_op("Gelu")
def gelu(g: Graph, x: ir.Value, *, fast_gelu: int = 0) -> ir.Value:
    return g.Gelu(x, approximate="tanh" if fast_gelu else "none")


@caffe2_op("PRelu")
def parametric_relu(g: Graph, x: ir.Value, slope: ir.Value, *, order: str = "NCHW") -> ir.Value:
    """PRelu with one slope, or one per channel, in any shape."""
    if g.rank(slope) != 1:
        slope = g.Reshape(slope, [-1])
    if order == "NCHW" and g.shape(slope) != (1,) and g.rank(x) > 2:
        slope = g.Unsqueeze(slope, list(range(1, g.rank(x) - 1)))
    return g.PRelu(x, slope)


@caffe2_op("Cast")
def cast(g: Graph, x: ir.Value, *, to: int | str) -> ir.Value:
    """Cast. `to` is a number of TensorProto.DataType, or its name."""
    named = {"FLOAT": 1, "INT32": 2, "BOOL": 5, "UINT8": 6, "INT8": 7, "INT16": 9, "INT64": 10, "DOUBLE": 13}
    number = named.get(to.upper(), 0) if isinstance(to, str) else to
    if number not in DTYPES:
        raise Unsupported(f"a cast to the Caffe2 dtype {to!r}")
    return g.Cast(x, to=DTYPES[number])


@caffe2_op("HalfToFloat")
def half_to_float(g: Graph, x: ir.Value) -> ir.Value:
    return g.Cast(x, to=ir.DataType.FLOAT)


@caffe2_op("FloatToHalf")
def float_to_half(g: Graph, x: ir.Value, *, clip: int = 0) -> ir.Value:
    if clip:
        raise Unsupported("clip=1")
    return g.Cast(x, to=ir.DataType.FLOAT16)


@caffe2_op("Where")
def where(g: Graph, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return g.Where(condition, x, y)


@caffe2_op("Mod")
def mod(g: Graph, x: ir.Value, *, divisor: int = 0, sign_follow_divisor: int = 0) -> ir.Value:
    return g.Mod(x, g.const(np.array(divisor, g.dtype(x).numpy())), fmod=0 if sign_follow_divisor else 1)


@caffe2_op("Dropout")
def dropout(g: Graph, x: ir.Value, *, ratio: float = 0.5, is_test: int = 0) -> ir.Value:
    """Dropout at inference; `ratio` is for training only."""
    if not is_test:
        raise Unsupported("is_test=0: the net is one for training")
    return g.Identity(x)


@caffe2_op("IsNaN")
def is_nan(g: Graph, x: ir.Value) -> ir.Value:
    """IsNaN, as 1 and 0 in uint8."""
    return g.Cast(g.IsNaN(x), to=ir.DataType.UINT8)


@caffe2_op("ReplaceNaN")
def replace_nan(g: Graph, x: ir.Value, *, value: float = 0.0) -> ir.Value:
    return g.Where(g.IsNaN(x), g.const(np.array(value, g.dtype(x).numpy())), x)


@caffe2_op("ReluN")
def relu_up_to(g: Graph, x: ir.Value, *, n: float = 6.0) -> ir.Value:
    return g.Clip(x, *(g.const(np.array(v, g.dtype(x).numpy())) for v in (0, n)))


@caffe2_op("Logit")
def logit(g: Graph, x: ir.Value, *, eps: float = 1e-6) -> ir.Value:
    """Logit: ln(x / (1 - x)), with x clipped to stay `eps` away from 0 and 1."""
    low, high = (g.const(np.array(v, np.float32)) for v in (eps, np.float32(1) - np.float32(eps)))
    x = g.Clip(x, low, high)
    return g.Log(g.Div(x, g.Sub(1.0, x)))


@caffe2_op("Glu")
def gated_linear_unit(g: Graph, x: ir.Value, *, dim: int = -1, dim_split: int = -1) -> ir.Value:
    """Glu: the first half along a dim times the sigmoid of the second half."""
    halves = g.Split(x, axis=dim if dim_split == -1 else dim_split, num_outputs=2, outputs=2)
    return g.Mul(halves[0], g.Sigmoid(halves[1]))


@caffe2_op("WeightedSum")
def weighted_sum(g: Graph, *pairs: ir.Value) -> ir.Value:
    """WeightedSum of blobs that alternate with their weights; each weight has one element."""
    terms = [g.Mul(x, g.Reshape(w, [])) for x, w in zip(pairs[::2], pairs[1::2], strict=True)]
    return terms[0] if len(terms) == 1 else g.Sum(*terms)


@caffe2_op("ElementwiseLinear")
def elementwise_linear(g: Graph, x: ir.Value, w: ir.Value, b: ir.Value, *, axis: int = 1) -> ir.Value:
    """ElementwiseLinear: x·w + b with the dims of `x` from `axis` on merged."""
    if axis % g.rank(x) == g.rank(x) - 1:
        return g.Add(g.Mul(x, w), b)
    apart = g.Shape(x, start=axis)
    return g.Add(g.Mul(x, g.Reshape(w, apart)), g.Reshape(b, apart))


@caffe2_op("AffineChannel")
def affine_channel(
    g: Graph, x: ir.Value, scale: ir.Value, bias: ir.Value, *, is_learnable: int = 0, order: str = "NCHW"
) -> ir.Value:
    """AffineChannel: scale and bias per channel; `is_learnable` concerns gradients."""
    behind = list(range(1, g.rank(x) - 1)) if order == "NCHW" else []
    scale, bias = (g.Unsqueeze(v, behind) if behind else v for v in (scale, bias))
    return g.Add(g.Mul(x, scale), bias)


@caffe2_op("RowMul")
def row_mul(g: Graph, x: ir.Value, w: ir.Value) -> ir.Value:
    """RowMul: each row times its number."""
    return g.Mul(x, g.Unsqueeze(g.Reshape(w, [-1]), list(range(1, g.rank(x)))))


@caffe2_op("Conditional")
def conditional(g: Graph, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Conditional: select row by row."""
    behind = list(range(1, g.rank(x)))
    return g.Where(g.Unsqueeze(condition, behind) if behind else condition, x, y)
