"""Element-wise arithmetic, comparison and logic, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import keras
import numpy as np
from keras import KerasTensor, layers, ops

from convert.errors import Unsupported
from convert.graph.rounding import is_inexact_divisor, is_rounded
from convert.graph.values import multiples_among_inputs
from convert.rules import Rule

from ..constants import Constant
from ..emitter import Emitter
from ..rules import onnx_op
from ..tensors import fusion_barrier, is_floating, minus, plus


def unary_rule(function: Callable[[Any], Any]):
    """Return the rule of an operator that is a single Keras function."""
    return lambda k, x: function(k.tensor(x))


onnx_op.same(
    unary_rule,
    Abs=ops.abs,
    Acos=ops.arccos,
    Acosh=ops.arccosh,
    Asin=ops.arcsin,
    Asinh=ops.arcsinh,
    Atan=ops.arctan,
    Atanh=ops.arctanh,
    BitwiseNot=ops.bitwise_not,
    Ceil=ops.ceil,
    Cos=ops.cos,
    Cosh=ops.cosh,
    Det=ops.det,
    Erf=ops.erf,
    Exp=ops.exp,
    Floor=ops.floor,
    IsNaN=ops.isnan,
    Log=ops.log,
    Neg=ops.negative,
    Reciprocal=ops.reciprocal,
    Round=ops.round,
    Sin=ops.sin,
    Sinh=ops.sinh,
    Sqrt=ops.sqrt,
    Tan=ops.tan,
)


@onnx_op("Not")
def not_(k, x):
    """Not-1. After a comparison it is written `x == False`, because TensorFlow rewrites ¬(a < b) to a ≥ b, which is
    False for NaN.
    """
    history = getattr(k.tensor(x), "_keras_history", None)  # a constant has no history
    made = "" if history is None else type(history.operation).__name__
    compared = made in ("Less", "LessEqual", "Greater", "GreaterEqual")
    return ops.equal(k.tensor(x), False) if compared else ops.logical_not(k.tensor(x))


@onnx_op("Sign")
def sign(k, x):
    """Sign-13. For unsigned integers, returns whether they are not zero: Keras returns −1 if the highest bit is set."""
    return ops.cast(ops.not_equal(x, 0), x.dtype) if str(x.dtype).startswith("uint") else ops.sign(k.tensor(x))


@onnx_op("Identity")
def identity(k, x):
    return x


@onnx_op("IsInf")
def is_inf(k, x, *, detect_negative, detect_positive):
    if detect_negative and detect_positive:
        return ops.isinf(x)
    if detect_negative or detect_positive:
        return ops.equal(x, np.array(np.inf if detect_positive else -np.inf, x.dtype))
    return ops.zeros_like(x, dtype="bool")


def binary_rule(function: Callable[[Any, Any], Any]):
    """Return the rule of an operator that is a single Keras function of two tensors."""
    return lambda k, a, b: function(*k.tensors(a, b))


onnx_op.same(binary_rule, And=ops.logical_and, Or=ops.logical_or, Xor=ops.logical_xor)


def bitwise_rule(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return the rule of a bitwise operator. Keras 3.15 uses the dtype of each operand, and the shape of the first."""

    def rule(k, a, b):
        a, b = k.typed(a, b)
        return function(a if tuple(a.shape) == tuple(b.shape) else plus(a, ops.zeros_like(b)), b)

    return rule


onnx_op.same(bitwise_rule, BitwiseAnd=ops.bitwise_and, BitwiseOr=ops.bitwise_or, BitwiseXor=ops.bitwise_xor)


def comparison_rule(function: Callable[[Any, Any], Any]):
    """Return the rule of a comparison. Keras takes a number without a dtype as an integer or float32, so float64 needs
    an explicit dtype.
    """
    return lambda k, a, b: function(*(k.typed if a.dtype == "float64" else k.tensors)(a, b))


onnx_op.same(
    comparison_rule,
    Equal=ops.equal,
    Greater=ops.greater,
    GreaterOrEqual=ops.greater_equal,
    Less=ops.less,
    LessOrEqual=ops.less_equal,
)


