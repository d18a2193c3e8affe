"""torchvision's operators against their definitions in plain numpy, and files that name them if it is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from convert.backends.onnx.lower import lower
from convert.frontends.pytorch import ops  # noqa: F401  (fills the table)
from convert.frontends.pytorch.common.values import onnx_dtype
from convert.frontends.pytorch.dispatch import call
from convert.frontends.pytorch.files import custom_operators
from convert.frontends.pytorch.rules import torch_op

import convert.api
from convert.errors import BadInput, Location
from convert.graph import Graph

RANDOM = np.random.default_rng(0)


def applied(name: str, *args: Any, known: bool = True) -> list[np.ndarray]:
    """Return the results of the rule for an operator on arrays and numbers, run by onnxruntime; only `known` sizes are
    in the graph.
    """
    g, feeds = Graph(), {}
    values = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            feeds[f"x{len(feeds)}"] = arg
            shape = arg.shape if known or arg.ndim == 4 else [f"d{len(feeds)}", *arg.shape[1:]]
            values.append(g.input(f"x{len(feeds) - 1}", onnx_dtype(torch.from_numpy(arg).dtype), shape))
        else:
            values.append(arg)
    schema = torch._C.parse_schema(f"torchvision::{custom_operators._SCHEMAS[f'torchvision::{name}']}")
    result = call(g, schema, values, {}, Location(name))
    for i, value in enumerate(result if isinstance(result, list) else [result]):
        if value is not None:
            g.output(value, f"y{i}")
    # The runtime has no RoiAlign of opset 22, which on float32 is the same operator as that of opset 16.
    model = g.model()
    lower(model, 20)
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, feeds)


def boxes(count: int, size: float) -> np.ndarray:
    corners = RANDOM.uniform(0, size, (count, 2, 2)).astype(np.float32)
    return np.concatenate([corners.min(1), corners.max(1)], 1)


# -- definitions ------------------------------------------------------------------------------------------------------


def nms(dets: np.ndarray, scores: np.ndarray, threshold: float) -> np.ndarray:
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        low, high = np.maximum(dets[i, :2], dets[kept, :2]), np.minimum(dets[i, 2:], dets[kept, 2:])
        common = np.maximum(high - low, 0).prod(-1)
        if not (common / (area[i] + area[kept] - common) > threshold).any():
            kept.append(int(i))
    return np.array(kept)


def sampled(x: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return x [C, H, W] at points between pixels: bilinear, clamped at the border, zero beyond one pixel outside."""
    height, width = x.shape[1:]
    outside = (rows < -1) | (rows > height) | (columns < -1) | (columns > width)
    r, c = np.maximum(rows, 0), np.maximum(columns, 0)
    r0, c0 = np.minimum(r.astype(int), height - 1), np.minimum(c.astype(int), width - 1)
    r, c = np.where(r0 >= height - 1, r0, r), np.where(c0 >= width - 1, c0, c)
    r1, c1 = np.minimum(r0 + 1, height - 1), np.minimum(c0 + 1, width - 1)
    a, b = r - r0, c - c0
    value = x[:, r0, c0] * (1 - a) * (1 - b) + x[:, r0, c1] * (1 - a) * b + x[:, r1, c0] * a * (1 - b)
    return np.where(outside, 0, value + x[:, r1, c1] * a * b)


