"""Costs of TensorFlow Lite's CPU kernels, in floats and in 8 bits.

Measured alone on one thread of an AMD EPYC (AVX-512, VNNI) with LiteRT 2.3, as the shortest of many runs. XNNPACK has
the kernels in floats and most of those in 8 bits. The others are loops without vectors, tens of times slower.
"""

from __future__ import annotations

CONVERSION = 35
"""Picoseconds to convert one number to or from 8 bits (QUANTIZE, DEQUANTIZE): 23 in a cache of 2 MB, 48 beyond it."""
START = 100_000
"""Picoseconds to start a kernel of any size."""
OUTSIDE = 1_000_000
"""Picoseconds more for a kernel outside of XNNPACK, which ends a part of the graph that XNNPACK computes."""
OUTSIDE_IN_INTEGERS = frozenset((
    "ABS", "AVERAGE_POOL_2D", "EXP", "GELU", "HARD_SWISH", "MAXIMUM", "MINIMUM", "PRELU", "RELU", "RELU6", "RSQRT",
    "SOFTMAX", "SQUARED_DIFFERENCE",
))  # fmt: skip
"""Operators that XNNPACK lacks in 8 bits."""
ROUNDING = 60
"""Price of having a computed number in 8 bits, in picoseconds, for the accuracy that it costs.

It is high enough that a sum beside a normalization stays in floats. A sum between two convolutions stays in 8 bits, and
so does a large Swish between them, which is slower in floats.
"""

COSTS: dict[str, tuple[int, int]] = {
    "ABS": (52, 2430),
    "ADD": (120, 84),
    "AVERAGE_POOL_2D": (51, 727),
    "ELU": (116, 41),
    "EXP": (105, 207),
    "GELU": (132, 205),
    "HARD_SWISH": (57, 3074),
    "LEAKY_RELU": (58, 38),
    "LOGISTIC": (99, 40),
    "MAXIMUM": (105, 23),
    "MEAN": (34, 34),
    "MINIMUM": (102, 23),
    "MUL": (115, 170),
    "PRELU": (85, 8411),
    "RELU": (50, 7085),
    "RELU6": (56, 7234),
    "RSQRT": (51, 55461),
    "SOFTMAX": (245, 1832),
    "SQUARED_DIFFERENCE": (47, 6141),
    "SUB": (120, 84),
    "SUM": (34, 33),
    "TANH": (100, 40),
}
"""Picoseconds for one number of the largest operand or result of an operator that computes: in floats, in 8 bits."""

MOVED: dict[str, tuple[int, int]] = {
    "CONCATENATION": (70, 35),
    "DEPTH_TO_SPACE": (100, 115),
    "MAX_POOL_2D": (106, 36),
    "PAD": (259, 249),
    "RESHAPE": (20, 10),
    "RESIZE_BILINEAR": (192, 235),
    "SPACE_TO_DEPTH": (69, 31),
    "TRANSPOSE": (60, 60),
}
"""The same for operators whose result has the steps of the input, so that nothing is rounded."""
OTHER_MOVED = (58, 58)
"""The same for those that have no row."""

PRODUCT = (10, 4)
"""Picoseconds for one multiplication of BATCH_MATMUL: in floats, in 8 bits."""
WEIGHTED = ("CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
"""Operators with constant weights, which are stored in 8 bits and computed so."""
