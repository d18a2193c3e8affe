"""Operators that Caffe2 cannot express, with the reason that the user reads."""

from __future__ import annotations

from ..rules import onnx_op

onnx_op.gap(
    "Caffe2 has no operators on tensors of strings",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "ai.onnx.ml::LabelEncoder",
)
onnx_op.gap("Caffe2 decodes images from its own databases only", "ImageDecoder")
onnx_op.gap("Caffe2 has no operator that reads the bits of a number as another one", "BitCast")
onnx_op.gap("n-grams are counted by a search that Caffe2 has no operator for", "TfIdfVectorizer")
onnx_op.gap(
    "gradients are taken while a net is written, not between named tensors of one", "ai.onnx.preview.training::Gradient"
)