def roi_align(x: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Any:
    out = np.zeros((len(rois), x.shape[1], height, width))
    for k, (picture, *corners) in enumerate(rois):
        x1, y1, x2, y2 = np.array(corners, np.float64) * scale - (0.5 if aligned else 0)
        w, h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
        ny, nx = (ratio, ratio) if ratio > 0 else (int(np.ceil(h / height)), int(np.ceil(w / width)))
        for i in range(height):
            for j in range(width):
                rows = y1 + h / height * (i + (np.arange(ny) + 0.5) / max(ny, 1))
                columns = x1 + w / width * (j + (np.arange(nx) + 0.5) / max(nx, 1))
                grid = np.meshgrid(rows, columns, indexing="ij")
                out[k, :, i, j] = sampled(x[int(picture)], *grid).sum((1, 2)) / max(nx * ny, 1)
    return out


def ps_roi_align(x: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int, ratio: int) -> np.ndarray:
    every = roi_align(x, rois, scale, height, width, ratio, True).reshape(len(rois), -1, height, width, height, width)
    return np.einsum("kcijij->kcij", every)


def roi_pool(x: np.ndarray, rois: np.ndarray, scale: float, height: int, width: int) -> np.ndarray:
    out = np.zeros((len(rois), x.shape[1], height, width))
    for k, (picture, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(c * scale + 0.5)) for c in corners)
        w, h = max(x2 - x1 + 1, 1), max(y2 - y1 + 1, 1)
        for i in range(height):
            for j in range(width):
                top, bottom = (
                    np.clip(int(f) + y1, 0, x.shape[2]) for f in (i * h // height, -(-(i + 1) * h // height))
                )
                left, right = (np.clip(int(f) + x1, 0, x.shape[3]) for f in (j * w // width, -(-(j + 1) * w // width)))
                part = x[int(picture), :, top:bottom, left:right]
                out[k, :, i, j] = part.max((1, 2)) if part.size else 0
    return out


def deform_conv2d(
    x: np.ndarray, weight: np.ndarray, offset: np.ndarray, mask: np.ndarray, bias: np.ndarray, stride: tuple[int, int],
    pad: tuple[int, int], dilation: tuple[int, int], groups: int, offset_groups: int,
) -> np.ndarray:  # fmt: skip
    n, c = x.shape[:2]
    kh, kw = weight.shape[2:]
    oh, ow = offset.shape[2:]
    moves = offset.reshape(n, offset_groups, kh, kw, 2, oh, ow)
    factors = mask.reshape(n, offset_groups, kh, kw, oh, ow)
    columns = np.zeros((n, c, kh, kw, oh, ow))
    for b, ch, i, j in np.ndindex(n, c, kh, kw):
        group = ch // (c // offset_groups)
        rows = np.arange(oh)[:, None] * stride[0] - pad[0] + i * dilation[0] + moves[b, group, i, j, 0]
        cols = np.arange(ow)[None] * stride[1] - pad[1] + j * dilation[1] + moves[b, group, i, j, 1]
        # Unlike in RoiAlign, a point outside the image counts missing pixels as zeros.
        padded = np.pad(x[b, ch : ch + 1], ((0, 0), (2, 2), (2, 2)))
        inside = (rows > -1) & (rows < x.shape[2]) & (cols > -1) & (cols < x.shape[3])
        points = sampled(padded, np.clip(rows, -1, x.shape[2]) + 2, np.clip(cols, -1, x.shape[3]) + 2)[0]
        columns[b, ch, i, j] = np.where(inside, points, 0) * factors[b, group, i, j]
    split = columns.reshape(n, groups, c // groups, kh, kw, oh, ow)
    rows = weight.reshape(groups, -1, c // groups, kh, kw)
    return np.einsum("ngcijyx,gocij->ngoyx", split, rows).reshape(n, -1, oh, ow) + bias[:, None, None]


# -- rules ------------------------------------------------------------------------------------------------------------

ROIS = np.concatenate([np.array([[0], [1], [1], [0]], np.float32), boxes(4, 30)], 1)
EDGES = np.array([[0, -9, -9, 3, 3], [1, 28, 28, 60, 60], [1, 5, 5, 5, 5], [0, 40, 40, 60, 60]], np.float32)
PICTURES = RANDOM.standard_normal((2, 8, 16, 16)).astype(np.float32)


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_nms(threshold: float) -> None:
    dets, scores = boxes(40, 20), RANDOM.random(40).astype(np.float32)
    dets, scores = (
        np.concatenate([dets, dets[:5], dets[:1] * 0]),
        np.concatenate([scores, scores[:5], [0.5]], dtype="f"),
    )
    (got,) = applied("nms", dets, scores, threshold)
    want = nms(dets, scores, threshold)
    assert got.dtype == np.int64
    assert 0 < len(want) < len(dets)
    np.testing.assert_array_equal(got, want)


def test_nms_of_equal_scores_keeps_the_first() -> None:
    for _ in range(10):
        dets, scores = boxes(30, 20), RANDOM.integers(0, 4, 30).astype(np.float32)
        np.testing.assert_array_equal(applied("nms", dets, scores, 0.3)[0], nms(dets, scores, 0.3))


def test_nms_of_boxes_that_end_before_they_begin() -> None:
    dets = boxes(40, 20)
    dets[::4, [0, 2]], dets[1::4, [1, 3]], dets[2::4] = dets[::4, [2, 0]], dets[1::4, [3, 1]], dets[2::4, [2, 3, 0, 1]]
    scores = RANDOM.random(40).astype(np.float32)
    want = nms(dets, scores, 0.1)
    assert len(want) < len(dets)
    np.testing.assert_array_equal(applied("nms", dets, scores, 0.1)[0], want)


def test_nms_of_no_boxes() -> None:
    (got,) = applied("nms", np.zeros((0, 4), np.float32), np.zeros(0, np.float32), 0.5)
    assert got.shape == (0,)


@pytest.mark.parametrize("rois", [ROIS, EDGES], ids=["inside", "edges"])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, 0, -1])
def test_roi_align(rois: np.ndarray, aligned: bool, ratio: int) -> None:
    args = (PICTURES, rois, 0.5, 3, 2, ratio, aligned)
    (got,) = applied("roi_align", *args)
    np.testing.assert_allclose(got, roi_align(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rois", [ROIS, EDGES], ids=["inside", "edges"])
@pytest.mark.parametrize("ratio", [2, -1])
def test_ps_roi_align(rois: np.ndarray, ratio: int) -> None:
    args = (PICTURES, rois, 0.5, 2, 2, ratio)
    (got,) = applied("ps_roi_align", *args)
    np.testing.assert_allclose(got, ps_roi_align(*args), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool"])
@pytest.mark.parametrize("known", [True, False])
def test_no_regions(name: str, known: bool) -> None:
    rest: dict[str, tuple[Any, ...]] = {"roi_align": (2, True), "ps_roi_align": (2,), "roi_pool": ()}
    (got,) = applied(name, PICTURES, np.zeros((0, 5), np.float32), 0.5, 2, 2, *rest[name], known=known)
    assert got.shape == (0, 2 if name == "ps_roi_align" else 8, 2, 2)


@pytest.mark.parametrize("rois", [ROIS, EDGES], ids=["inside", "edges"])
def test_roi_pool(rois: np.ndarray) -> None:
    (got,) = applied("roi_pool", PICTURES, rois, 0.5, 3, 2)
    np.testing.assert_allclose(got, roi_pool(PICTURES, rois, 0.5, 3, 2), rtol=1e-6)


@pytest.mark.parametrize("use_mask", [True, False])
@pytest.mark.parametrize(("groups", "offset_groups"), [(1, 1), (2, 2), (1, 4)])
def test_deform_conv2d(use_mask: bool, groups: int, offset_groups: int) -> None:
    x, weight = PICTURES[:, :, :9, :7], RANDOM.standard_normal((6, 8 // groups, 3, 2)).astype(np.float32)
    offset = (RANDOM.standard_normal((2, 12 * offset_groups, 5, 4)) * 2).astype(np.float32)
    mask, bias = RANDOM.random((2, 6 * offset_groups, 5, 4)).astype(np.float32), np.arange(6, dtype=np.float32)
    window = ((2, 2), (1, 1), (1, 2))
    (got,) = applied("deform_conv2d", x, weight, offset, mask, bias, *(n for p in window for n in p), groups,
                     offset_groups, use_mask)  # fmt: skip
    want = deform_conv2d(x, weight, offset, mask if use_mask else mask * 0 + 1, bias, *window, groups, offset_groups)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_deformable_definition_is_a_convolution_without_offsets() -> None:
    """The definition above is compared with PyTorch where both are the same."""
    x, weight = torch.from_numpy(PICTURES), torch.randn(4, 8, 3, 3)
    want = F.conv2d(x, weight, stride=2, padding=1)
    zeros = np.zeros((2, 18, *want.shape[2:]))
    got = deform_conv2d(PICTURES, weight.numpy(), zeros, zeros[:, :9] + 1, np.zeros(4), (2, 2), (1, 1), (1, 1), 1, 1)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-4)


def test_what_of_torchvision_is_missing_is_declared() -> None:
    known = {*torch_op.entries, *torch_op.gaps}
    assert set(custom_operators._SCHEMAS) <= known


# -- files ------------------------------------------------------------------------------------------------------------

MAKE = """
import sys, torch
library = torch.library.Library("torchvision", "FRAGMENT")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
               "int sampling_ratio, bool aligned) -> Tensor")
@torch.library.register_fake("torchvision::nms")
def _(dets, scores, iou_threshold):
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)
@torch.library.register_fake("torchvision::roi_align")
def _(x, rois, scale, height, width, ratio, aligned):
    return x.new_empty(rois.shape[0], x.shape[1], height, width)
class Head(torch.nn.Module):
    def forward(self, x, boxes, scores):
        kept = boxes[torch.ops.torchvision.nms(boxes, scores, 0.5)]
        rois = torch.cat([torch.zeros_like(kept[:, :1]), kept], 1)
        return torch.ops.torchvision.roi_align(x, rois, 1.0, 2, 2, 2, True), kept
args = torch.randn(1, 3, 16, 16), torch.rand(6, 4), torch.rand(6)
folder = sys.argv[1]
torch.jit.script(Head()).save(folder + "/head.pt")
torch.export.save(torch.export.export(Head(), args, strict=False), folder + "/head.pt2")
"""
INPUTS = ("x:float32[1,3,16,16]", "boxes:float32[n,4]", "scores:float32[n]")


@pytest.mark.long
def test_files_are_read_where_torchvision_is_missing(tmp_path: Path) -> None:
    """These run in processes of their own, because a declared operator is known to all tests of a process."""
    (tmp_path / "make.py").write_text(MAKE)
    commands = [[str(tmp_path / "make.py"), str(tmp_path)]]
    for file, given in (("head.pt", INPUTS), ("head.pt2", ())):
        written = ["-o", str(tmp_path / f"{file}.onnx"), "--no-verify", "-q"]
        commands.append(["-m", "convert", str(tmp_path / file), *written, *(f"--input={spec}" for spec in given)])
    for command in commands:
        done = subprocess.run([sys.executable, "-W", "ignore", *command], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
    corners = boxes(6, 12)
    feeds = {"x": PICTURES[:1, :3], "boxes": corners, "scores": RANDOM.random(6).astype(np.float32)}
    kept = corners[nms(corners, feeds["scores"], 0.5)]
    rois = np.concatenate([kept[:, :1] * 0, kept], 1)
    want = roi_align(feeds["x"], rois, 1.0, 2, 2, 2, True)
    for file in ("head.pt", "head.pt2"):
        pooled, picked = onnxruntime.InferenceSession(tmp_path / f"{file}.onnx").run(None, feeds)
        np.testing.assert_array_equal(picked, kept)
        np.testing.assert_allclose(pooled, want, rtol=1e-4, atol=1e-5)


def test_unknown_operators_are_named(tmp_path: Path) -> None:
    library = torch.library.Library("convert_unknown", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.convert_unknown.twice(x)

    program = torch.export.export(Twice(), (torch.randn(2),), strict=False)
    torch.export.save(program, tmp_path / "m.pt2")
    library._destroy()
    with pytest.raises(BadInput, match="convert_unknown::twice") as caught:
        convert.api.convert(tmp_path / "m.pt2", "onnx", tmp_path / "m.onnx")
    assert "--rules" in caught.value.hint
