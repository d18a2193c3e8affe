"""Operators in dtypes that onnxruntime has no kernel for are written with casts, load, and compute what NumPy or
PyTorch does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends import onnx as backend
from convert.backends.onnx.lower import lower
from convert.backends.onnx.runtimes.onnxruntime_casts import KERNELS, SINCE
from onnx import helper

from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import info, model, read, session

RUNTIME = tuple(int(n) for n in onnxruntime.__version__.split(".")[:2])
ROWS = np.array([[3, 0, 100], [7, 0, 1]])
SIDES = np.array([[True, False, True], [False, True, False]])

WANTED: dict[str, Any] = {
    "Where": lambda c, a, b: np.where(c, a, b),
    "Max": np.maximum,
    "Min": np.minimum,
    "Clip": lambda x, low, high: np.clip(x, low, high),
    "Pad": lambda x, pads, fill: np.pad(x, ((1, 0), (0, 2)), constant_values=fill),
    "ArgMax": lambda x: x.argmax(0, keepdims=True),
    "ArgMin": lambda x: x.argmin(0, keepdims=True),
    "Trilu": lambda x: np.triu(x),
    "ReduceSum": lambda x: x.sum(keepdims=True, dtype=x.dtype),
    "ReduceMax": lambda x: x.max(keepdims=True),
    "ReduceMin": lambda x: x.min(keepdims=True),
    "BitShift": lambda x, y: np.left_shift(x, y),
    "NonZero": lambda x: np.stack(np.nonzero(x)),
    "Resize": lambda x, region, scales: np.repeat(x, 2, 0),
    "SpaceToDepth": lambda x: x.reshape(1, 4, 1, 1),
    "DepthToSpace": lambda x: x.reshape(1, 1, 2, 2),
    "Unique": lambda x: np.unique(x),
    "TopK": lambda x, k: np.sort(x)[:, :0:-1],
    "CumSum": lambda x, axis: x.cumsum(axis, dtype=x.dtype),
    "Relu": lambda x: np.maximum(x, 0),
}
ATTRIBUTES: dict[str, Any] = {
    "BitShift": {"direction": "LEFT"},
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "SpaceToDepth": {"blocksize": 2},
    "DepthToSpace": {"blocksize": 2},
}


def feeds_of(operator: str, x: np.ndarray) -> list[np.ndarray]:
    if operator == "Where":
        return [SIDES, x, x[::-1].copy()]
    if operator in ("Max", "Min"):
        return [x, x[::-1].copy()]
    if operator == "Clip":
        return [x, x.dtype.type(1), x.dtype.type(50)]
    if operator == "Pad":
        return [x, np.array([1, 0, 0, 2]), x.dtype.type(9)]
    if operator == "BitShift":
        return [x, np.full_like(x, 12)]
    if operator == "Resize":
        return [x, np.zeros(0, np.float32), np.float32([2, 1])]
    if operator in ("SpaceToDepth", "DepthToSpace"):
        return [x[:, :2].reshape((1, 1, 2, 2) if operator == "SpaceToDepth" else (1, 4, 1, 1))]
    if operator in ("TopK", "CumSum"):
        return [x, np.array([2]) if operator == "TopK" else np.array(1)]
    return [x]


@pytest.mark.parametrize(("operator", "dtype"), [(o, d) for o, dtypes in KERNELS.items() for d in dtypes], ids=str)
def test_it_loads_and_computes_what_numpy_does(operator: str, dtype: Any, tmp_path: Path) -> None:
    feeds = [np.asarray(v) for v in feeds_of(operator, ROWS.astype(dtype.numpy()))]
    want = WANTED[operator](*feeds)
    inputs = [info(f"x{i}", v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for i, v in enumerate(feeds)]
    out = info("y", [None] * want.ndim, helper.np_dtype_to_tensor_dtype(want.dtype))
    results = ["y", "places"] if operator == "TopK" else ["y"]
    node = helper.make_node(operator, [v.name for v in inputs], results, **ATTRIBUTES.get(operator, {}))
    proto = model([node], inputs, [out], opset=20)
    if SINCE.get((operator, dtype), (99,)) > RUNTIME:
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            session(proto)  # this row is needed
    else:
        session(proto)
    backend.write(read(proto), tmp_path / "m.onnx", "onnx", Options(extra={"opset": 20}), Report("test"))
    (got,) = session(tmp_path / "m.onnx").run(None, {f"x{i}": v for i, v in enumerate(feeds)})
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_a_sum_of_32_bits_runs_over(tmp_path: Path) -> None:
    """onnxruntime's sum saturates, so it needs casts; sums of narrower integers need none."""
    large = np.array([[2**31 - 1, 2**31 - 1, 5], [-(2**31), -7, 1]], np.int32)
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0),
             helper.make_node("Cast", ["b"], ["n"], to=onnx.TensorProto.INT32),
             helper.make_node("ReduceSum", ["n", "axes"], ["count"], keepdims=0)]  # fmt: skip
    inputs = [info("x", [2, 3], onnx.TensorProto.INT32), info("b", [2, 3], onnx.TensorProto.BOOL)]
    outputs = [info(name, [2], onnx.TensorProto.INT32) for name in ("y", "count")]
    axes = helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
    proto = model(nodes, inputs, outputs, [axes], opset=20)
    backend.write(read(proto), tmp_path / "m.onnx", "onnx", Options(extra={"opset": 20}), Report("test"))
    got, count = session(tmp_path / "m.onnx").run(None, {"x": large, "b": SIDES})
    np.testing.assert_array_equal(got, large.sum(1, dtype=np.int32))
    np.testing.assert_array_equal(count, SIDES.sum(1))
    assert [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node].count("Cast") == 3


