"""Sums taken number after number, and what they explain of a target's error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import functional

import convert
from convert.reference.one_by_one import one_by_one, run_one_by_one
from convert.verdict import FAIL, INCONCLUSIVE
from tests.support.onnx_support import array, info, model, read

RNG = np.random.default_rng(0)
X = RNG.uniform(1, 2, (3, 40, 5)).astype(np.float32)


def summed(rows: np.ndarray) -> np.ndarray:
    total = np.zeros(rows.shape[1:], np.float32)
    for row in rows:
        total = total + row
    return total


@pytest.mark.parametrize(("axis", "order"), [(1, (1, 0, 2)), (-1, (2, 0, 1)), ((0, 1), (0, 1, 2)), (None, (0, 1, 2))])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums(axis: int | tuple[int, ...] | None, order: tuple[int, ...], keepdims: bool) -> None:
    got = np.sum(one_by_one(X), axis=axis, keepdims=keepdims)
    axes = range(3) if axis is None else [axis % 3] if isinstance(axis, int) else axis
    rows = np.transpose(X, order).reshape(-1, *(n for a, n in enumerate(X.shape) if a not in axes))
    want = summed(rows)
    assert got.shape == np.sum(X, axis=axis, keepdims=keepdims).shape
    np.testing.assert_array_equal(np.asarray(got).reshape(want.shape), want)


def test_means_products_and_what_follows() -> None:
    a, b = X[0], X[1].T.copy()
    product = one_by_one(a) @ one_by_one(b)
    np.testing.assert_array_equal(np.asarray(product), summed(np.stack([np.outer(a[:, k], b[k]) for k in range(5)])))
    mean = np.mean(one_by_one(X), axis=1)
    np.testing.assert_array_equal(np.asarray(mean), summed(X.swapaxes(0, 1)) / np.float32(40))
    again = np.sum(np.exp(-one_by_one(X)).reshape(-1, 2), axis=0)
    np.testing.assert_array_equal(np.asarray(again), summed(np.exp(-X).reshape(-1, 2)))


def test_integers_stay_and_float64_is_summed_in_float64() -> None:
    wide, whole = np.array([2.0**53] + [1.0] * 1000), np.arange(6)
    assert one_by_one(wide).sum() == 2.0**53  # each 1 is lost by itself; two of them together are not
    assert one_by_one(wide[::-1]).sum() == 2.0**53 + 1000
    assert one_by_one(whole) is whole


def test_a_run_of_a_graph() -> None:
    weights = RNG.standard_normal((7, 3, 3)).astype(np.float32)
    made = read(
        model(
            [
                onnx.helper.make_node("Conv", ["x", "w"], ["h"]),
                onnx.helper.make_node("ReduceMean", ["h", "a"], ["y"], keepdims=0),
            ],
            [info("x", [2, 3, 50])],
            [info("y", None)],
            [array("w", weights), array("a", [2], np.int64)],
        )
    )
    x = RNG.standard_normal((2, 3, 50)).astype(np.float32)
    got = run_one_by_one(made, {"x": x})["y"]
    assert type(got) is np.ndarray
    exact = functional.conv1d(torch.from_numpy(x).double(), torch.from_numpy(weights).double()).mean(2).numpy()
    np.testing.assert_allclose(got, exact, atol=1e-5)


def test_a_graph_is_summed_in_the_order_that_is_asked_for() -> None:
    """Beside 2**24 each 1 is lost by itself, in float32; the ones together are not."""
    made = read(
        model([onnx.helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], [info("x", [101])], [info("y", [])])
    )
    x = np.array([2.0**24] + [1.0] * 100, np.float32)
    assert run_one_by_one(made, {"x": x})["y"] == 2.0**24
    assert run_one_by_one(made, {"x": x}, backwards=True)["y"] == 2.0**24 + 100


def test_coordinates_are_rounded() -> None:
    """320/70 is not a float32, and onnxruntime divides by it; 70/320, which PyTorch multiplies by, is one."""
    node = onnx.helper.make_node("Resize", ["x", "", "", "n"], ["y"], mode="linear")
    proto = model([node], [info("x", [1, 1, 70, 9])], [info("y", None)], [array("n", [1, 1, 320, 9], np.int64)])
    x = RNG.standard_normal((1, 1, 70, 9)).astype(np.float32)
    single, exact = (
        functional.interpolate(torch.from_numpy(x).to(dtype), (320, 9), mode="bilinear").numpy()
        for dtype in (torch.float32, torch.float64)
    )
    (deployed,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    got = run_one_by_one(read(proto), {"x": x})["y"]
    assert np.abs(deployed - exact).max() > 16 * np.abs(single - exact).max()
    assert np.abs(deployed - exact).max() < 2 * np.abs(got - exact).max() < 1e-4


class Normed(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, 32)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.relu() + 2) * self.factor


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "wrong"), [(1.0, False), (1.001, True)])
def test_long_sums_are_no_failure_and_another_function_is(factor: float, wrong: bool, tmp_path: Path) -> None:
    """onnxruntime's GroupNormalization over 131,072 elements is 1e-5 off, a factor of 1.001 is 1e-3."""
    x, path = torch.from_numpy(RNG.standard_normal((2, 32, 64, 64)).astype(np.float32)), tmp_path / "m.onnx"
    convert.convert(Normed(factor).eval(), "onnx", path, inputs=[x], verify=False)
    verdict = convert.verify(Normed().eval(), path, inputs=[x]).verdict
    assert verdict is not None
    assert verdict.status == (FAIL if wrong else INCONCLUSIVE), verdict.reason
    assert ("other kernels round otherwise" in verdict.reason) is not wrong
