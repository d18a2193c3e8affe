"""Resizes after a Transpose, several of them to one size, which onnxruntime's own optimizer would break."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch.nn import functional

import convert


class Pyramid(torch.nn.Module):
    """As in SegFormer's head: channels-last maps of several sizes are resized to the size of the first."""

    def __init__(self, size: tuple[int, int] | None = None) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        size = self.size or x.shape[2:]
        maps = [functional.interpolate(m.permute(0, 3, 1, 2), size=size, mode="bilinear") for m in (y, z)]
        return torch.cat([x, *maps], 1) + functional.interpolate(z.permute(0, 3, 1, 2), size=size).mean(1, keepdim=True)


@pytest.mark.parametrize("size", [None, (8, 6)], ids=["of another tensor", "constant"])
def test_several_resizes_to_one_size(tmp_path: Path, size: tuple[int, int] | None) -> None:
    path = tmp_path / "m.onnx"
    h, w = size or ("h", "w")
    inputs = [f"x:float32[batch,2,{h},{w}]", "y:float32[batch,4,3,3]", "z:float32[batch,c,d,2]"]
    inputs = inputs if size is None else [*inputs[:2], "z:float32[batch,2,2,2]"]
    convert.convert(Pyramid(size), "onnx", path, inputs=inputs, verify=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch, h, w, c, d in ((2, 8, 6, 2, 2), (3, 8, 6, 2, 2), *[(2, 5, 7, 3, 9)] * (size is None)):
        feed = {"x": torch.randn(batch, 2, h, w), "y": torch.randn(batch, 4, 3, 3), "z": torch.randn(batch, c, d, 2)}
        (got,) = session.run(None, {n: t.numpy() for n, t in feed.items()})
        np.testing.assert_allclose(got, Pyramid(size)(**feed).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("computed", "scaled"), [(False, False), (False, True), (True, False)])
def test_a_resize_that_tells_of_all_dims_is_kept_from_the_transpose_before(
    tmp_path: Path, computed: bool, scaled: bool
) -> None:
    """After the Transpose, the resized dims are those of rows and channels, for which the kernel has no linear
    resize.
    """
    numbers = np.float32([1, 1, 2, 0.5]) if scaled else np.int64([2, 5, 10, 3])
    kind, rest = (helper.TensorProto.FLOAT, [""]) if scaled else (helper.TensorProto.INT64, ["", ""])
    nodes = [
        helper.make_node("Transpose", ["x"], ["moved"], perm=[0, 2, 3, 1]),
        helper.make_node("Resize", ["moved", *rest, "numbers"], ["y"], mode="linear"),
    ]
    inputs = [helper.make_tensor_value_info("x", helper.TensorProto.FLOAT, [2, 6, 5, 5])]
    given = helper.make_tensor_value_info("numbers", kind, [4])
    graph = helper.make_graph(nodes, "g", [*inputs, *[given] * computed],
                              [helper.make_tensor_value_info("y", helper.TensorProto.FLOAT, [2, 5, 10, 3])],
                              [] if computed else [numpy_helper.from_array(numbers, "numbers")])  # fmt: skip
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    convert.convert(source, "onnx", tmp_path / "m.onnx", verify=False)
    feed = {"x": np.random.default_rng(0).normal(size=(2, 6, 5, 5)).astype(np.float32)}
    feed |= {"numbers": numbers} if computed else {}
    (want,) = ReferenceEvaluator(source).run(None, feed)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, feed)[0], want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("given", ["sizes of the run", "scales of the run"])
