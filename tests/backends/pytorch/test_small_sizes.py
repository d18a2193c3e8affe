"""Conditions that a program has only because of layouts are removed if it is right without them, and kept otherwise."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from convert.backends.pytorch.writer.exported import export_model
from convert.backends.pytorch.writer.small_sizes import settle_small_sizes
from torch.export import Dim

from convert.errors import Unsupported
from convert.outcome.report import Report

HEAD = '<ir_version: 10, opset_import: ["" : 21]> graph '
GRAPHS = {
    "a convolution of maps that lie otherwise": (
        """(float[3, b, 8, n] x) => (float[3, d, e, f] y) <int64[2] axes = {1, 3}, float[1, 1, 1, 1] w = {2}> {
            t = Transpose <perm = [0, 3, 1, 2]> (x) m = ReduceMean <keepdims = 1> (t, axes)
            u = Transpose <perm = [0, 3, 1, 2]> (m) y = Conv (u, w) }""",
        {"x": (3, "b", 8, "n")},
    ),
    "products of what broadcasts, in a branch": (
        """(float[b, n] x, float[b, 8, n, 1, 1] z) => (float[b, 8, n, b, n] y) <int64 many = {44}> {
            i = Size (x) g = Greater (i, many)
            r = If (g) <then_branch = a () => (float[b, 8, n, b, n] p) { p = Mul (z, x) },
                        else_branch = c () => (float[b, 8, n, b, n] q) { q = Sub (z, x) }>
            y = Neg (r) }""",
        {"x": ("b", "n"), "z": ("b", 8, "n", 1, 1)},
    ),
    "the largest of what may be nothing": (
        """(float[b, n] x) => (float[b] y, float[n] z)
            <int64[1] first = {0}, int64[1] one = {1}, int64[1] last = {-1}> {
            s = Slice (x, one, last, one) y = ReduceMax <keepdims = 0> (s, one)
            t = Slice (x, one, last, first) z = ReduceMin <keepdims = 0> (t, first) }""",
        {"x": ("b", "n")},
    ),
    "every second without the ends, of which one is left of the example": (
        """(float[b, 4, 2] x) => (float[c, 4, 2] y)
            <int64[1] first = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1}, int64[1] next = {-2},
             int64[2] axes = {0, 1}> {
            e = Slice (x, next, last, first, one) k = Sum (x, e) r = ReduceL1 <keepdims = 1> (k, axes)
            m = GlobalAveragePool (r) s = Slice (x, one, last, first, two) y = Sum (s, m, s) }""",
        {"x": ("b", 4, 2)},
    ),
    "every second of windows, of which one is left of two": (
        """(float[1, 3, b, n] x) => (float[1, 3, c, d] y)
            <float[3, 1, 1, 1] w = {1, 2, 3}, int64[4] by = {1, 1, 2, 1}> {
            v = Conv <strides = [2, 2], group = 3> (x, w) g = ReduceMax <keepdims = 0> (v) z = Less (g, g)
            y = If (z) <then_branch = a () => (float[1, 3, c, d] p) { p = Neg (v) },
                        else_branch = e () => (float[1, 3, c, d] q) { q = Add (v, v) }> }""",
        {"x": (1, 3, "b", "n")},
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_sizes_of_one_are_taken(name: str) -> None:
    text, shapes = GRAPHS[name]
    proto = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    program = export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto))).module()
    for b, n in ((1, 1), (1, 3), (3, 1), (2, 4), (2, 2), (6, 8)):
        sizes = {"b": b, "n": n}
        feed = {
            k: np.random.default_rng(b).normal(size=[sizes.get(str(d), d) for d in shape]).astype(np.float32)
            for k, shape in shapes.items()
        }
        found = program(*map(torch.from_numpy, feed.values()))
        for output, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
            np.testing.assert_allclose(found[output.name].detach().numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_pools_in_branches_have_sizes_that_pytorch_thinks_may_be_0() -> None:
    """PyTorch writes the strides of such a tensor with a maximum, and does not recognize them as products of sizes."""
    text = """(float[b, 3, h, w] x, bool g) => (float[b, 3, c, d] y) {
        y = If (g) <
            then_branch = a () => (float[b, 3, i, j] p) { p = AveragePool <kernel_shape = [2, 2], strides = by> (x) },
            else_branch = e () => (float[b, 3, k, l] q) { q = MaxPool <kernel_shape = [2, 2], strides = by> (x) }> }"""
    text = text.replace("by", "[2, 2]")
    proto = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    program = export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto))).module()
    for shape in ((2, 3, 4, 6), (1, 3, 2, 2), (3, 3, 7, 5), (1, 3, 9, 3)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        for flag in (True, False):
            found = program(torch.from_numpy(x), torch.tensor(flag))["y"].numpy()
            np.testing.assert_allclose(found, session.run(None, {"x": x, "g": np.array(flag)})[0], rtol=1e-6, atol=1e-6)


def test_branches_one_of_which_has_a_size_of_one() -> None:
    """A program treats such a result as not broadcast, and would fail if it is."""
    text = """(float[2, 3] x, bool g) => (float[2, 3] y) {
        r = If (g) <then_branch = a () => (float[u, 3] p) { p = Neg (x) },
                    else_branch = c () => (float[u, 3] q) { q = ReduceSum <keepdims = 1> (x, first) }>
        y = Add (r, x) }"""
    proto = onnx.parser.parse_model(HEAD + text.replace(" {", " <int64[1] first = {0}> {", 1))
    with pytest.raises(Unsupported, match="or in a size that is 1 in one"):
        export_model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


def test_what_follows_from_sizes_from_two_on_refuses_a_size_of_one() -> None:
    """Branches of two ranks can be captured only if a size selects one: `x[-2:]` has two rows, but not for a batch of
    one.
    """
    proto = onnx.parser.parse_model(
        HEAD
        + """(float[b] x, float[3] z) => (float y) <int64[1] start = {-2}, int64[1] end = {99}, int64 one = {1}> {
            s = Slice (x, start, end) n = Size (s) g = Greater (n, one)
            y = If (g) <then_branch = a () => (float p) { p = ReduceSum <keepdims = 0> (x) },
                        else_branch = c () => (float[3] q) { q = Neg (z) }> }"""
    )
    report = Report("convert")
    program = export_model(ir.from_proto(proto), report=report).module()
    z = torch.ones(3)
    for n in (2, 3, 9):
        assert program(torch.arange(float(n)), z)["y"] == n * (n - 1) / 2
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] != 1"):
        program(torch.ones(1), z)
    assert report.notes == ["PyTorch captures the network for sizes of b from 2 on: 1 is refused"]


class Decides(torch.nn.Module):
    """Computes twice the input, but `factor` times it for the batch size `other`."""

    def __init__(self, other: int, factor: float) -> None:
        super().__init__()
        self.other, self.factor = other, factor

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + x if x.shape[0] != self.other else x * self.factor}


# 30 is not one of the sizes that are tried.
@pytest.mark.parametrize(
    ("other", "factor", "stays"),
    [(1, 2.0, False), (1, 3.0, True), (3, 2.0, False), (3, 3.0, True), (30, 2.0, True)],
)
def test_a_guard_stays_where_the_module_computes_something_else(other: int, factor: float, stays: bool) -> None:
    module = Decides(other, factor)
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        program = torch.export.export(module, (torch.ones(5, 2),), dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    text = "(float[b, 2] x) => (float[b, 2] y) { y = Add (x, x) }"
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    assert len(program._guards_code) == 1
    settle_small_sizes(program, module, model, model.graph.inputs, {"b": 5})
    assert len(program._guards_code) == stays


class Bounded(torch.nn.Module):
    """Computes something else from a certain size on."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + x if x.shape[0] <= self.bound else x * 3}