@pytest.mark.parametrize("dims", [["n"], [40_000]])
def test_a_sum_of_many_16_bits_runs_over(dims: list[Any], tmp_path: Path) -> None:
    sound = np.full(40_000, 65535, np.uint16)
    nodes = [helper.make_node("Cast", ["x"], ["n"], to=onnx.TensorProto.INT32),
             helper.make_node("ReduceSum", ["n"], ["y"], keepdims=0)]  # fmt: skip
    proto = model(nodes, [info("x", dims, onnx.TensorProto.UINT16)], [info("y", [], onnx.TensorProto.INT32)], opset=20)
    backend.write(read(proto), tmp_path / "m.onnx", "onnx", Options(extra={"opset": 20}), Report("test"))
    (got,) = session(tmp_path / "m.onnx").run(None, {"x": sound})
    np.testing.assert_array_equal(got, sound.sum(dtype=np.int64).astype(np.int32))


@pytest.mark.parametrize("operator", ["Mul", "Add", "Sub"])
def test_what_a_float32_model_computes_in_bfloat16_is_rounded_the_same(operator: str, tmp_path: Path) -> None:
    narrow = [helper.make_node("Cast", [f"x{i}"], [f"n{i}"], to=onnx.TensorProto.BFLOAT16) for i in range(2)]
    nodes = [*narrow, helper.make_node(operator, ["n0", "n1"], ["m"]),
             helper.make_node("Cast", ["m"], ["y"], to=onnx.TensorProto.FLOAT)]  # fmt: skip
    proto = model(nodes, [info(f"x{i}", ["n"]) for i in range(2)], [info("y", ["n"])], opset=22)
    backend.write(read(proto), tmp_path / "m.onnx", "onnx", Options(extra={"opset": 22}), report := Report("test"))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=99).astype(np.float32) for _ in range(2)]
    (got,) = session(tmp_path / "m.onnx").run(None, {f"x{i}": x for i, x in enumerate(given)})
    compute = {"Mul": torch.mul, "Add": torch.add, "Sub": torch.sub}[operator]
    want = compute(*(torch.from_numpy(x).bfloat16() for x in given)).float().numpy()
    np.testing.assert_array_equal(got, want)
    assert [note for note in report.notes if note.code == "missing-kernels"] == []


def test_a_clone_that_is_lowered_leaves_the_model_as_it_was() -> None:
    """`check` lowers a clone before the model itself is written, so the two must not share types that are changed."""
    node = helper.make_node("Max", ["a", "b"], ["y"])
    ends = [info(name, [3], onnx.TensorProto.INT16) for name in "aby"]
    shared = read(model([node], ends[:2], ends[2:]))
    lower(shared.clone(), 20)
    assert [v.dtype for v in (*shared.graph.inputs, *shared.graph.outputs)] == [ir.DataType.INT16] * 3
