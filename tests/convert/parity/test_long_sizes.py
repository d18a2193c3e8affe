"""Layers that are wrong past a length are found, whether or not a graph contains the length, in large models too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import convert
from convert.graph import Graph
from convert.outcome.verdict import FAIL, PASS
from convert.parity.inputs.long_sizes import long_feeds
from tests.support.marks import slow

F32, I64 = ir.DataType.FLOAT, ir.DataType.INT64


def positions(g: Graph, x: ir.Value) -> ir.Value:
    """Return 0, 1, 2 … along axis 1 of x."""
    return g.Range(np.int64(0), g.Squeeze(g.Shape(x, start=1, end=2), [0]), np.int64(1))


def column(g: Graph, steps: ir.Value) -> ir.Value:
    return g.Unsqueeze(steps, [1])


def zero_from(length: int):
    """Return a defect: zeros from a step on."""
    return lambda g, x: g.Where(g.Less(column(g, positions(g, x)), np.int64(length)), x, np.float32(0))


def window(length: int):
    """Return a defect: sums over the last steps only, like attention with a window."""

    def build(g: Graph, x: ir.Value) -> ir.Value:
        steps = positions(g, x)
        apart = g.Sub(g.Unsqueeze(steps, [1]), g.Unsqueeze(steps, [0]))
        near = g.And(g.Less(apart, np.int64(length)), g.Less(np.int64(-1), apart))
        return g.MatMul(g.Cast(near, to=F32), x)

    return build


def causal(g: Graph, x: ir.Value) -> ir.Value:
    return window(1 << 40)(g, x)


def clamped(length: int):
    """Return a defect: later steps repeat the one at `length`, by a Gather of clamped indices."""
    return lambda g, x: g.Gather(x, g.Min(positions(g, x), np.int64(length)), axis=1)


def built(path: Path, layer, weights: int) -> Path:
    """Save a layer after a dense one with this many numbers in its weight."""
    g = Graph(opset=20)
    x = g.input("x", F32, ["n", "t", 8])
    rng = np.random.default_rng(0)
    wide = max(8, weights // 16)
    first, last = (rng.standard_normal(s).astype(np.float32) / 9 for s in ((8, wide), (wide, 8)))
    g.output(layer(g, g.MatMul(g.MatMul(x, first), last)), "y")
    model = g.model()
    ir.save(model, path)
    return path


def same(g: Graph, x: ir.Value) -> ir.Value:
    return g.Identity(x)


ROWS = [
    (same, zero_from(150), FAIL),
    (same, zero_from(900), FAIL),
    (causal, window(40), FAIL),
    (same, clamped(200), FAIL),
    (same, same, PASS),
    (causal, causal, PASS),
]


@pytest.mark.parametrize("weights", slow([128, 1_200_000], 1_200_000))
@pytest.mark.parametrize(("source", "target", "status"), ROWS)
def test_past_a_length(tmp_path: Path, source, target, status: str, weights: int) -> None:
    pair = built(tmp_path / "a.onnx", source, weights), built(tmp_path / "b.onnx", target, weights)
    verdict = convert.verify(*pair).verdict
    assert verdict is not None
    assert verdict.status == status, verdict.reason


def test_sizes_stay_within_bounds_and_cost() -> None:
    g = Graph()
    x = g.input("x", I64, ["n", "t"])
    g.output(g.Identity(x), "y")
    model = g.model()
    (feed,) = long_feeds(model, 3)
    assert feed.arrays["x"].shape == (1, 257)
    steps = Graph()
    y = steps.input("y", F32, ["t", "n", 8])
    near = steps.Less(steps.Range(np.int64(0), steps.Squeeze(steps.Shape(y, end=1), [0]), np.int64(1)), np.int64(150))
    steps.output(steps.Where(steps.Unsqueeze(near, [1, 2]), y, np.float32(0)), "z")
    assert [f.arrays["y"].shape for f in long_feeds(steps.model(), 3)] == [(1, 170, 8), (170, 1, 8)]
    model.metadata_props["convert.dims"] = '{"t": [1, 12]}'
    assert long_feeds(model, 3) == []
    fixed = Graph()
    fixed.output(fixed.Identity(fixed.input("x", F32, ["n", 4])), "y")
    assert long_feeds(fixed.model(), 3) == []
    costly = Graph()
    image = costly.input("x", F32, ["n", 3, "h", "w"])
    weight = np.zeros((1_000_000,), np.float32)
    costly.output(costly.Add(image, costly.ReduceMax(weight, keepdims=0)), "y")
    assert long_feeds(costly.model(), 3) == []
