"""Operators that PyTorch cannot express, with the reason."""

from __future__ import annotations

from ..rules import onnx_op

_TEXT = "PyTorch has no tensors of text"
onnx_op.gap(_TEXT, "StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "ai.onnx.ml::LabelEncoder")
onnx_op.gap("PyTorch decodes no images", "ImageDecoder")
onnx_op.gap("an exported program has no operator for a gradient within it", "ai.onnx.preview.training::Gradient")
