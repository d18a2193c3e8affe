"""The rules of `frontends/tensorflow/ops/quantized/ranges.py` against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.tensorflow.ops.tf_support import also_with_batch, check, with_batch
from tests.support.cases import Case, case, f32, params


def _stored(kind: str, *shape: int) -> np.ndarray:
    """Return integers over the whole range; in 32 bits without the last one, which TensorFlow itself reads as the
    first.
    """
    info = np.iinfo(kind)
    spread = np.linspace(int(info.min), int(info.max) - (info.bits == 32) * 200, int(np.prod(shape)))
    return spread.astype(np.int64).astype(kind).reshape(shape)


CHANNELS = f32(5, 3, low=-3, high=3)
TIES = (np.arange(-60, 60, dtype=np.float32) / 4).reshape(8, 15)
ENDS = (np.array([-1, -0.3, 0], np.float32), np.array([1.5, 0.9, 2], np.float32))

ROWS = [
    *(
        case("QuantizeV2", TIES, low, high, T=kind, mode=mode).named(f"{mode} {kind} {low} {high}")
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for kind in ("quint8", "qint8", "quint16", "qint16")
        for low, high in ((-8.0, 7.9375), (-1.1, 0.7))
    ),
    case(
        "QuantizeV2",
        TIES,
        np.float32(-64),
        np.float32(63.5),
        T="qint8",
        mode="SCALED",
        round_mode="HALF_TO_EVEN",
        narrow_range=True,
    ).named("to even"),
    case("QuantizeV2", TIES, np.float32(0), np.float32(0), T="quint8").named("no range"),
    *(
        case("QuantizeV2", CHANNELS, *ENDS, T="qint8", mode=mode, axis=1).named(f"{mode} by column")
        for mode in ("MIN_COMBINED", "SCALED")
    ),
    case("QuantizeV2", CHANNELS, -1.0, 1.0, T="qint32").named("qint32").xfail("ONNX does not quantize to 32 bits"),
    *(
        case("Dequantize", _stored(kind, 3, 5), np.float32(low), np.float32(high), mode=mode).named(
            f"{mode} {kind} {low}"
        )
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for kind, low, high in (
            ("uint8", 0, 6),
            ("int8", -1.1, 0.7),
            ("uint16", -1, 2.5),
            ("int16", -3, 3),
            ("int32", -3, 3),
        )
    ),
    *(
        case("Dequantize", _stored("int8", 5, 3), *ENDS, mode=mode, axis=1, narrow_range=mode == "SCALED").named(
            f"{mode} by column"
        )
        for mode in ("MIN_COMBINED", "SCALED")
    ),
]


@pytest.mark.parametrize("row", params(ROWS, also_with_batch))
def test_operator(row: Case) -> None:
    check(row, dynamic=False)


@pytest.mark.parametrize("row", params(with_batch(ROWS)))
def test_operator_with_dynamic_batch(row: Case) -> None:
    check(row, dynamic=True)
