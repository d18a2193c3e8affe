"""Kernels of element-wise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy import special

from convert.errors import Unsupported
from convert.files.caffe2.netdef import DTYPES
from convert.rules import Rule

from .table import ARITHMETIC, COMPARED, FLOAT, INTEGERS, Array, ExecutorRun, kernel

_LARGEST_EXPONENT = 88.0
_LARGEST = float(np.finfo(np.float32).max)


def unary_kernel(dtypes: Iterable[str], function: Callable[..., Array]) -> Rule:
    """Return a kernel of one operand, in its dtype."""

    def rule(run: ExecutorRun, x: Array) -> Array:
        run.takes(dtypes, x)
        return np.asarray(function(x)).astype(x.dtype, copy=False)

    return rule


def _sigmoid(x: Array) -> Array:
    return special.expit(x)


def _softplus(x: Array) -> Array:
    if np.any(x > _LARGEST_EXPONENT):
        raise Unsupported("a Softplus of numbers over 88: the runtime gives infinity")
    return np.log(np.exp(x) + 1)


def _erf(x: Array) -> Array:
    return special.erf(x)


_FLOATING = {
    "Abs": np.abs, "Acos": np.arccos, "Asin": np.arcsin, "Atan": np.arctan, "Ceil": np.ceil, "Cos": np.cos,
    "Cosh": np.cosh, "Erf": _erf, "Exp": np.exp, "Floor": np.floor, "Log": np.log, "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": _sigmoid, "Sin": np.sin, "Sinh": np.sinh, "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)), "Tan": np.tan, "Tanh": np.tanh, "Cube": lambda x: x * x * x,
    "Rsqrt": lambda x: 1 / np.sqrt(x), "Reciprocal": lambda x: 1 / x, "Swish": lambda x: x * _sigmoid(x),
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "Sqr": lambda x: x * x,
}  # fmt: skip
kernel.same(lambda f: unary_kernel(FLOAT, f), **_FLOATING)
kernel.same(lambda f: unary_kernel(ARITHMETIC, f), Negative=np.negative)
kernel.same(lambda f: unary_kernel({"float32", "float64"}, f), Sqrt=np.sqrt)
kernel.same(lambda f: unary_kernel({"bool"}, f), Not=np.logical_not)


@kernel("Sign")
def sign(run: ExecutorRun, x: Array) -> Array:
    """Return the sign of each element; the sign of NaN is 0."""
    run.takes(ARITHMETIC, x)
    return ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype)


def broadcast_kernel(dtypes: Iterable[str], function: Callable[[Array, Array], Array]) -> Rule:
    """Return a kernel of two operands of one dtype, with numpy's broadcasting."""

    def rule(run: ExecutorRun, a: Array, b: Array, *, broadcast: int = 0, axis: int = -1) -> Array:
        run.takes(dtypes, a, b)
        if broadcast and axis != -1:
            b = b.reshape(*b.shape, *[1] * (a.ndim - axis - b.ndim))
        return function(a, b)

    return rule


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    if np.any(b == 0):
        raise Unsupported("an integer division by zero, which ends Caffe2's process")
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))  # towards zero


kernel.same(lambda f: broadcast_kernel(ARITHMETIC, f), Add=np.add, Sub=np.subtract, Mul=np.multiply, Div=_divide)
kernel.same(lambda f: broadcast_kernel(ARITHMETIC, f), LT=np.less, LE=np.less_equal, GT=np.greater, GE=np.greater_equal)
kernel.same(lambda f: broadcast_kernel(COMPARED, f), EQ=np.equal, NE=np.not_equal)
kernel.same(lambda f: broadcast_kernel({"bool"}, f), And=np.logical_and, Or=np.logical_or, Xor=np.logical_xor)
kernel.same(
    lambda f: broadcast_kernel(INTEGERS | {"bool"}, f),
    BitwiseAnd=np.bitwise_and, BitwiseOr=np.bitwise_or, BitwiseXor=np.bitwise_xor,
)  # fmt: skip


def variadic_kernel(dtypes: Iterable[str], function: Callable[[Array, Array], Array]) -> Rule:
    """Return a kernel of any number of operands of one dtype and shape."""

    def rule(run: ExecutorRun, *xs: Array) -> Array:
        run.takes(dtypes, *xs)
        run.check_same_shape(*xs)
        result = xs[0]
        for x in xs[1:]:
            result = function(result, x)
        return result

    return rule


kernel.same(lambda f: variadic_kernel(FLOAT, f), Max=np.maximum, Min=np.minimum)
kernel.same(lambda f: variadic_kernel(ARITHMETIC, f), Sum=np.add)


@kernel("Mean")
def mean(run: ExecutorRun, *xs: Array) -> Array:
    run.takes(FLOAT, *xs)
    run.check_same_shape(*xs)
    return sum(xs[1:], xs[0]) / xs[0].dtype.type(len(xs))


