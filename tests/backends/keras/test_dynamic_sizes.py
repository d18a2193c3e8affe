"""Layers and operations that depend on dynamic sizes, compared with onnxruntime at several sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import convert
from tests.support.run_targets import run_target

pytestmark = pytest.mark.not_core
PADS = "int64[8] pads = {0, 0, 2, 1, 0, 0, 3, 0}"
LIKE = "s = Shape (z) h = Slice (s, two, many, zero) c = Concat <axis = 0> (lead, h)"
STORED = "int64[1] two = {2}, int64[1] many = {9}, int64[1] zero = {0}, int64[2] lead = {1, 3}, int64[2] rest = {2, 3}"
GRAPHS = {
    "Pad edge": f"<{PADS}> {{ y = Pad <mode = 'edge'> (x, pads) }}",
    "Pad wrap": f"<{PADS}> {{ y = Pad <mode = 'wrap'> (x, pads) }}",
    **{
        f"Resize {mode} {coordinates}": f"<{STORED}> {{ {LIKE} y = Resize <mode = '{mode}', nearest_mode = '{how}', "
        f"coordinate_transformation_mode = '{coordinates}', exclude_outside = {excluded}> (x, , , c) }}"
        for mode, how, coordinates, excluded in (
            ("nearest", "floor", "asymmetric", 0),
            ("nearest", "round_prefer_ceil", "align_corners", 0),
            ("nearest", "round_prefer_floor", "half_pixel", 0),
            ("linear", "floor", "half_pixel", 0),
            ("linear", "floor", "align_corners", 0),
            ("linear", "floor", "pytorch_half_pixel", 0),
            ("cubic", "floor", "half_pixel", 1),
            ("cubic", "floor", "asymmetric", 0),
        )
    },
    "Resize by 1.3 and 0.7": "<float[4] by = {1, 1, 1.3, 0.7}> { y = Resize <mode = 'linear'> (x, , by) }",
    "Resize by 0.6, nearest": "<float[4] by = {1, 1, 0.6, 2.5}> { y = Resize <mode = 'nearest'> (x, , by) }",
    "Slice": f"""<int64[2] first = {{0, -5}}, int64[2] steps = {{1, 2}}, {STORED}> {{
        s = Shape (z) h = Slice (s, two, many, zero) y = Slice (x, first, h, rest, steps) }}""",
    "Range": f"""<{STORED}, int64 third = {{3}}, int64 by = {{-2}}, int64 end = {{0}}> {{
        s = Shape (z) t = Size (z) m = Mod (t, third) n = Add (m, third) r = Range (n, end, by)
        f = CastLike (r, x) u = ReduceSum <keepdims = 0> (f) y = Mul (x, u) }}""",
    "Expand": f"""<{STORED}> {{ s = Shape (z) h = Slice (s, two, many, zero)
        k = ReduceMean <keepdims = 1> (x, rest) e = Concat <axis = 0> (two, lead, h) y = Expand (k, e) }}""",
    "ConstantOfShape": f"<{STORED}> {{ {LIKE} y = ConstantOfShape <value = float[1] {{2.5}}> (c) }}",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_sizes_of_the_run(name: str, tmp_path: Path) -> None:
    text = GRAPHS[name].replace("'", '"')
    head = '<ir_version: 9, opset_import: ["" : 19]> g (float[b, 3, h, w] x, float[b, 3, m, n] z) => (float[] y) '
    proto = onnx.parser.parse_model(head + text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    convert.convert(proto, "keras", tmp_path / "m.keras", verify=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    draw = np.random.default_rng(0)
    sizes = ((4, 5, 7, 2), (6, 3, 6, 3), (5, 4, 3, 9), (2, 7, 1, 1))
    feeds = [
        {"x": draw.normal(size=(1, 3, h, w)).astype(np.float32), "z": draw.normal(size=(1, 3, m, n)).astype(np.float32)}
        for h, w, m, n in sizes
    ]
    for feed, found in zip(feeds, run_target("keras", tmp_path / "m.keras", feeds), strict=True):
        (wanted,) = session.run(None, feed)
        assert found["y"].shape == wanted.shape
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-5)
