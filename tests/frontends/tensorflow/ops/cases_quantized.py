"""Cases of the TensorFlow frontend: quantisation, with halves of a step, of ranges known now and at run time."""

from __future__ import annotations

import numpy as np

from tests.support.cases import case, f32, f64

HALVES = (np.arange(-9, 40, dtype=np.float32) / 2 * np.float32(6 / 255)).reshape(7, 7)
"""Halves and wholes of a step of the range from 0 to 6."""
CHANNELS = f32(5, 3, low=-3, high=3)
LOWS, HIGHS = np.array([-1, -0.3, 0], np.float32), np.array([1.5, 0.9, 0], np.float32)
RANGE = (np.float32(-1.1), np.float32(0.7))

FAKE = [
    case("FakeQuantWithMinMaxArgs", f32(3, 5, low=-8, high=8)),
    case("FakeQuantWithMinMaxArgs", f32(3, 5), min=-1.3, max=0.7, num_bits=4, narrow_range=True).named("narrow"),
    *(
        case("FakeQuantWithMinMaxArgs", HALVES, min=low, max=6.0, num_bits=bits).named(f"halves {bits} {low}")
        for bits in (2, 8, 16)
        for low in (0.0, -1.0)
    ),
    case("FakeQuantWithMinMaxVars", f32(3, 5), -1.0, 1.5),
    case("FakeQuantWithMinMaxVars", HALVES, 0.0, 6.0).named("halves"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), 0.5, 1.5).named("above zero"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), 0.0, 0.0).named("nothing"),
    case("FakeQuantWithMinMaxVars", f32(3, 5), np.float32(-1), np.float32(1.5)).named("run time"),
    case("FakeQuantWithMinMaxVars", HALVES, np.float32(0), np.float32(6), num_bits=7, narrow_range=True).named(
        "run time, narrow"
    ),
    case("FakeQuantWithMinMaxVars", f32(3, 5), np.float32(0), np.float32(0)).named("run time, nothing"),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS, LOWS.tolist(), HIGHS.tolist()),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS, LOWS.tolist(), HIGHS.tolist(), num_bits=12).named("12 bits"),
    case("FakeQuantWithMinMaxVarsPerChannel", CHANNELS[:3], LOWS, HIGHS).named("run time"),
]
STEPS = [
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE),
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE, range_given=True, num_bits=5, narrow_range=True),
    case("QuantizeAndDequantizeV2", f32(3, 5), np.float32(0), np.float32(1.5), range_given=True, signed_input=False),
    case("QuantizeAndDequantizeV2", f32(3, 5), *RANGE, round_mode="HALF_UP", num_bits=4),
    *(
        case("QuantizeAndDequantizeV2", HALVES, -6.0, 6.0 * 127 / 128, range_given=True, round_mode=mode).named(mode)
        for mode in ("HALF_UP", "HALF_TO_EVEN")
    ),
    case("QuantizeAndDequantizeV2", f32(3, 5), -1.1, 0.7, range_given=True, num_bits=16).named("16 bits"),
    case("QuantizeAndDequantizeV2", f32(3, 5), -1.1, 0.7, range_given=True, num_bits=20).named("20 bits"),
    case("QuantizeAndDequantizeV2", f64(3, 5), f64(5), f64(5), axis=1).named("each column"),
    case("QuantizeAndDequantizeV2", f32(3, 5), f32(5), f32(5), axis=1).named("each column, float32"),
    case("QuantizeAndDequantizeV2", f64(3, 5), np.float64(-1), np.float64(1), range_given=True).named("float64"),
    case("QuantizeAndDequantizeV3", f32(3, 5), *RANGE, 6),
    case("QuantizeAndDequantizeV4", f32(3, 5), *RANGE, range_given=True),
]
TIES = (np.arange(-60, 60, dtype=np.float32) / 4).reshape(8, 15)
ENDS = (np.array([-1, -0.3, 0], np.float32), np.array([1.5, 0.9, 2], np.float32))


def _stored(kind: str, *shape: int) -> np.ndarray:
    """From end to end; of 32 bits without the last, which TensorFlow itself reads as the first."""
    info = np.iinfo(kind)
    spread = np.linspace(int(info.min), int(info.max) - (info.bits == 32) * 200, int(np.prod(shape)))
    return spread.astype(np.int64).astype(kind).reshape(shape)


STORED = [
    *(
        case("QuantizeV2", TIES, low, high, T=kind, mode=mode).named(f"{mode} {kind} {low} {high}")
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for kind in ("quint8", "qint8", "quint16", "qint16")
        for low, high in ((-8.0, 7.9375), (-1.1, 0.7))
    ),
    case("QuantizeV2", TIES, np.float32(-64), np.float32(63.5), T="qint8", mode="SCALED", round_mode="HALF_TO_EVEN",
         narrow_range=True).named("to even"),
    case("QuantizeV2", TIES, np.float32(0), np.float32(0), T="quint8").named("no range"),
    *(
        case("QuantizeV2", CHANNELS, *ENDS, T="qint8", mode=mode, axis=1).named(f"{mode} by column")
        for mode in ("MIN_COMBINED", "SCALED")
    ),
    case("QuantizeV2", CHANNELS, -1.0, 1.0, T="qint32").named("qint32").xfail("ONNX does not quantise to 32 bits"),
    *(
        case("Dequantize", _stored(kind, 3, 5), np.float32(low), np.float32(high), mode=mode).named(
            f"{mode} {kind} {low}"
        )
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for kind, low, high in (
            ("uint8", 0, 6), ("int8", -1.1, 0.7), ("uint16", -1, 2.5), ("int16", -3, 3), ("int32", -3, 3),
        )
    ),
    *(
        case("Dequantize", _stored("int8", 5, 3), *ENDS, mode=mode, axis=1, narrow_range=mode == "SCALED").named(
            f"{mode} by column"
        )
        for mode in ("MIN_COMBINED", "SCALED")
    ),
]  # fmt: skip
QUANTISED = [*STORED, *FAKE, *STEPS]
