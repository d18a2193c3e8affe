"""Declared gaps of the table for TensorFlow Lite, with the reason that the user reads."""

from __future__ import annotations

from ..rules import tflite_op

STABLEHLO = [
    "STABLEHLO_" + name
    for name in """
    LOGISTIC ADD DIVIDE MULTIPLY MAXIMUM RESHAPE CLAMP CONCATENATE BROADCAST_IN_DIM CONVOLUTION SLICE CUSTOM_CALL
    REDUCE ABS AND COSINE EXPONENTIAL FLOOR LOG MINIMUM NEGATE OR POWER REMAINDER RSQRT SELECT SUBTRACT TANH SCATTER
    COMPARE CONVERT DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE PAD IOTA DOT_GENERAL REDUCE_WINDOW SORT WHILE GATHER TRANSPOSE
    RNG_BIT_GENERATOR COMPOSITE SHIFT_LEFT CBRT CASE
    """.split()  # noqa: SIM905 (a table)
]

tflite_op.gap("no interpreter runs it, so that a rule could not be checked", "CALL")
tflite_op.gap(
    "recurrent layers of two directions: the converter writes them as two of one direction",
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN",
)  # fmt: skip
tflite_op.gap("its numbers follow from a generator that no other runtime has", "MULTINOMIAL",
         "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")  # fmt: skip
tflite_op.gap("ONNX has no operator that looks at bits so", "BITCAST", "LSH_PROJECTION")
tflite_op.gap(
    "no converter of the last years writes it",
    "CONCAT_EMBEDDINGS", "EMBEDDING_LOOKUP_SPARSE", "SKIP_GRAM", "DELEGATE",
)  # fmt: skip
tflite_op.gap("lowers scores (soft suppression), which ONNX's operator does not do", "NON_MAX_SUPPRESSION_V5")
tflite_op.gap("rules for StableHLO in TensorFlow Lite files are not written", *STABLEHLO)
tflite_op.gap("rules for it are not written", "DILATE", "REDUCE_WINDOW")
