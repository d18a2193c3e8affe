"""Pads and counts of windows in convert/semantics, in the reference executor and in onnxruntime, over a grid."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

from convert.reference.kernels.nn import padding
from convert.reference.kernels.pool import average_pool, max_pool
from convert.semantics.windows import Window, ceil_pad, extent, same_pads, split_pads, window_count
from tests.support.marks import slow
from tests.support.onnx_support import array, info, model, run_ort

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11)
KERNELS = (1, 2, 3, 5)
STRIDES = (1, 2, 3, 4)
DILATIONS = (1, 2, 3)
PADS = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2))

Row = tuple[int, int, int, int, tuple[int, int]]


def grid(auto_pad: str) -> list[Row]:
    """Return length, kernel, stride, dilation and pads for which a whole window fits, and pads are smaller than the
    kernel.

    onnxruntime lacks SAME with dilations, and differs where SAME would remove elements (see below).
    """
    if auto_pad.startswith("SAME"):
        rows = product(LENGTHS, KERNELS, STRIDES, (1,), ((0, 0),))
        return [row for row in rows if (-(-row[0] // row[2]) - 1) * row[2] + row[1] >= row[0]]
    rows = product(LENGTHS, KERNELS, STRIDES, DILATIONS, PADS if auto_pad == "NOTSET" else ((0, 0),))
    return [row for row in rows if max(row[4]) < row[1] and row[0] + sum(row[4]) >= extent(row[1], row[3])]


def meets_input(row: Row, auto_pad: str, ceil_mode: int) -> bool:
    """Return whether every window has an element in the input; with a dilation, all elements may be in the pads."""
    before, _, count = resolved(row, auto_pad, ceil_mode)
    where = places(row, before, count)
    return bool(((where >= 0) & (where < row[0])).any(1).all())


def resolved(row: Row, auto_pad: str, ceil_mode: int) -> tuple[int, int, int]:
    """Return the pads before and after, and the number of windows."""
    n, k, s, d, pads = row
    window = Window.of([k], [s], [d], pads).with_auto_pad([n], auto_pad)
    assert window is not None
    if ceil_mode and not auto_pad.startswith("SAME"):
        window = window.with_ceil_mode([n])
    return window.before[0], window.after[0], window.counts([n])[0]


def attributes(row: Row, auto_pad: str) -> dict[str, Any]:
    _, k, s, d, pads = row
    every = {"kernel_shape": [k], "strides": [s], "dilations": [d], "auto_pad": auto_pad}
    return every if auto_pad != "NOTSET" else {**every, "pads": list(pads)}


def places(row: Row, before: int, count: int) -> np.ndarray:
    """Return, as [count, kernel], the input index at each tap of each window; indices in the pads are out of range."""
    _, k, s, d, _ = row
    return np.arange(count)[:, None] * s + np.arange(k) * d - before


def ort_outputs(operator: str, rows: list[Row], auto_pad: str, **more: Any) -> list[np.ndarray]:
    """Each row's output for its ramp, by onnxruntime, in one model."""
    nodes, constants = [], []
    for i, row in enumerate(rows):
        names = [f"x{row[0]}"]
        if operator == "Conv":
            constants.append(array(f"w{i}", weights(row[1]).reshape(1, 1, -1)))
            names.append(f"w{i}")
        nodes.append(helper.make_node(operator, names, [f"y{i}"], **attributes(row, auto_pad), **more))
    lengths = sorted({row[0] for row in rows})
    proto = model(nodes, [info(f"x{n}", [1, 1, n]) for n in lengths], [info(f"y{i}", None) for i in range(len(rows))],
                  constants, opset=22, ir_version=10)  # fmt: skip
    return [y[0, 0] for y in run_ort(proto, {f"x{n}": ramp(n).reshape(1, 1, n) for n in lengths})]


def ramp(n: int) -> np.ndarray:
    """Return powers; sums of different powers are never equal."""
    return (2.0 ** np.arange(n)).astype(np.float32)


def weights(k: int) -> np.ndarray:
    return np.arange(1, k + 1, dtype=np.float32)


def taken(x: np.ndarray, where: np.ndarray, fill: float) -> np.ndarray:
    """Return the elements at some positions, and `fill` in the pads."""
    return np.where((where >= 0) & (where < len(x)), x[where.clip(0, len(x) - 1)], fill)


AUTO_PADS = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


@pytest.mark.parametrize("auto_pad", AUTO_PADS)
def test_convolutions(auto_pad: str) -> None:
    rows = grid(auto_pad)
    for row, y in zip(rows, ort_outputs("Conv", rows, auto_pad), strict=True):
        before, after, count = resolved(row, auto_pad, 0)
        n, k, s, d, pads = row
        assert padding([n], [k], [s], [d], list(pads), auto_pad) == ([before], [after]), row
        own = taken(ramp(n), places(row, before, count), 0) @ weights(k)
        np.testing.assert_array_equal(y, own, err_msg=str(row))


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("auto_pad", AUTO_PADS)
def test_max_pools(auto_pad: str, ceil_mode: int) -> None:
    rows = [row for row in grid(auto_pad) if meets_input(row, auto_pad, ceil_mode)]
    for row, y in zip(rows, ort_outputs("MaxPool", rows, auto_pad, ceil_mode=ceil_mode), strict=True):
        before, _, count = resolved(row, auto_pad, ceil_mode)
        own = taken(ramp(row[0]), places(row, before, count), -np.inf).max(1)
        np.testing.assert_array_equal(y, own, err_msg=str(row))
        x = ramp(row[0]).reshape(1, 1, -1)
        every = {"pads": None, **attributes(row, auto_pad), "ceil_mode": ceil_mode, "storage_order": 0}
        np.testing.assert_array_equal(max_pool(1, x, **every)[0, 0], own, err_msg=str(row))


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("auto_pad", slow(AUTO_PADS, "NOTSET"))
def test_average_pools(auto_pad: str, ceil_mode: int, include: int) -> None:
    """The elements that ceil_mode adds are never counted; explicit pads are counted with count_include_pad."""
    rows = [row for row in grid(auto_pad) if meets_input(row, auto_pad, ceil_mode)]
    more = {"ceil_mode": ceil_mode, "count_include_pad": include}
    for row, y in zip(rows, ort_outputs("AveragePool", rows, auto_pad, **more), strict=True):
        before, _, count = resolved(row, auto_pad, ceil_mode)
        _, after, _ = resolved(row, auto_pad, 0)
        where = places(row, before, count)
        first, last = (-before, row[0] + after) if include else (0, row[0])
        own = taken(ramp(row[0]), where, 0).sum(1) / ((where >= first) & (where < last)).sum(1)
        x = ramp(row[0]).astype(np.float64).reshape(1, 1, -1)
        every = {"pads": None, **attributes(row, auto_pad), **more}
        np.testing.assert_allclose(average_pool(1, x, **every)[0, 0], own, rtol=1e-12, err_msg=str(row))
        np.testing.assert_allclose(y, own, rtol=1e-6, err_msg=str(row))