@pytest.mark.parametrize("bound", [100, 70_000])
def test_a_bound_of_sizes_stays(bound: int) -> None:
    module = Bounded(bound)
    program = torch.export.export(module, (torch.ones(5, 2),), dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    model = ir.from_proto(onnx.parser.parse_model(HEAD + "(float[b, 2] x) => (float[b, 2] y) { y = Add (x, x) }"))
    before = list(program._guards_code)
    assert before
    settle_small_sizes(program, module, model, model.graph.inputs, {"b": 5})
    assert program._guards_code == before


class Reduced(torch.nn.Module):
    """A module that accepts every size, and computes one row and several rows in the same way."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if x.shape[0] == 0:
            raise ValueError("of nothing there is none")
        return {"y": x + x if x.shape[0] > 1 else x * 2}


def test_nothing_is_kept_out_alone() -> None:
    """If the module refuses a size of 1 and the program would not, the size is still accepted."""
    module = Reduced()
    with torch.fx.experimental._config.patch(backed_size_oblivious=True):
        program = torch.export.export(module, (torch.ones(5, 2),), dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    model = ir.from_proto(onnx.parser.parse_model(HEAD + "(float[b, 2] x) => (float[b, 2] y) { y = Add (x, x) }"))
    settle_small_sizes(program, module, model, model.graph.inputs, {"b": 5})
    taken = program.module()
    assert taken(torch.ones(1, 2))["y"].tolist() == [[2, 2]]
    with pytest.raises(AssertionError, match="!= 0"):
        taken(torch.ones(0, 2))
