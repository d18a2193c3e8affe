"""Declared gaps: operators that cannot be expressed, with the reason that the user reads."""

from __future__ import annotations

from ..graph.allowed import operator_problem
from ..graph.refused import CHANGES, STATE, UNSAFE
from ..rules import tf_op

tf_op.gap("trains the model, or changes a table or a queue: variables alone can be state", *sorted(STATE - CHANGES))
for _name in sorted(UNSAFE):
    tf_op.gap(operator_problem(_name), _name)
tf_op.gap(
    "ONNX has no such operator on strings",
    "StringLength", "StringNGrams",
    "StringStrip", "Substr", "UnicodeDecode",
    "UnicodeDecodeWithOffsets",
)  # fmt: skip
tf_op.gap("ONNX cannot decode images exactly as TensorFlow does", "DecodeImage", "DecodeJpeg", "DecodePng")
tf_op.gap(
    "fills or lists a table while the model runs; tables that constants fill when it is loaded are read",
    "MutableDenseHashTableV2", "LookupTableExportV2", "InitializeTable", "InitializeTableV2",
)  # fmt: skip
tf_op.gap(
    "fills a table from a file beside the model",
    "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
)  # fmt: skip
tf_op.gap(
    "gives a sparse tensor whose size depends on data, by a search that ONNX has no operator for",
    "CTCBeamSearchDecoder", "SparseToSparseSetOperation", "SetSize", "SparseSplit",
)  # fmt: skip
tf_op.gap(
    "gives what text or numbers are hashed to, byte by byte, by a function that ONNX has no operator for",
    "SparseCross", "SparseCrossHashed", "SparseCrossV2",
)  # fmt: skip
tf_op.gap(
    "is a special function that ONNX has no operator for: rules for it are not written",
    "Expint", "Spence", "Dawsn", "FresnelCos", "FresnelSin",
)  # fmt: skip
tf_op.gap(
    "transforms along dims that it names; transforms along the last one, two or three dims convert",
    "FFTND", "IFFTND", "RFFTND", "IRFFTND",
)  # fmt: skip
tf_op.gap("draws on images for display", "DrawBoundingBoxes", "DrawBoundingBoxesV2")
tf_op.gap(
    "is found by a Schur decomposition, for which there are no operators in ONNX; `tf.linalg.eigh` of a symmetric "
    "matrix converts, and so does what is made of it",
    "MatrixSquareRoot", "MatrixLogarithm",
)  # fmt: skip
tf_op.gap(
    "is for training or reporting, which a converted model does neither of",
    "HistogramSummary", "ScalarSummary", "ImageSummary", "AudioSummary", "MergeSummary",
    "ShardedFilename", "SampleDistortedBoundingBoxV2",
)  # fmt: skip
tf_op.gap("has a result that depends on the machine or the time", "Timestamp")
tf_op.gap("works on a graph that is trained, which a converted model is not", "Conv2DBackpropFilter",
         "SymbolicGradient")  # fmt: skip
tf_op.gap("takes bytes apart, which ONNX has no operator for", "DecodeRaw", "ParseExampleV2", "ParseSingleExample")
tf_op.gap("is made of spectra by filters and tables of its own: rules for it are not written", "AudioSpectrogram",
         "Mfcc")  # fmt: skip