def _can_merge(k: Any, *values: Any) -> bool:
    """Return whether all values are floating-point tensors of the same shape, as Keras's merging layers require."""
    if not all(isinstance(x, KerasTensor) and is_floating(x) and len(x.shape) > 1 for x in values):
        return False
    dims = [k.input_dims(i) for i in range(len(values))]
    same = all(d == dims[0] and None not in d for d in dims) and len({tuple(x.shape) for x in values}) == 1
    return same and len({id(x) for x in values}) > 1


def merge_rule(pair: tuple[type[layers.Layer], Callable[..., Any]]) -> Rule:
    """Return the rule of Add or Mul: a merging layer if possible, else the operation."""
    kind, function = pair

    def rule(k, a, b):
        return k.layer(kind, [a, b]) if _can_merge(k, a, b) else function(*k.tensors(a, b))

    return rule


onnx_op.same(merge_rule, Add=(layers.Add, plus), Mul=(layers.Multiply, ops.multiply))


@onnx_op("Sub")
def subtract(k, a, b):
    """Sub-14. A single constant is negated and added: TensorFlow rewrites Exp(Max(Tanh(x))) - 1 to Expm1(Max(x))
    (2.21).
    """
    if isinstance(b, Constant) and b.size == 1 and is_floating(b):
        return plus(k.tensor(a), -k.tensor(b))
    if a.dtype in ("uint8", "uint16"):  # TensorFlow rewrites 0 - x as Neg, which lacks these dtypes
        return plus(k.tensor(a), ops.multiply(k.tensor(b), np.array(np.iinfo(a.dtype).max, a.dtype)))
    return merge_rule((layers.Subtract, minus))(k, a, b)


def variadic_rule(pair: tuple[type[layers.Layer], Callable[..., Any]]) -> Rule:
    """Return the rule of an operator with any number of tensors."""
    kind, function = pair

    def rule(k, *values):
        if len(values) > 1 and _can_merge(k, *values):
            return k.layer(kind, list(values))
        return reduce(function, k.tensors(*values))

    return rule


onnx_op.same(variadic_rule, Min=(layers.Minimum, ops.minimum), Sum=(layers.Add, plus))


@onnx_op("Max")
def maximum(k, *values):
    """Max-13. oneDNN's optimizer makes a LeakyRelu of max(x, c·x), whatever the factor c (TensorFlow 2.21).

    After a convolution and a sum, the result is wrong for any factor.
    """
    multiples = multiples_among_inputs(k.node, every=True)
    apart = [fusion_barrier(x) if i in multiples else x for i, x in enumerate(values)]
    return variadic_rule((layers.Maximum, ops.maximum))(k, *apart)


@onnx_op("Mean")
def mean(k, *values):
    return ops.divide(reduce(plus, k.tensors(*values)), len(values))


@onnx_op("Div")
def div(k, a, b):
    # TensorFlow's optimizer multiplies by the rounded reciprocal of a constant.
    exact = is_inexact_divisor(k.static(b)) and k.node is not None and is_rounded(k.node.outputs[0])
    a, b = k.tensors(a, b)
    if "float" in str(a.dtype):
        return ops.divide_no_nan(a, b) if exact else ops.divide(a, b)
    if str(a.dtype).startswith("uint"):
        return ops.floor_divide(a, b)
    return _divide_towards_zero(a, b)


def _divide_towards_zero(a: Any, b: Any) -> Any:
    """Return the quotient of signed integers, rounded towards zero; Keras rounds down.

    The code does not take absolute values, because that of the least integer does not fit the dtype.
    """
    down = ops.floor_divide(a, b)
    below = ops.logical_and(ops.not_equal(down * b, a), ops.not_equal(ops.less(a, 0), ops.less(b, 0)))
    return down + ops.cast(below, str(down.dtype))


@onnx_op("Mod")
def mod(k, a, b, *, fmod):
    a, b = k.typed(a, b)
    dtype = keras.backend.standardize_dtype(a.dtype)
    if fmod and dtype.startswith("int"):
        return a - _divide_towards_zero(a, b) * b  # Keras's function computes in floats
    # Both modes agree for unsigned numbers, and Keras's fmod casts them to int32.
    return (ops.fmod if fmod and "float" in dtype else ops.mod)(a, b)