def test_a_resize_that_only_the_run_tells_of_is_kept_from_the_transpose_before(tmp_path: Path, given: str) -> None:
    """From `tests.suites.compose --source onnx --seed 12675`: which dims stay is known at run time only."""
    scaled = given.startswith("scales")
    kind, rest = (helper.TensorProto.FLOAT, [""]) if scaled else (helper.TensorProto.INT64, ["", ""])
    weight = np.random.default_rng(0).normal(size=(4, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["h"], ["moved"], perm=[0, 2, 3, 1]),
        helper.make_node("Resize", ["moved", *rest, "numbers"], ["y"], mode="linear"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.TensorProto.FLOAT, ["b", 1, 3, 4]),
         helper.make_tensor_value_info("numbers", kind, [4])],
        [helper.make_tensor_value_info("y", helper.TensorProto.FLOAT, [None, 3, 1, 3])],
        [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    convert.convert(source, "onnx", tmp_path / "m.onnx", verify=False)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for batch in (1, 5):
        numbers = np.float32([1, 1, 0.25, 0.75]) if scaled else np.int64([batch, 3, 1, 3])
        feed = {"x": np.random.default_rng(1).normal(size=(batch, 1, 3, 4)).astype(np.float32), "numbers": numbers}
        (want,) = ReferenceEvaluator(source).run(None, feed)
        np.testing.assert_allclose(session.run(None, feed)[0], want, rtol=1e-5, atol=1e-5)


PERMUTATIONS = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (1, 0, 2, 3), (3, 0, 1, 2), (2, 3, 0, 1), (3, 2, 1, 0))
DIMS = ((1, 1, 6, 4), (1, 3, 6, 4), (1, 6, 2, 4), (2, 1, 6, 4), (2, 3, 6, 4), (1, 6, 4, 1))


@pytest.mark.parametrize("named", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["known", "named"])
@pytest.mark.parametrize("dims", [*DIMS[:2], *(pytest.param(d, marks=pytest.mark.slow) for d in DIMS[2:])])
@pytest.mark.parametrize("mode", ["linear", "cubic", pytest.param("nearest", marks=pytest.mark.slow)])
def test_a_resize_between_transposes(tmp_path: Path, mode: str, dims: tuple[int, ...], named: bool) -> None:
    """Every order of dims, including dims of 1, because onnxruntime turns a move of a dim of 1 into a Reshape
    and back.
    """
    rng = np.random.default_rng(len(mode))
    for perm in PERMUTATIONS:
        back = [perm.index(i) for i in range(4)]
        shape = [dims[b] for b in back]
        for numbers in (np.int64([*dims[:2], 5, 7]), np.int64([5, 7]), np.float32([1, 1, 0.5, 2])):
            proto = _between_transposes(perm, back, [f"d{i}" for i in range(4)] if named else shape, numbers, mode)
            feed = {"x": rng.normal(size=shape).astype(np.float32)}
            plain = onnxruntime.SessionOptions()
            plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            (want,) = onnxruntime.InferenceSession(proto.SerializeToString(), plain).run(None, feed)
            path = tmp_path / f"{perm}{numbers.dtype}{len(numbers)}.onnx"
            convert.convert(proto, "onnx", path, verify=False)
            (got,) = onnxruntime.InferenceSession(str(path)).run(None, feed)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, atol=1e-5)


def _between_transposes(
    perm: tuple[int, ...], back: list[int], shape: list, numbers: np.ndarray, mode: str
) -> onnx.ModelProto:
    rest = ["", "s"] if numbers.dtype == np.float32 else ["", "", "s"]
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Transpose", ["n"], ["t"], perm=perm),
        helper.make_node("Resize", ["t", *rest], ["r"], mode=mode, **({"axes": [2, 3]} if len(numbers) == 2 else {})),
        helper.make_node("Transpose", ["r"], ["y"], perm=back),
    ]
    ends = [[helper.make_tensor_value_info(n, 1, s)] for n, s in (("x", shape), ("y", [None] * 4))]
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(numbers, "s")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_two_resizes_of_one_value_and_one_of_a_resize(tmp_path: Path) -> None:
    """The nodes inserted before each Resize have different names."""
    text = """(float[b,1,1,3] x) => (float[b,1,2,8] y, float[b,1,3,12] z, float[b,1,6,24] u)
        <float[4] s = {1,1,2,2}, float[4] r = {1,1,3,3}, float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3}> {
        t = Transpose <perm = [0,3,1,2]> (x) c = Conv (t, w) v = Transpose <perm = [0,2,3,1]> (c)
        y = Resize <mode = "cubic"> (v, , s) z = Resize <mode = "linear"> (v, , r)
        u = Resize <mode = "linear"> (z, , s) }"""
    proto = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g ' + text)
    convert.convert(proto, "onnx", tmp_path / "m.onnx", verify=False)
    feed = {"x": np.random.default_rng(0).normal(size=(2, 1, 1, 3)).astype(np.float32)}
    found = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, feed)
    for one, other in zip(found, onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