@kernel("Pow")
def power(run: ExecutorRun, x: Array, y: Array = None, *, exponent: float = 0.0) -> Array:
    run.takes(FLOAT, x)
    if y is None:
        return np.power(x, x.dtype.type(exponent))
    run.check_same_shape(x, y)
    return np.power(x, y)


@kernel("Clip")
def clip(run: ExecutorRun, x: Array, *, min: float = -_LARGEST, max: float = _LARGEST) -> Array:
    """Clip; NaN stays NaN. Missing bounds are float32's largest numbers, so infinities are clipped to them."""
    run.takes(FLOAT, x)
    if min > max:
        raise Unsupported("min over max, which the runtime refuses")
    return np.clip(x, x.dtype.type(min), x.dtype.type(max))


@kernel("LeakyRelu")
def leaky_relu(run: ExecutorRun, x: Array, *, alpha: float = 0.01) -> Array:
    run.takes(FLOAT, x)
    return np.where(x >= 0, x, x * x.dtype.type(alpha))


@kernel("Elu")
def elu(run: ExecutorRun, x: Array, *, alpha: float = 1.0) -> Array:
    run.takes(FLOAT, x)
    return np.where(x < 0, x.dtype.type(alpha) * np.expm1(x), x)


@kernel("Selu")
def selu(run: ExecutorRun, x: Array, *, alpha: float = 1.6732631921768188, scale: float = 1.0507010221481323) -> Array:
    run.takes(FLOAT, x)
    a, s = x.dtype.type(alpha), x.dtype.type(scale)
    return s * np.where(x > 0, x, a * np.expm1(x))


@kernel("ThresholdedRelu")
def thresholded_relu(run: ExecutorRun, x: Array, *, alpha: float = 1.0) -> Array:
    run.takes(FLOAT, x)
    return np.where(x > x.dtype.type(alpha), x, x.dtype.type(0))


@kernel("HardSigmoid")
def hard_sigmoid(run: ExecutorRun, x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    run.takes(FLOAT, x)
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), x.dtype.type(0), x.dtype.type(1))


@kernel("Gelu")
def gelu(run: ExecutorRun, x: Array, *, fast_gelu: int = 0) -> Array:
    run.takes(FLOAT, x)
    number = x.dtype.type
    if fast_gelu:
        inner = number(np.sqrt(2 / np.pi)) * (x + number(0.044715) * x * x * x)
        return number(0.5) * x * (1 + np.tanh(inner))
    return x * number(0.5) * (1 + special.erf(x / number(np.sqrt(2))))


@kernel("PRelu")
def parametric_relu(run: ExecutorRun, x: Array, slope: Array) -> Array:
    run.takes(FLOAT, x, slope)
    if slope.ndim != 1 or slope.size not in (1, x.shape[1] if x.ndim > 1 else 1):
        raise Unsupported(f"a slope of shape {slope.shape}: Caffe2 takes one number, or one for each channel")
    return np.where(x > 0, x, x * (slope if slope.size == 1 else slope.reshape(-1, *[1] * (x.ndim - 2))))


@kernel("Scale")
def scaled(run: ExecutorRun, x: Array, *, scale: float = 1.0) -> Array:
    run.takes(FLOAT, x)
    return x * x.dtype.type(scale)


@kernel("Cast")
def cast(run: ExecutorRun, x: Array, *, to: int) -> Array:
    """Cast between all dtypes except float16, which has its own operators; casts to integers truncate."""
    if to not in DTYPES:
        raise Unsupported(f"the Caffe2 dtype {to}")
    dtype = DTYPES[to].numpy()
    if "float16" in (x.dtype.name, dtype.name) and not run.wide:
        raise Unsupported("a Cast of float16: Caffe2 has HalfToFloat and FloatToHalf")
    return run.widen_array(x.astype(dtype))


@kernel("HalfToFloat")
def half_to_float(run: ExecutorRun, x: Array) -> Array:
    run.takes({"float16"}, x)
    return run.widen_array(x.astype(np.float32))


@kernel("FloatToHalf")
def float_to_half(run: ExecutorRun, x: Array) -> Array:
    run.takes(FLOAT, x)
    return run.widen_array(x.astype(np.float16))


@kernel("Where")
def where(run: ExecutorRun, condition: Array, x: Array, y: Array) -> Array:
    run.takes({"bool"}, condition)
    run.takes(COMPARED, x, y)
    run.check_same_shape(condition, x, y)
    return np.where(condition, x, y)


@kernel("Copy", "Alias", "StopGradient", "EnsureCPUOutput", "CopyCPUToIDEEP", "CopyIDEEPToCPU")
def copy(run: ExecutorRun, x: Array) -> Array:
    return x


@kernel("Dropout")
def dropout(run: ExecutorRun, x: Array, *, ratio: float = 0.5, is_test: int = 0) -> Array:
    if not is_test:
        raise Unsupported("is_test=0: its numbers are random")
    return x
