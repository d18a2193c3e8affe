"""Unique, CumSum, Trilu and NonMaxSuppression of the reference executor against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

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


FARTHEST = [-(2**63), 2**63 - 1]


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -5, -2, 0, 1, 4, *FARTHEST])
def test_triangles(k: int | None, upper: int) -> None:
    node = helper.make_node("Trilu", ["x"] if k is None else ["x", "k"], ["y"], upper=upper)
    ort_case(
        [node], {"x": RNG.normal(size=(2, 3, 4)).astype(np.float32)}, [] if k is None else [array("k", k, np.int64)]
    )


@pytest.mark.parametrize("center_point_box", [0, 1])
@pytest.mark.parametrize(
    ("most", "overlap", "least"),
    [(3, 0.3, 0.2), (20, 0.3, None), (20, None, 0.4), (20, None, None), (None, 0.3, None), (None, None, None),
     (0, 0.3, 0.2), (20, 0.3, 9.0), *((n, 0.3, 0.2) for n in FARTHEST), *((n, None, None) for n in FARTHEST)],
)  # fmt: skip
def test_boxes(most: int | None, overlap: float | None, least: float | None, center_point_box: int) -> None:
    given = {"m": (most, np.int64), "o": (overlap, np.float32), "l": (least, np.float32)}
    names = [name if value is not None else "" for name, (value, _) in given.items()]
    while names and not names[-1]:
        names.pop()
    node = helper.make_node("NonMaxSuppression", ["b", "s", *names], ["y"], center_point_box=center_point_box)
    boxes = RNG.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    scores = RNG.uniform(0, 1, (2, 3, 12)).astype(np.float32)
    scores[0, 0, 5:8] = 0.75  # equal scores
    values = [array(name, [value], kind) for name, (value, kind) in given.items() if value is not None]
    ort_case([node], {"b": boxes, "s": scores}, values, TensorProto.INT64)
