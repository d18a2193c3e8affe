"""Slices of a Concat read its parts: onnxruntime gives the same for both forms."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convert.passes.tidy.clean import clean
from convert.passes.tidy.joined_slices import slice_parts
from tests.support.onnx_support import read, run_ort

TEXT = """<ir_version: 8, opset_import: ["": 17]> g (float[1, 4, 6] a, float[1, 3, 6] b) => (OUTPUTS)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] five = {5},
     int64[1] seven = {7}, int64[1] last = {-1}, int64[2] sizes = {4, 3}, int64[3] flat = {1, -1, 7}> {
    ab = Concat <axis = 1> (a, b)
    READ
}"""
PARTS = {
    "a part": ("y = Slice (ab, zero, four, one)", "float[1, 4, 6] y"),
    "the last part": ("y = Slice (ab, four, seven, one)", "float[1, 3, 6] y"),
    "inside a part": ("y = Slice (ab, four, five, one)", "float[1, 1, 6] y"),
    "from behind": ("y = Slice (ab, last, seven, one)", "float[1, 1, 6] y"),
    "parts of a split": ("y, z = Split <axis = 1> (ab, sizes)", "float[1, 4, 6] y, float[1, 3, 6] z"),
    "several parts": (
        "all = Concat <axis = 1> (a, b, b) y = Slice (all, zero, seven, one)",
        "float[1, 7, 6] y",
    ),
    "through a transpose": (
        "t = Transpose <perm = [0, 2, 1]> (ab) y = Slice (t, four, seven, two)",
        "float[1, 6, 3] y",
    ),
    "through a reshape and a join": (
        "t = Transpose <perm = [0, 2, 1]> (ab) r = Reshape (t, flat) all = Concat <axis = 1> (r, t) "
        "y = Slice (all, four, five, two)",
        "float[1, 12, 1] y",
    ),
    "beside the whole": ("y = Slice (ab, zero, four, one)", "float[1, 4, 6] y, float[1, 7, 6] ab"),
}


def model_of(reads: str, outputs: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT.replace("READ", reads).replace("OUTPUTS", outputs))


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_read_without_the_join(name: str) -> None:
    proto = model_of(*PARTS[name])
    model = read(proto)
    assert slice_parts(model)
    clean(model)
    rng = np.random.default_rng(0)
    feed = {n: rng.standard_normal((1, k, 6)).astype(np.float32) for n, k in (("a", 4), ("b", 3))}
    wanted, got = run_ort(proto, feed), run_ort(ir.serde.serialize_model(model), feed)
    assert [v.name for v in model.graph.outputs] == [v.name for v in proto.graph.output]
    for one, other in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(one, other)


OTHERS = {
    "across a border": ("y = Slice (ab, two, five, one)", "float[1, 3, 6] y"),
    "everything": ("y = Slice (ab, zero, seven, one)", "float[1, 7, 6] y"),
    "nothing": ("y = Slice (ab, four, four, one)", "float[1, 0, 6] y"),
    "another axis": ("y = Slice (ab, zero, four, two)", "float[1, 7, 4] y"),
    "no join": ("y = Slice (a, zero, two, one)", "float[1, 2, 6] y"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_slices_stay(name: str) -> None:
    assert not slice_parts(read(model_of(*OTHERS[name])))
