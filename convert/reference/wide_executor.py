"""Evaluates single operators in long double, for constants in files (`convert.graph.long_double` explains why)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from convert.graph import OPSET
from convert.graph.long_double import wide
from convert.reference.executor import Executor, evaluate_node

_FUNCTIONS = frozenset((
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Gelu",
    "GlobalLpPool", "LRN", "Log", "LogSoftmax", "LpNormalization", "LpPool", "Mish", "Pow", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "SoftmaxCrossEntropyLoss", "Softplus", "SwiGLU",
    "Swish", "Tan", "Tanh",
))  # fmt: skip
_PRODUCTS = frozenset((
    "AffineGrid", "Attention", "CausalConvWithState", "Conv", "ConvTranspose", "DeformConv", "Det", "Einsum", "GRU",
    "Gemm", "LSTM", "LinearAttention", "MatMul", "RNN", "Resize",
))  # fmt: skip
PROCESSOR_DEPENDENT = _FUNCTIONS | _PRODUCTS
"""Operators whose float32 or float64 results differ in the last bits between processors.

All other operators move numbers, count, or use operations that are exact to the last bit, in one order.
"""

_FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


def evaluate_for_file(node: ir.Node, opset: int = OPSET) -> list[Any]:
    """Return the outputs of one node with constant inputs, with the same bytes on every processor.

    `opset` is that of the default domain. Raises whatever a kernel raises.
    """
    dependent = node.op_type in PROCESSOR_DEPENDENT and not node.domain
    return evaluate_node(node, opset, WideExecutor(set(), False) if dependent else None)


class WideExecutor(Executor):
    """Computes each operator in long double, and rounds its results to the dtypes that the graph declares."""

    def get(self, value: ir.Value | None) -> Any:
        array = super().get(value)
        return wide(array) if isinstance(array, np.ndarray) and array.dtype in _FLOATS else array

    def for_function(self) -> Executor:
        return WideExecutor(set(), False)
