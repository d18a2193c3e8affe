"""Loops with a known number of iterations are written out: onnxruntime gives the same for both forms."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convert.legalize.unroll_loops import unroll_loops
from tests.support.onnx_support import read, run_ort

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
LOOP = """g (float[n, 3] x) => (float[n, 3] y, float[4, n, 3] all, int64[4] places)
    <int64 most = {4}, float one = {1}> {
    y, all, places = Loop (most, , x) <body = b (int64 i, bool c, float[n, 3] s) => (bool again, float[n, 3] t,
        float[n, 3] row, int64 place) <float half = {0.5}> {
        again = Identity (c) step = Cast <to = 1> (i) moved = Mul (s, half) t = Add (moved, step) row = Sub (t, one)
        place = Identity (i)
    }>
}"""
SCAN = """g (float[3] s, float[2, 5, 3] x, float[5, 3] z) => (float[3] y, float[3, 5] up, float[5, 3] down)
    <int64[1] axis = {0}> {
    y, up, down = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
        scan_output_axes = [1, 0], scan_output_directions = [0, 1],
        body = b (float[3] a, float[2, 3] e, float[3] f) => (float[3] b, float[3] up, float[3] down) {
            first = ReduceSum <keepdims = 0> (e, axis) b = Add (a, first) up = Mul (b, f) down = Sub (b, f) }>
        (s, x, z)
}"""


@pytest.mark.parametrize("text", [LOOP, SCAN], ids=["Loop", "Scan"])
def test_rounds_are_written_out(text: str) -> None:
    proto = onnx.parser.parse_model(HEAD + text)
    model = read(proto)
    assert unroll_loops(model)
    assert not {n.op_type for n in model.graph.all_nodes()} & {"Loop", "Scan"}
    assert [v.name for v in model.graph.outputs] == [v.name for v in proto.graph.output]
    model.ir_version = 10
    chance = np.random.default_rng(0)
    shapes = {"s": (3,), "x": (2, 5, 3), "z": (5, 3)} if text is SCAN else {"x": (2, 3)}
    feed = {n: chance.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    written = ir.serde.serialize_model(model)
    for got, want in zip(run_ort(written, feed), run_ort(proto, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<int64 most = {4}, float one = {1}>", "<float one = {1}>"),  # known at run time only
        ("again = Identity (c)", "size = ReduceSum <keepdims = 0> (s) again = Less (size, half)"),
        ("most = {4}", "most = {4000}"),
        ("most = {4}", "most = {0}"),
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = LOOP.replace(old, new)
    text = text.replace("(float[n, 3] x) =>", "(float[n, 3] x, int64 most) =>") if "most =" not in text else text
    text = text.replace("[4, n, 3]", "[m, n, 3]").replace("int64[4]", "int64[m]")
    assert not unroll_loops(read(onnx.parser.parse_model(HEAD + text)))
