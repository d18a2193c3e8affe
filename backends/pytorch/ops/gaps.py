"""What PyTorch has no form for, with the reason."""

from __future__ import annotations

from ..rules import onnx_op

_TEXT = "PyTorch has no tensors of text"
onnx_op.gap(_TEXT, "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "ai.onnx.ml::LabelEncoder")
onnx_op.gap(
    "a step of an optimizer, which PyTorch takes outside of a program", "ai.onnx.preview.training::Adagrad",
    "ai.onnx.preview.training::Adam", "ai.onnx.preview.training::Momentum",
)  # fmt: skip
onnx_op.gap("PyTorch has no operator for trees", "ai.onnx.ml::TreeEnsemble")
onnx_op.gap("PyTorch decodes no pictures", "ImageDecoder")
onnx_op.gap(
    "it counts words or trains, and PyTorch has no operator like it", "TfIdfVectorizer",
    "ai.onnx.preview.training::Gradient",
)  # fmt: skip
