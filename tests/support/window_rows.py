"""Convolutions and pools with drawn windows, and their results by onnxruntime where it computes what ONNX says.

Every row combines sizes, kernel, strides, dilations, pads or auto_pad, ceil_mode, count_include_pad, output_padding and
output_shape. onnxruntime departs from ONNX, or lacks a kernel, in these cases:

- SAME with strides longer than the kernel: it takes negative pads for convolutions, and refuses pools
- SAME with dilations, or pads as long as the kernel: it refuses pools
- windows that lie in the padding: a maximum of nothing is the lowest number, and a mean of nothing is 0

Pads of the first two kinds are therefore written as a numpy.pad around an unpadded window, by TensorFlow's formula for
SAME; rows of the third kind are not drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.backends.tensorflow.ops.onnx_cases import const
from tests.backends.tensorflow.ops.support import expected
from tests.support.cases import Case, case, f32

POOLS = ("MaxPool", "AveragePool", "LpPool")
OPERATORS = (*POOLS, "Conv", "ConvTranspose")
Pairs = Sequence[tuple[int, int]]


def window_rows(seed: int, count: int) -> Iterator[tuple[Case, np.ndarray]]:
    """Yield `count` rows of each operator with what they return."""
    for operator in OPERATORS:
        rng, found = random.Random(f"{operator} {seed}"), 0
        while found < count:
            row = _drawn(rng, operator)
            if row is None:
                continue
            found += 1
            yield row.named(f"{seed}-{found}"), wanted(row)


def depends_on_sizes(row: Case) -> bool:
    """Return whether the pads of a row depend on the sizes of its input, so that no number is right for all."""
    given = row.attributes
    strides, dilations, kernel = given["strides"], given["dilations"], given["kernel_shape"]
    if row.operator == "ConvTranspose":
        return "output_shape" in given
    side = given.get("auto_pad", "")
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    most = {"SAME_UPPER": 2, "SAME_LOWER": 1}.get(side)
    return most is not None and any(s > 1 and r > most for s, r in zip(strides, spans, strict=True))


def _drawn(rng: random.Random, operator: str) -> Case | None:
    """Return a row, or None if its windows do not fit or some window has no element of the input."""
    rank = rng.choice((1, 2, 2, 2, 3))
    sizes, kernel = ([rng.randint(1, most) for _ in range(rank)] for most in (8 if rank < 3 else 5, 4))
    strides = [rng.choice((1, 1, 2, 2, 3, 5)) for _ in range(rank)]
    if rng.random() < 0.3:
        strides = [strides[0]] * rank
    dilations = [rng.choice((1, 2, 3)) for _ in range(rank)] if rng.random() < 0.3 else [1] * rank
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    if rng.random() < 0.5:
        pads = [rng.randint(0, k - 1) for k in kernel] * 2
        given["pads"] = pads if rng.random() < 0.5 else [rng.randint(0, k - 1) for k in kernel * 2]
    else:
        given["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "SAME_UPPER", "VALID"))
    if operator == "ConvTranspose":
        return _transposed(rng, sizes, given)
    if operator in POOLS:
        given["ceil_mode"] = rng.randint(0, 1)
    if operator == "AveragePool":
        given["count_include_pad"] = rng.randint(0, 1)
    if not all(_reads_everywhere(n, given, axis) for axis, n in enumerate(sizes)):
        return None
    if operator != "Conv":
        return case(operator, f32(2, 3, *sizes), **given)
    group = rng.choice((1, 1, 2, 4))
    return case("Conv", f32(2, 4, *sizes), const(f32(4, 4 // group, *kernel)), group=group, **given)


def _transposed(rng: random.Random, sizes: list[int], given: dict[str, Any]) -> Case | None:
    kernel, strides, dilations = given["kernel_shape"], given["strides"], given["dilations"]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    extra = [rng.randint(0, s - 1) if rng.random() < 0.3 else 0 for s in strides]
    full = [(n - 1) * s + r + e for n, s, r, e in zip(sizes, strides, spans, extra, strict=True)]
    if any(extra):
        given["output_padding"] = extra
    if rng.random() < 0.4:
        given.pop("pads", None)
        # onnxruntime takes up to a stride more than there is without output padding.
        shape = [rng.randint(max(1, f - s), f - e + s - 1) for f, s, e in zip(full, strides, extra, strict=True)]
        given["output_shape"] = shape
    pads = given.get("pads", [0] * 2 * len(sizes))
    left = [f - a - b for f, a, b in zip(full, pads, pads[len(sizes) :], strict=False)]
    if min(left) < 1:
        return None
    weight = const(f32(3, 2, *kernel))
    return case("ConvTranspose", f32(2, 3, *sizes), weight, const(f32(2)), **given)


def same_pads(size: int, kernel: int, stride: int, dilation: int, side: str) -> tuple[int, int]:
    """Return the pads of SAME as TensorFlow documents them."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if side == "SAME_UPPER" else (more, less)


def _pads(size: int, given: dict[str, Any], axis: int) -> tuple[int, int]:
    side, rank = given.get("auto_pad", ""), len(given["strides"])
    if side.startswith("SAME"):
        return same_pads(size, *(given[key][axis] for key in ("kernel_shape", "strides", "dilations")), side)
    pads = given.get("pads", [0] * 2 * rank)
    return pads[axis], pads[rank + axis]


def _reads_everywhere(size: int, given: dict[str, Any], axis: int) -> bool:
    """Return whether there is a window, and every window has an element of the input."""
    kernel, stride, dilation = (given[key][axis] for key in ("kernel_shape", "strides", "dilations"))
    before, after = _pads(size, given, axis)
    last = size + before + after - (kernel - 1) * dilation - 1
    if last < 0:
        return False
    starts = [i * stride for i in range(last // stride + 1)]
    if given.get("ceil_mode") and starts[-1] + stride < size + before and last % stride:
        starts.append(starts[-1] + stride)
    taps = np.array(starts)[:, None] + np.arange(kernel) * dilation - before
    return bool(((taps >= 0) & (taps < size)).any(1).all())


def wanted(row: Case) -> np.ndarray:
    """Return what a row computes, by onnxruntime."""
    given, x = dict(row.attributes), row.inputs[0]
    if row.operator == "ConvTranspose" or not str(given.get("auto_pad")).startswith("SAME"):
        return expected(row)[0]
    pairs = [_pads(n, given, axis) for axis, n in enumerate(x.shape[2:])]
    for name in ("auto_pad", "ceil_mode"):
        given.pop(name, None)
    if row.operator != "AveragePool" or given["count_include_pad"]:
        lowest = -np.inf if row.operator == "MaxPool" else 0
        return _over(row, _padded(x, pairs, lowest), given)
    ones = _over(row, _padded(np.ones_like(x), pairs, 0), given)
    return _over(row, _padded(x, pairs, 0), given) / ones


def _padded(x: np.ndarray, pairs: Pairs, value: float) -> np.ndarray:
    return np.pad(x, [(0, 0), (0, 0), *pairs], constant_values=value)


def _over(row: Case, x: np.ndarray, given: dict[str, Any]) -> np.ndarray:
    return expected(case(row.operator, x, *row.inputs[1:], **given))[0]


@cache
def drawn_rows(seed: int, count: int) -> tuple[tuple[Case, np.ndarray], ...]:
    """Return `window_rows` as a tuple, computed once."""
    return tuple(window_rows(seed, count))
