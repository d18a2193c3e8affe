"""What PyTorch has no form for, with the reason."""

from __future__ import annotations

from ..rules import onnx_op

_TEXT = "PyTorch has no tensors of text"
onnx_op.gap(_TEXT, "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "ai.onnx.ml::LabelEncoder")
onnx_op.gap("PyTorch decodes no pictures", "ImageDecoder")
onnx_op.gap(
    "it counts words or trains, and PyTorch has no operator like it", "TfIdfVectorizer",
    "ai.onnx.preview.training::Gradient",
)  # fmt: skip