@pytest.mark.parametrize(
    ("row", "conv", "pool"),
    [((4, 1, 4, 1, (0, 0)), 1, 1), ((3, 1, 3, 1, (0, 0)), 0, 1), ((8, 2, 4, 1, (0, 0)), 0, 1)],
)
def test_where_onnxruntime_departs_from_same(row: Row, conv: int, pool: int) -> None:
    """If the stride skips elements, SAME removes none here, as in TensorFlow, where the rule comes from.

    onnxruntime removes elements at the beginning, for some amounts in pools only; its MaxPool refuses others.
    """
    n, k, s, d, _ = row
    before, after, count = resolved(row, "SAME_UPPER", 0)
    assert (before, after, count) == (0, 0, -(-n // s))
    assert padding([n], [k], [s], [d], None, "SAME_UPPER") == ([0], [0])
    where = places(row, 0, count)
    y = ort_outputs("Conv", [row], "SAME_UPPER")[0]
    np.testing.assert_array_equal(y, taken(ramp(n), where + conv, 0) @ weights(k))
    y = ort_outputs("AveragePool", [row], "SAME_UPPER")[0]
    np.testing.assert_array_equal(y, taken(ramp(n), where + pool, 0).mean(1))
    with pytest.raises(Exception, match="padding values must be non-negative"):
        ort_outputs("MaxPool", [row], "SAME_UPPER")


def test_where_onnxruntime_departs_in_windows_of_pads() -> None:
    """The maximum of nothing is −inf, and its mean is NaN; onnxruntime returns the lowest number and zero."""
    row = (1, 2, 1, 2, (1, 1))
    assert not meets_input(row, "NOTSET", 0)
    every, x = {**attributes(row, "NOTSET"), "ceil_mode": 0}, ramp(1).reshape(1, 1, 1)
    assert max_pool(1, x, **every, storage_order=0).item() == -np.inf
    assert ort_outputs("MaxPool", [row], "NOTSET")[0].item() == np.finfo(np.float32).min
    with np.errstate(invalid="ignore"):
        assert np.isnan(average_pool(1, x, **every, count_include_pad=0)).all()
    assert ort_outputs("AveragePool", [row], "NOTSET")[0].item() == 0


def test_ceil_pad_is_no_larger_than_it_need_be() -> None:
    for n, k, s, d, (before, after) in grid("NOTSET"):
        span, pad = extent(k, d), ceil_pad(n, extent(k, d), s, before, after)
        assert pad >= after or window_count(n, span, s, before, after) > window_count(n, span, s, before, pad)
        if pad > after:
            assert window_count(n, span, s, before, pad) == window_count(n, span, s, before, pad - 1) + 1


def test_one_pad_is_ceil_mode_for_every_size() -> None:
    """The number of windows is the definition's: rounded up, without those that would start in the padding."""
    for k, s, d, (before, after) in product(KERNELS, STRIDES, DILATIONS, PADS):
        span = extent(k, d)
        pad = ceil_pad(None, span, s, before, after)
        for n in range(1, 40):
            m = n + before
            wanted = min(-(-(m + after - span) // s) + 1, -(-m // s))
            assert window_count(n, span, s, before, pad) == wanted, (n, k, s, d, before, after)
            assert window_count(n, span, s, before, ceil_pad(n, span, s, before, after)) == wanted


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_pads_that_suit_every_size_read_the_same_elements(auto_pad: str) -> None:
    found = 0
    for k, s, d in product(KERNELS, STRIDES, DILATIONS):
        pads = same_pads(None, extent(k, d), s, auto_pad)
        found += pads is not None
        for n in range(1, 20) if pads is not None else ():
            row = (n, k, s, d, pads)
            own = resolved(row, auto_pad, 0)
            assert window_count(n, extent(k, d), s, *pads) == own[2], row
            taps = [places(row, before, own[2]) for before in (pads[0], own[0])]
            assert np.array_equal(*(np.where((t < 0) | (t >= n), -1, t) for t in taps)), row
    assert found > 12


def test_same_pads_do_not_depend_on_the_size_where_windows_start_everywhere() -> None:
    for span in range(1, 9):
        for auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            assert len({same_pads(n, span, 1, auto_pad) for n in range(12)}) == 1


def test_the_odd_pad() -> None:
    assert split_pads(3, "SAME_UPPER") == (1, 2)
    assert split_pads(3, "SAME_LOWER") == split_pads(3, "NOTSET") == (2, 1)
