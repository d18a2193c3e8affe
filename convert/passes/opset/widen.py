"""Widens operators that an older opset has for other dtypes only: casts to a dtype with the same results, and back."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from convert.graph import Graph
from convert.passes.opset.compare_schemas import type_text

_T = ir.DataType

WIDER = {
    **dict.fromkeys((_T.INT8, _T.INT16, _T.UINT8, _T.UINT16), (_T.INT32, _T.INT64, _T.FLOAT)),
    _T.INT32: (_T.INT64, _T.DOUBLE),
    _T.UINT32: (_T.INT64, _T.DOUBLE),
    _T.BOOL: (_T.INT32, _T.FLOAT),
    **dict.fromkeys((_T.FLOAT16, _T.BFLOAT16), (_T.FLOAT,)),
}
"""Dtypes that represent all numbers of another one, the most likely to have a kernel first."""

_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div"})
"""Binary operators whose results in a wider integer wrap to those in the narrow one; floats do not wrap."""

_ANY = frozenset({
    "Abs", "Acos", "Acosh", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "AveragePool",
    "BatchNormalization", "Ceil", "Clip", "Compress", "Conv", "ConvTranspose", "Cos", "Cosh", "CumSum",
    "DeformConv", "Det", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Floor", "GRU", "Gelu", "Gemm",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GridSample", "HardSigmoid",
    "HardSwish", "InstanceNormalization", "IsInf", "IsNaN", "LSTM", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "Max", "MaxPool", "MaxRoiPool", "MaxUnpool", "Min", "Mish",
    "Mod", "Neg", "NegativeLogLikelihoodLoss", "OneHot", "PRelu", "Pad", "Pow", "RNN", "Range", "Reciprocal",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "ReverseSequence", "RoiAlign", "Round", "Selu",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
    "TopK", "Unique", "Where",
})  # fmt: skip
_SUMS = frozenset(
    {"CumSum", "Einsum", "Gemm", "MatMul", "ReduceSum", "Range", "Pow", "Mod", "Exp", "Log", "ReduceMean"}
)
_TAKEN = _ARITHMETIC | _ANY


def widen(g: Graph, node: ir.Node, version: int, target: int) -> list[ir.Value] | None:
    """Return the operator's outputs between Casts, if opset `target` has it for a wider dtype; None if not.

    The nodes are of opset `version`; those of the wider dtype are lowered in turn.
    """
    if node.op_type not in _TAKEN:
        return None
    schema = onnx.defs.get_schema(node.op_type, version, "")
    older = onnx.defs.get_schema(node.op_type, target, "")
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in older.type_constraints}
    names = [i.type_str for i in schema.inputs]
    # without trailing inputs that the node leaves out
    names = (names + names[-1:] * (len(node.inputs) - len(names)))[: len(node.inputs)]
    wanted: dict[str, ir.DataType] = {}
    older_names = [i.type_str for i in older.inputs]
    for i, value in enumerate(node.inputs):
        if value is None or not isinstance(value.type, ir.TensorType) or i >= max(len(older_names), 1):
            continue
        takes = allowed.get(older_names[min(i, len(older_names) - 1)], set())
        if type_text(value) in takes or names[i] in wanted:
            continue
        found = [t for t in WIDER.get(g.dtype(value), ()) if f"tensor({t.name.lower()})" in takes]
        integer = not g.dtype(value).is_floating_point()
        if integer and node.op_type in _ARITHMETIC | _SUMS:
            found = [t for t in found if not t.is_floating_point()]
        if not found:
            return None
        wanted[names[i]] = found[0]
    if not wanted:
        return None
    inputs = [
        x if x is None or name not in wanted else g.Cast(x, to=wanted[name])
        for x, name in zip(node.inputs, names, strict=True)
    ]
    made = g.node(node.op_type, inputs, dict(node.attributes), outputs=len(node.outputs))
    outputs = made if isinstance(made, list) else [made]
    results = []
    for new, old, formal in zip(outputs, node.outputs, schema.outputs, strict=False):
        results.append(g.Cast(new, to=old.dtype) if formal.type_str in wanted and old.dtype is not None else new)
    return results
