"""Operators that Keras has no layers or operations for, each with the reason that the user reads."""

from __future__ import annotations

from ..rules import onnx_op

onnx_op.gap(
    "Keras's functional models have no subgraphs",
    "If",
    "Loop",
    "Scan",
    "SequenceMap",
    "ai.onnx.preview::FlexAttention",
)
onnx_op.gap("gradients are no part of a Keras model", "ai.onnx.preview.training::Gradient")
onnx_op.gap("Keras has no layer for what other learners than networks have learnt", "ai.onnx.ml::LabelEncoder")
onnx_op.gap(
    "Keras has no sequences and optionals of tensors",
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
)
onnx_op.gap(
    "Keras has no operations on strings",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
)
onnx_op.gap("a result whose shape depends on the data", "NonMaxSuppression", "Unique")
onnx_op.gap(
    "Keras has no operation for it",
    "ImageDecoder",
)
onnx_op.gap(
    "a model of Keras's layers draws random numbers in training only",
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
