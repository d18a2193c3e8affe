"""Which operators of TensorFlow Lite have integer kernels, and what these require (TensorFlow 2.21, LiteRT 2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from .steps import Steps

_BOTH = ("int8", "int16")


@dataclass(frozen=True)
class Kernel:
    """The input indices that an integer kernel uses: data, each with a scale of its own, a constant weight, and its
    bias.

    axis: the axis of the weight that may have one scale per index. centred: indices of data whose zero point must be 0.
    """

    data: tuple[int, ...] = (0,)
    weight: int | None = None
    bias: int | None = None
    axis: int = 0
    dtypes: tuple[str, ...] = _BOTH
    centred: tuple[int, ...] = ()


_ONE = Kernel()
_TABLE = Kernel(dtypes=("int8",))
_TWO = Kernel((0, 1))

COMPUTING: dict[str, Kernel] = {
    "CONV_2D": Kernel((0,), 1, 2),
    "DEPTHWISE_CONV_2D": Kernel((0,), 1, 2, axis=3),
    "FULLY_CONNECTED": Kernel((0,), 1, 2),
    "TRANSPOSE_CONV": Kernel((2,), 1, 3),
    # XNNPACK of TensorFlow 2.21 treats the second zero point as 0; LiteRT 2.3 does not.
    "BATCH_MATMUL": Kernel((0, 1), centred=(1,)),
    **dict.fromkeys(("ADD", "MUL", "SUB"), _TWO),
    **dict.fromkeys(("AVERAGE_POOL_2D", "LOGISTIC", "MEAN", "RESIZE_BILINEAR", "SOFTMAX", "TANH"), _ONE),
    **dict.fromkeys(("ELU", "GELU", "HARD_SWISH", "L2_NORMALIZATION", "LOG_SOFTMAX", "RELU_N1_TO_1"), _TABLE),
    **dict.fromkeys(("LEAKY_RELU", "RELU", "RELU6", "RELU_0_TO_1"), _ONE),
    "PRELU": Kernel((0, 1), dtypes=("int8",)),
    "SUM": _TABLE,
}
"""Operators that compute, whose results are rounded to steps."""

FIXED: dict[str, dict[str, Steps]] = {
    **{key: {"int8": Steps(1 / 256, -128), "int16": Steps(1 / 32768, 0, "int16")} for key in ("LOGISTIC", "SOFTMAX")},
    "TANH": {"int8": Steps(1 / 128, 0), "int16": Steps(1 / 32768, 0, "int16")},
    "LOG_SOFTMAX": {"int8": Steps(16 / 256, 127)},
    "L2_NORMALIZATION": {"int8": Steps(1 / 128, 0)},
}
"""Operators whose kernels prescribe the scale and zero point of the result."""

SAME = frozenset(("AVERAGE_POOL_2D", "RESIZE_BILINEAR"))
"""Operators whose results have the scale and zero point of their input."""

MOVING: dict[str, tuple[tuple[int, ...] | None, tuple[str, ...]]] = {
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "DEPTH_TO_SPACE"), ((0,), ("int8",))),
    "TILE": ((0,), ("int8",)),  # LiteRT 2.3 has it for int16, TensorFlow 2.21 has not
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"), ((0,), _BOTH)),
    **dict.fromkeys(("GATHER", "GATHER_ND", "MAX_POOL_2D", "PAD", "RESIZE_NEAREST_NEIGHBOR"), ((0,), _BOTH)),
    **dict.fromkeys(("MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "REVERSE_V2"), ((0,), _BOTH)),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH"), ((0,), ("int8",))),
    **dict.fromkeys(("BROADCAST_TO", "SLICE", "SPLIT_V", "STRIDED_SLICE", "UNPACK"), ((0,), _BOTH)),
    **dict.fromkeys(("CONCATENATION", "PACK"), (None, _BOTH)),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), ((0, 1), _BOTH)),
    "RELU": ((0,), _BOTH),
    "SPLIT": ((1,), _BOTH),
    "PADV2": ((0, 2), ("int8",)),
    "SELECT_V2": ((1, 2), _BOTH),
}
"""Operators whose result consists of elements of these inputs (None: all inputs), and the integers that they accept:
steps of the result are those of the inputs, and rounding before is rounding behind.
"""

CONTROL = ("IF", "WHILE", "CALL_ONCE")
"""Operators with subgraphs, whose operators have a choice each."""

VERSIONS: dict[str, tuple[int, int, int]] = {
    "CONV_2D": (3, 4, 3),
    "DEPTHWISE_CONV_2D": (3, 5, 3),
    "FULLY_CONNECTED": (4, 7, 12),
    "TRANSPOSE_CONV": (2, 3, 2),
    "BATCH_MATMUL": (2, 3, 2),
    "ADD": (2, 3, 2),
    "SUB": (2, 5, 2),
    "MUL": (2, 4, 2),
    "GELU": (2, 2, 2),
    **dict.fromkeys(("AVERAGE_POOL_2D", "CONCATENATION", "LOGISTIC", "MAX_POOL_2D", "MEAN"), (2, 3, 2)),
    **dict.fromkeys(("SOFTMAX", "TANH", "REDUCE_MAX", "REDUCE_MIN"), (2, 3, 2)),
    **dict.fromkeys(("L2_NORMALIZATION", "LEAKY_RELU", "LOG_SOFTMAX", "RELU", "RELU6", "SUM"), (2, 2, 2)),
    **dict.fromkeys(("DEPTH_TO_SPACE", "GATHER", "MAXIMUM", "MINIMUM", "PAD", "PADV2", "SPACE_TO_BATCH_ND"),
                    (2, 2, 2)),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_DEPTH", "SPLIT", "STRIDED_SLICE", "TRANSPOSE"), (2, 2, 2)),
    "UNPACK": (2, 2, 2),
    "MIRROR_PAD": (2, 2, 2),
    "BROADCAST_TO": (3, 3, 2),
    "SLICE": (2, 4, 2),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), (2, 4, 2)),
    "PACK": (2, 3, 2),
}  # fmt: skip
"""The lowest versions of operators whose kernels accept int8, int16, and one scale per channel."""
