"""Unique and CumSum of the reference executor against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from convert.reference.executor import run
from tests.convert.reference.kernels.support import RNG, ort_case
from tests.support.onnx_support import array, assert_same, info, model, read, run_ort

TEXTS = np.array(["b", "ab", "", "b", "a", "ab"], object)
NUMBERS = RNG.integers(0, 3, (5, 4)).astype(np.float32)


@pytest.mark.parametrize("outputs", [["y"], ["y", "i"], ["y", "", "v"], ["y", "i", "v", "c"]], ids=len)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("x", "axis"), [(NUMBERS, None), (NUMBERS[:, :2], 0), (NUMBERS[:2], 1), (NUMBERS[:2], -1), (TEXTS, None)]
)
def test_unique(x: np.ndarray, axis: int | None, order: int, outputs: list[str]) -> None:
    node = helper.make_node("Unique", ["x"], outputs, sorted=order, **({} if axis is None else {"axis": axis}))
    named = [name for name in outputs if name]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    results = [info(name, None, dtype if name == "y" else 7) for name in named]
    proto = model([node], [info("x", x.shape, dtype)], results)
    found = run(read(proto), {"x": x})
    for name, want in zip(named, run_ort(proto, {"x": x}), strict=True):
        assert_same(found[name], want)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [[0], -1, 1])
def test_cumulative_sums(axis: int | list[int], exclusive: int, reverse: int) -> None:
    node = helper.make_node("CumSum", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
    ort_case([node], {"x": RNG.normal(size=(3, 4, 2)).astype(np.float32)}, [array("a", axis, np.int64)])
