"""The rules of `frontends/tensorflow/ops/quantized/v1_conv.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import check, some_bytes, with_batch
from tests.support.cases import Case, case, params

_F32 = np.float32
RANGES = [(-1.1, 0.7), (0.0, 6.0), (-2.0, -0.5), (0.25, 3.0)]
"""Ranges of quantized values. The last two do not contain zero, so the level of zero is not a byte."""


def _convolution(picture: np.ndarray, kernel: np.ndarray, label: str, stride: int, padding: str) -> list[Case]:
    """Return a convolution whose weights have constant ranges, as in every quantized graph."""
    attributes = {"strides": [1, stride, stride, 1], "padding": padding}
    return [
        case("QuantizedConv2D", picture, kernel, *ends, -0.8, 0.9, **attributes).named(f"{label} {ends}")
        for low, high in RANGES
        for ends in ((low, high), (_F32(low), _F32(high)))
    ]


ROWS = [
    *_convolution(some_bytes(2, 5, 6, 3), some_bytes(3, 2, 3, 4, step=91), "SAME", 1, "SAME"),
    *_convolution(some_bytes(2, 5, 6, 3), some_bytes(3, 2, 3, 4, step=91), "VALID", 1, "VALID")[1::2],
    *_convolution(some_bytes(2, 8, 9, 2), some_bytes(3, 3, 2, 4, step=91), "SAME, strides", 2, "SAME")[1::2],
    *_convolution(some_bytes(2, 8, 9, 2), some_bytes(2, 1, 2, 4, step=91), "VALID in the middle", 3, "VALID")[:1],
    *_convolution(some_bytes(2, 9, 9, 2), some_bytes(1, 1, 2, 4, step=91), "SAME in the middle", 3, "SAME")[:1],
    case("QuantizedConv2D", some_bytes(1, 4, 4, 2), some_bytes(2, 2, 2, 3), 0.0, 1.0, 0.5, 1.0, strides=[1, 1, 1, 1],
         padding="SAME").named("no zero").xfail("ConvInteger has the level of zero in a byte"),
    *(
        case(f"Quantized{kind}Pool", some_bytes(2, 5, 6, 3).astype(dtype), -1.0, _F32(2.5), ksize=[1, 3, 2, 1],
             strides=[1, 2, 2, 1], padding=padding).named(f"{padding} {dtype}")
        for kind in ("Max", "Avg")
        for padding, dtype in (("SAME", "uint8"), ("VALID", "uint8"), ("SAME", "int8"))
    ),
]  # fmt: skip
BATCHED = ROWS[::3]
"""Rows that are also read with a dynamic batch. They are few, because each needs twenty operators or more."""


@pytest.mark.parametrize("row", params(ROWS))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(BATCHED)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
