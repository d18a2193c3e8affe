"""Operators that TensorFlow Lite lacks, by ONNX operator, each with the reason that `convert ops --to tflite` lists."""

from __future__ import annotations

import onnx_ir as ir

_NUMBERS = "TensorFlow Lite has no built-in operator for it, nor enough of others to make it of"
_LOOPS = "TensorFlow Lite has no list of tensors for the results that it collects"
_BITS = "TensorFlow Lite has no built-in operators on bits for most dtypes"
_TEXT = "TensorFlow Lite has no built-in operators on strings"

GAPS: dict[str, str] = {
    **dict.fromkeys(("CumProd", "Det", "MelWeightMatrix", "Unique"), _NUMBERS),
    "LinearAttention": _LOOPS,
    "BitShift": _BITS,
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringSplit"), _TEXT),
}
"""Operators that are refused whatever their inputs."""

WRITTEN_OUT = ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "DFT", "STFT")
"""Operators that are written out in built-in ones, because TensorFlow's own have no counterpart."""

NO_KERNELS = frozenset(
    dtype
    for dtype in ir.DataType
    if dtype.name.startswith(("FLOAT8", "FLOAT6", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
)
"""Dtypes that no operator computes or reads; constants of them become others."""

BUILTINS = {"Cast": "CAST", "CastLike": "CAST", "DequantizeLinear": "DEQUANTIZE", "QuantizeLinear": "QUANTIZE"}
"""The names of built-in operators that would compute ONNX operators."""

_DTYPES = "some dtypes"

LIMITS: dict[str, str] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Where"), _DTYPES),
    **dict.fromkeys(("DFT", "STFT"), "some dtypes, and dims, lengths and axes that only the run knows"),
    **dict.fromkeys(("Abs", "Div", "Einsum", "Exp", "MatMul", "Mod", "Pow", "Shrink", "Sigmoid", "Sign"), _DTYPES),
    **dict.fromkeys(("DepthToSpace", "Pad", "ScatterElements", "ScatterND", "SpaceToDepth", "Split"), _DTYPES),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "MaxPool"), "some dtypes, ranks and dilations"),
    **dict.fromkeys(("BatchNormalization", "Gelu", "GlobalAveragePool", "GlobalLpPool", "LpPool", "Softmax"), _DTYPES),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization"), _DTYPES),
    **dict.fromkeys(("Add", "Equal", "Greater", "Max", "Mul", "QuantizeLinear", "RMSNormalization", "Sub"), _DTYPES),
    "Cast": "text, before or after",
    **dict.fromkeys(("ConvInteger", "QLinearConv"), "groups with windows of more than 258 numbers"),
    **dict.fromkeys(("MatMulInteger", "QLinearMatMul"), "sums of a length that is not known"),
    **dict.fromkeys(("GridSample", "MaxRoiPool", "TfIdfVectorizer"), "dims of dynamic size"),
    **dict.fromkeys(("Loop", "Scan"), "collected results of dims that are known only in the loop, and sequences"),
    "RoiAlign": "dims of dynamic size, where sampling_ratio is 0",
    "StringNormalizer": "changes of case, and stop words",
    "TopK": "some dtypes, and a count computed at run time",
}
"""Operators that are refused for some of their inputs."""