@onnx_op("Pow")
def power(k, x, exponent):
    number = k.static(exponent)
    if number is not None and number.size == 1 and number.reshape(-1)[0] == 2 and len(exponent.shape) <= len(x.shape):
        return ops.square(k.tensor(x))
    x, exponent = k.tensors(x, exponent)
    dtypes = [keras.backend.standardize_dtype(v.dtype) for v in (x, exponent)]
    if "float" in dtypes[1] and "float" not in dtypes[0]:
        return ops.power(ops.cast(x, "float64"), ops.cast(exponent, "float64"))
    exponent = exponent if dtypes[0] == dtypes[1] else ops.cast(exponent, dtypes[0])
    natural = dtypes[0].startswith("uint") or (number is not None and bool((number >= 0).all()))
    if "float" not in dtypes[0] and not natural:
        return _integer_power(x, exponent)
    y = ops.power(x, exponent)
    if number is not None and number.size == 1 and (number == -0.5).all():
        # TensorFlow's optimizer turns this division into an Rsqrt; oneDNN's optimizer then replaces a normalization
        # with an Rsqrt by a layer that has its own epsilon (2.21).
        y = fusion_barrier(y)
    return y


def _integer_power(x: Any, exponent: Any) -> Any:
    """Return trunc(x ** exponent) for a negative integer exponent, which tf.pow rejects."""
    sign = ops.where(ops.equal(ops.mod(exponent, 2), 0), 1, x)
    inverse = ops.where(ops.equal(ops.abs(x), 1), sign, 0)
    return ops.where(ops.less(exponent, 0), inverse, ops.power(x, ops.maximum(exponent, 0)))


@onnx_op("BitShift")
def bit_shift(k, x, y, *, direction):
    # A shift by the width or more, or by a negative number, gives 0; processors shift by the remainder.
    (x,), y = k.typed(x), k.tensor(y)
    width = np.iinfo(str(x.dtype)).bits
    out = ops.logical_or(ops.less(y, 0), ops.greater_equal(y, width))
    near = ops.where(out, 0, y)
    if direction == "LEFT":
        return ops.where(out, 0, ops.left_shift(x, ops.cast(near, str(x.dtype))))
    return (
        ops.right_shift(x, ops.cast(ops.where(out, width - 1, y), str(x.dtype)))
        if str(x.dtype)[0] == "i"
        else (ops.where(out, 0, ops.right_shift(x, ops.cast(near, str(x.dtype)))))
    )


@onnx_op("Where")
def where(k, condition, x, y):
    both = isinstance(x, Constant) and isinstance(y, Constant)
    return ops.where(k.tensor(condition), *(k.typed(x, y) if both else k.tensors(x, y)))


@onnx_op("Cast")
def cast(k, x, *, saturate, to, round_mode="up"):
    return _cast(k, x, k.dtype_of(to))


@onnx_op("CastLike")
def cast_like(k, x, like, *, saturate, round_mode="up"):
    return _cast(k, x, str(like.dtype))


@onnx_op("BitCast")
def bit_cast(k, x, *, to):
    if "bool" in (str(x.dtype), k.dtype_of(to)):
        raise Unsupported("the bits of booleans")
    return ops.view(k.tensor(x), k.dtype_of(to))


def _cast(k: Emitter, x: KerasTensor | Constant, dtype: str) -> np.ndarray | KerasTensor:
    if isinstance(x, Constant):
        return x.array.astype(dtype)
    if dtype == "bool" and x.dtype != "bool":
        return ops.not_equal(x, 0)
    if "float" in str(x.dtype) and dtype in _WRAPPING:
        x = ops.cast(x, _WRAPPING[dtype])
    return ops.cast(x, dtype)


# TensorFlow's kernels saturate these dtypes for large tensors; PyTorch and onnxruntime wrap around.
_WRAPPING = {**dict.fromkeys(("uint8", "int8", "uint16", "int16"), "int32"), "uint32": "int64"}
