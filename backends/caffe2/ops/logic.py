"""Rules for comparisons, logic and selection."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from convert.errors import Unsupported
from convert.rules import Rule

from ..blob import Blob
from ..common.dtypes import ARITHMETIC, COMPARED, cast, widen
from ..common.shapes import broadcast
from ..net import Net
from ..rules import onnx_op


def comparison_rule(operator: str) -> Rule:
    """Return the rule of a comparison, which Caffe2 broadcasts."""

    def rule(net: Net, a: Blob, b: Blob) -> Blob:
        kernels = COMPARED if operator == "EQ" else ARITHMETIC
        return net.op(operator, [widen(net, a, kernels), widen(net, b, kernels)])

    return rule


def direct_rule(operator: str) -> Rule:
    """Return the rule of an operator that takes the same inputs as ONNX's."""

    def rule(net: Net, *xs: Blob) -> Blob:
        return net.op(operator, xs)

    return rule


onnx_op.same(comparison_rule, Equal="EQ", Greater="GT", GreaterOrEqual="GE", Less="LT", LessOrEqual="LE")
onnx_op.same(direct_rule, And="And", Or="Or", Xor="Xor", Not="Not")


def bitwise_rule(operator: str) -> Rule:
    """Return the rule of a bitwise operator; small integers are sign-extended, which keeps their bits."""

    def rule(net: Net, a: Blob, b: Blob) -> Blob:
        kernels = (ir.DataType.INT32, ir.DataType.INT64)
        return cast(net, net.op(operator, [widen(net, a, kernels), widen(net, b, kernels)]), a.dtype)

    return rule


onnx_op.same(bitwise_rule, BitwiseAnd="BitwiseAnd", BitwiseOr="BitwiseOr", BitwiseXor="BitwiseXor")


@onnx_op("BitwiseNot")
def bitwise_not(net: Net, x: Blob) -> Blob:
    """BitwiseNot-18 as Xor with −1."""
    wide = widen(net, x, (ir.DataType.INT32, ir.DataType.INT64))
    return cast(net, net.BitwiseXor(wide, net.const(np.array(-1, wide.dtype.numpy()))), x.dtype)


@onnx_op("Where")
def where(net: Net, condition: Blob, x: Blob, y: Blob) -> Blob:
    """Where-16. Caffe2's Where needs equal shapes."""
    wide = [widen(net, v, COMPARED) for v in (x, y)]
    c, a, b = broadcast(net, condition, *wide)
    return cast(net, net.Where(c, a, b), x.dtype)


@onnx_op("IsNaN")
def is_nan(net: Net, x: Blob) -> Blob:
    wide = widen(net, x, (ir.DataType.FLOAT, ir.DataType.DOUBLE))
    return net.NE(wide, wide)


@onnx_op("IsInf")
def is_inf(net: Net, x: Blob, *, detect_negative: int, detect_positive: int) -> Blob:
    wide = widen(net, x, (ir.DataType.FLOAT, ir.DataType.DOUBLE))
    found = [
        net.EQ(wide, net.const(np.array(bound, wide.dtype.numpy())))
        for bound, asked in ((-np.inf, detect_negative), (np.inf, detect_positive))
        if asked
    ]
    if not found:
        raise Unsupported("detect_negative=0 together with detect_positive=0")
    return found[0] if len(found) == 1 else net.Or(*found)
