"""Cases of the TensorFlow frontend: arithmetic on bytes in ranges that are constants, data, or without a zero."""

from __future__ import annotations

import numpy as np

from tests.support.cases import Case, case

_F32 = np.float32
RANGES = [(-1.1, 0.7), (0.0, 6.0), (-2.0, -0.5), (0.25, 3.0)]
"""The last two do not hold zero: its level is none of a byte's."""


def _bytes(*shape: int, step: int = 37) -> np.ndarray:
    return (np.arange(np.prod(shape)) * step % 256).astype(np.uint8).reshape(shape)


def _sums(*shape: int) -> np.ndarray:
    """What is summed in 32 bits, of both signs."""
    return ((np.arange(np.prod(shape)) * 7919 % 40009 - 19000) * 13).astype(np.int32).reshape(shape)


def _ranged(operator: str, *inputs: np.ndarray, **attributes: object) -> list[Case]:
    """Both inputs in ranges that are constants, and in ranges that are data."""
    pairs = [(RANGES[0], RANGES[1]), (RANGES[2], RANGES[0]), (RANGES[3], RANGES[1])]
    rows = [(str(pairs[0]), (*pairs[0][0], *pairs[0][1]))]
    rows += [(f"run time {x} {y}", tuple(map(_F32, (*x, *y)))) for x, y in pairs]
    return [case(operator, *inputs, *ends, **attributes).named(label) for label, ends in rows]


def _convolution(picture: np.ndarray, kernel: np.ndarray, label: str, stride: int, padding: str) -> list[Case]:
    """Weights' ranges are constants, as in every graph that was quantised."""
    attributes = {"strides": [1, stride, stride, 1], "padding": padding}
    return [
        case("QuantizedConv2D", picture, kernel, *ends, -0.8, 0.9, **attributes).named(f"{label} {ends}")
        for low, high in RANGES
        for ends in ((low, high), (_F32(low), _F32(high)))
    ]


SUMS = [
    *_ranged("QuantizedMatMul", _bytes(3, 5), _bytes(5, 4, step=91)),
    case("QuantizedMatMul", _bytes(5, 3), _bytes(4, 5), -1.0, 1.0, -3.0, 2.0, transpose_a=True, transpose_b=True),
    *_ranged("QuantizedMul", _bytes(3, 5), _bytes(5, step=91)),
    *_ranged("QuantizedAdd", _bytes(3, 5), _bytes(5, step=91)),
    *_ranged("QuantizedBiasAdd", _bytes(3, 4, 5), _bytes(5, step=91), out_type="qint32"),
    case(
        "QuantizedBiasAdd", _bytes(3, 5).view(np.int8), _bytes(5).view(np.int8), -1.0, 1.0, -3.0, 2.0, out_type="qint32"
    ).named("int8"),
    case("QuantizedAdd", _bytes(3, 5), _bytes(1, step=91), -1.1, 0.7, -0.3, 0.9).named("one element"),
    case("QuantizedAdd", _bytes(1), _bytes(4), -1.1, 0.7, -0.3, 0.9).named("one element first"),
]
WINDOWS = [
    *_convolution(_bytes(2, 5, 6, 3), _bytes(3, 2, 3, 4, step=91), "SAME", 1, "SAME"),
    *_convolution(_bytes(2, 5, 6, 3), _bytes(3, 2, 3, 4, step=91), "VALID", 1, "VALID")[1::2],
    *_convolution(_bytes(2, 8, 9, 2), _bytes(3, 3, 2, 4, step=91), "SAME, strides", 2, "SAME")[1::2],
    *_convolution(_bytes(2, 8, 9, 2), _bytes(2, 1, 2, 4, step=91), "VALID in the middle", 3, "VALID")[:1],
    *_convolution(_bytes(2, 9, 9, 2), _bytes(1, 1, 2, 4, step=91), "SAME in the middle", 3, "SAME")[:1],
    case("QuantizedConv2D", _bytes(1, 4, 4, 2), _bytes(2, 2, 2, 3), 0.0, 1.0, 0.5, 1.0, strides=[1, 1, 1, 1],
         padding="SAME").named("no zero").xfail("ConvInteger has the level of zero in a byte"),
    *(
        case(f"Quantized{kind}Pool", _bytes(2, 5, 6, 3).astype(dtype), -1.0, _F32(2.5), ksize=[1, 3, 2, 1],
             strides=[1, 2, 2, 1], padding=padding).named(f"{padding} {dtype}")
        for kind in ("Max", "Avg")
        for padding, dtype in (("SAME", "uint8"), ("VALID", "uint8"), ("SAME", "int8"))
    ),
]  # fmt: skip
ONE = [
    *(
        case(f"QuantizedRelu{kind}", values, *ends, out_type=f"q{values.dtype}").named(f"{values.dtype} {ends}")
        for kind in ("", "6")
        for values, ranges in ((_bytes(3, 5), RANGES), (_sums(3, 5), [(-4e4, 4e4), (_F32(-9e4), _F32(3e4))]))
        for ends in ranges
    ),
    *(
        case("Requantize", _sums(3, 7), *map(kind, (-4e4, 5e4)), *map(kind, ends), out_type=out).named(
            f"{out} {ends} {kind.__name__}"
        )
        for out, kind in (("quint8", _F32), ("qint8", float))
        for ends in ((-2.0, 1.5), (0.0, 3.0), (-2.5, 0.0), (0.0, 0.0))
    ),
    *(
        case(name, values, _F32(-4e4), _F32(5e4), **more).named(label)
        for name, more in (("RequantizationRange", {}), ("QuantizeDownAndShrinkRange", {"out_type": "quint8"}))
        for label, values in (("", _sums(3, 7)), ("above", np.abs(_sums(3, 7))), ("alike", np.full((2, 2), -7, "i4")))
    ),
    case("RequantizationRange", _sums(3, 7), _F32(2), _F32(2)).named("no range"),
    case("QuantizedReshape", _bytes(3, 4), [-1, 2, 2], -1.0, _F32(1)),
    *(
        case("QuantizedConcat", 1, [_bytes(3, 2).astype(kind), _bytes(3, 4).astype(kind), _bytes(3, 1).astype(kind)],
             lows, highs).named(f"{kind} {label}")
        for kind in ("uint8", "int32")
        for label, lows, highs in (
            ("", [_F32(-1), _F32(-0.3), _F32(-1)], [_F32(1.5), _F32(0.9), _F32(1.5)]),
            ("alike", [_F32(-1), _F32(-1), _F32(-1)], [_F32(2), _F32(2), _F32(2)]),
            ("no range", [_F32(0.5), _F32(1), _F32(0)], [_F32(1), _F32(1), _F32(3)]),
        )
    ),
]  # fmt: skip
BYTES = [*SUMS, *WINDOWS, *ONE]
BYTES_BATCHED = [*SUMS[::3], *WINDOWS[::3], *ONE[::7]]
"""Those that are read with an open batch too: each takes twenty operators or more."""
