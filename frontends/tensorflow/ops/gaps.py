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
    "ReduceJoin", "RegexReplace", "StaticRegexReplace", "StringFormat", "StringLength", "StringNGrams",
    "StringStrip", "StringToHashBucketFast", "StringToHashBucketStrong", "Substr", "UnicodeDecode",
    "UnicodeDecodeWithOffsets",
)  # fmt: skip
node.gap("ONNX cannot decode pictures the way TensorFlow does", "DecodeImage", "DecodeJpeg", "DecodePng")
node.gap(
    "fills or lists a table while the model runs; tables that constants fill when it is loaded are read",
    "MutableDenseHashTableV2", "LookupTableExportV2", "InitializeTable", "InitializeTableV2",
)  # fmt: skip
node.gap(
    "fills a table from a file beside the model",
    "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
)  # fmt: skip
node.gap(
    "ragged tensors have rows of different lengths, which the shared graph has no type for",
    "RaggedGather", "RaggedRange", "RaggedTensorFromVariant", "RaggedTensorToSparse", "RaggedTensorToTensor",
    "RaggedTensorToVariant",
)  # fmt: skip
node.gap(
    "gives a sparse tensor whose size depends on data, by a search that ONNX has no operator for",
    "CTCBeamSearchDecoder", "DenseToDenseSetOperation", "SparseToSparseSetOperation", "SetSize",
    "SparseSlice", "SparseCross", "SparseReorder", "SparseConcat", "SparseSplit", "SparseAdd",
)  # fmt: skip
node.gap(
    "is for training or reporting, which a converted model does neither of",
    "BroadcastGradientArgs", "HistogramSummary", "ScalarSummary", "ImageSummary", "AudioSummary", "MergeSummary",
    "ShardedFilename", "SampleDistortedBoundingBoxV2",
)  # fmt: skip
node.gap("an optional value, for which the reader has no type", "OptionalNone", "OptionalFromValue",
         "OptionalGetValue", "OptionalHasValue")  # fmt: skip
node.gap(
    "a projective transform samples at places that ONNX's GridSample rounds differently",
    "ImageProjectiveTransformV2", "ImageProjectiveTransformV3",
)  # fmt: skip
node.gap("a kernel of NVIDIA's with its weights in one vector of undocumented order", "CudnnRNN", "CudnnRNNV2",
         "CudnnRNNV3")  # fmt: skip
node.gap("changes its result with the machine or the moment", "Timestamp")
node.gap("takes its range from the data, or rounds in a mode of its own: rules for it are not written", "QuantizeV2")
node.gap("rules for it are not written", "_SwitchN")
node.gap("works on a graph that is trained, which a converted model is not", "Conv2DBackpropFilter", "MaxPoolGrad",
         "SymbolicGradient")  # fmt: skip
node.gap("takes bytes apart, which ONNX has no operator for", "DecodeRaw", "ParseExampleV2", "ParseSingleExample")
node.gap("is made of spectra by filters and tables of its own: rules for it are not written", "AudioSpectrogram",
         "IRFFT2D", "Mfcc")  # fmt: skip
node.gap("writes into a part of a tensor: rules for it are not written", "TensorStridedSliceUpdate")
node.gap("takes its range from the data, in modes of its own: rules for it are not written", "Dequantize")
