"""Declared gaps: operators that cannot be expressed, with the reason that a user is told."""

from __future__ import annotations

from ..refused import STATE, UNSAFE
from ..rules import node

node.gap("changes the model's state, which a converted model does not have", *sorted(STATE))
node.gap("touches files, other machines or Python", *sorted(UNSAFE))
node.gap(
    "ONNX has no operator for it, and no combination of others computes it exactly",
    "BesselI0e", "BesselI1e", "Bitcast", "Digamma", "Erfinv", "Igamma", "Igammac", "Lgamma", "Ndtri", "NextAfter",
    "Polygamma", "Zeta",
)  # fmt: skip
node.gap(
    "ONNX has no decompositions and no solvers",
    "Cholesky", "Lu", "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "Qr", "SelfAdjointEigV2", "Svd",
)  # fmt: skip
node.gap(
    "ONNX has no such operator on strings",
    "ReduceJoin", "RegexReplace", "StaticRegexReplace", "StringFormat", "StringLength", "StringNGrams", "StringSplit",
    "StringSplitV2", "StringStrip", "StringToHashBucketFast", "StringToHashBucketStrong", "Substr", "UnicodeDecode",
    "UnicodeDecodeWithOffsets",
)  # fmt: skip
node.gap("ONNX cannot decode pictures the way TensorFlow does", "DecodeImage", "DecodeJpeg", "DecodePng")
node.gap("takes its weights from a table of 1024 steps, which ONNX's cubic resize does not", "ResizeBicubic")
node.gap("changes its result with the machine or the moment", "Timestamp")
