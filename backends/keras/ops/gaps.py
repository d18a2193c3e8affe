"""What Keras has no layers and operations for, each with the reason that the user is told."""

from __future__ import annotations

from ..rules import onnx

onnx.gap("Keras's functional models have no subgraphs", "If", "Loop", "Scan", "SequenceMap")
onnx.gap(
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
onnx.gap(
    "Keras has no operations on strings",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
)
onnx.gap("a result whose shape depends on the data", "NonMaxSuppression", "Unique")
onnx.gap("Keras has no operation for it", "DeformConv", "GridSample", "MaxRoiPool", "MaxUnpool", "RoiAlign", "Col2Im")
onnx.gap("Keras has no complex tensors in its models", "DFT", "STFT")
onnx.gap("Keras has no quantised kernels for it", "ConvInteger", "QLinearConv", "QLinearMatMul")
onnx.gap(
    "a model of Keras's layers draws random numbers in training only",
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
