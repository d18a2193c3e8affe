"""Sequences that a Loop appends to and that are stacked become tensors: onnxruntime gives the same for both forms."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convert.passes.tidy.clean import clean
from convert.passes.tidy.stack_sequences import stack_sequences
from tests.support.onnx_support import read, run_ort

STACKED = "y = ConcatFromSequence <axis = 0, new_axis = 1> (all)"
JOINED = STACKED.replace("y =", "w =")
LOOP = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x, int64 most) => (float[3] last, float y_shape y)
    <float one = {1}, float[3] zero = {0, 0, 0}, int64 first = {0}, bool yes = {1}> {
    none = SequenceEmpty <dtype = 1> ()
    last, all = Loop (most, , zero, none) <body = b (int64 i, bool c, float[3] s, seq(float[3]) rows) =>
        (bool again, float[3] t, seq(float[3]) more) <float half = {0.5}> {
        again = Identity (c) row = Gather <axis = 0> (x, i) moved = Mul (s, half) t = Add (moved, row)
        kept = Sub (t, row) more = SequenceInsert (rows, kept)
    }>
    READ
}"""


def model_of(reads: str, shape: str, text: str = LOOP) -> onnx.ModelProto:
    return onnx.parser.parse_model(text.replace("READ", reads).replace("float y_shape", f"float[{shape}]"))


READS = {
    "stacked": (STACKED, "m, 3"),
    "stacked in the middle": ("y = ConcatFromSequence <axis = -1, new_axis = 1> (all)", "3, m"),
    "joined": ("y = ConcatFromSequence <axis = 0> (all)", "m"),
    "one of them": ("item = SequenceAt (all, first) y = Add (item, one)", "3"),
    "how many": (f"n = SequenceLength (all) z = Cast <to = 1> (n) {JOINED} y = Mul (w, z)", "m, 3"),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("begun", [False, True])
def test_what_is_read_is_the_same(name: str, begun: bool) -> None:
    text = LOOP.replace("SequenceEmpty <dtype = 1> ()", "SequenceConstruct (zero, zero)") if begun else LOOP
    proto = model_of(*READS[name], text)
    model = read(proto)
    assert clean(model)
    assert not {n.op_type for n in model.graph.all_nodes() if "Sequence" in n.op_type}
    assert [v.name for v in model.graph.outputs] == ["last", "y"]
    written = ir.serde.serialize_model(model)
    written.ir_version = 8
    for rounds in (1, 4):
        feed = {"x": np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32), "most": np.array(rounds)}
        for got, want in zip(run_ort(written, feed), run_ort(proto, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Items of different lengths, which a Loop cannot collect.
        ("kept = Sub (t, row)", "end = Add (i, step) kept = Slice (t, zeros, end)"),
        # The body reads the sequence so far.
        ("kept = Sub (t, row)", "count = SequenceLength (rows) size = Cast <to = 1> (count) kept = Mul (t, size)"),
        ("SequenceInsert (rows, kept)", "SequenceInsert (rows, kept, first)"),
    ],
)
def test_what_stays(old: str, new: str) -> None:
    text = LOOP.replace(old, new).replace(
        "<float half = {0.5}>", "<float half = {0.5}, int64[1] step = {1}, int64[1] zeros = {0}>"
    )
    model = read(model_of("y = ConcatFromSequence <axis = 0> (all)", "m", text))
    assert not stack_sequences(model)


def test_a_loop_that_carries_nothing_else_has_two_inputs() -> None:
    """An absent condition at the end of its inputs would be left out, but ONNX requires two inputs."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[3] x, int64 most) => (float[m, 3] y) {
        none = SequenceEmpty <dtype = 1> ()
        all = Loop (most, , none) <body = b (int64 i, bool c, seq(float[3]) rows) => (bool again, seq(float[3]) more) {
            again = Identity (c) by = Cast <to = 1> (i) row = Mul (x, by) more = SequenceInsert (rows, row)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }"""
    model = read(onnx.parser.parse_model(text))
    assert clean(model)
    written = ir.serde.serialize_model(model)
    onnx.checker.check_model(written)
    x = np.array([1, 2, 3], np.float32)
    (found,) = run_ort(written, {"x": x, "most": np.array(3)})
    np.testing.assert_array_equal(found, np.arange(3, dtype=np.float32)[:, None] * x)
