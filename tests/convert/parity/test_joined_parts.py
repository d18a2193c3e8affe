"""If a narrow target turns a part of an output into one value, it never passes, however the graph joins and moves the
part.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import convert
from convert.errors import ConvertError
from convert.graph import Graph
from convert.outcome.verdict import INCONCLUSIVE, PASS, OutputVerdict
from convert.parity.compare.joined_parts import find_parts, label_parts
from convert.parity.compare.narrow import NarrowOutput, judge_slices

F32 = ir.DataType.FLOAT
X = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}


def built(tail: Callable[[Graph, ir.Value, ir.Value], ir.Value]) -> ir.Model:
    """Return a graph of two values, 200 x and sigmoid(x), which `tail` combines to the output."""
    g = Graph()
    x = g.input("x", F32, ["n", 3, 4])
    g.output(tail(g, g.Mul(x, np.float32(200)), g.Sigmoid(x)), "y")
    return g.model()


def joined(g: Graph, boxes: ir.Value, scores: ir.Value) -> ir.Value:
    return g.Concat(boxes, scores, axis=1)


ZEROS, ONES = np.zeros((2, 3, 4), np.int64), np.ones((2, 3, 4), np.int64)
BOTH = np.concatenate([ZEROS, ONES], 1)
TAILS = {
    "concat": (joined, BOTH),
    "moved": (
        lambda g, a, b: g.Reshape(g.Transpose(joined(g, a, b), perm=[0, 2, 1]), np.array([0, -1])),
        BOTH.transpose(0, 2, 1).reshape(2, -1),
    ),
    "shape that a run computes": (
        lambda g, a, b: g.Reshape(joined(g, a, b), g.Concat(g.Shape(a, start=0, end=1), np.array([-1]), axis=0)),
        BOTH.reshape(2, -1),
    ),
    "elementwise": (lambda g, a, b: g.Clip(joined(g, a, b), np.float32(-1e3), np.float32(1e3)), BOTH),
    "half of it": (lambda g, a, b: g.Split(joined(g, a, b), np.array([2, 4]), axis=1, outputs=2)[1], BOTH[:, 2:]),
    "nested": (
        lambda g, a, b: g.Concat(joined(g, a, b), joined(g, g.Neg(a), b), axis=1),
        np.concatenate([ZEROS, ONES, 2 * ONES, ONES], 1),
    ),
}


@pytest.mark.parametrize("name", TAILS)
def test_each_element_knows_its_part(name: str) -> None:
    tail, wanted = TAILS[name]
    model = built(tail)
    output = model.graph.outputs[0]
    np.testing.assert_array_equal(label_parts(model, output, find_parts(output), X), wanted)


def test_a_sum_of_two_values_has_no_parts() -> None:
    model = built(lambda g, a, b: g.Add(joined(g, a, b), np.float32(1)))
    assert find_parts(model.graph.outputs[0]) == []


def lost_part(model: ir.Model, reference: np.ndarray, target: np.ndarray) -> OutputVerdict:
    """Return the verdict on an output by its slices alone."""
    row = OutputVerdict("y")
    output = NarrowOutput([reference.astype(float)], [reference.astype(float)], [target.astype(float)])
    return judge_slices(row, model, model.graph.outputs[0], [X], output, roundoff=0.0)


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        (np.full((2, 3, 4), 0.5), True),
        (np.where(np.arange(24).reshape(2, 3, 4) == 7, 0.75, 0.5), False),
    ],
)
def test_a_part_of_one_value(scores: np.ndarray, found: bool) -> None:
    model = built(joined)
    reference = np.concatenate([200 * X["x"], 1 / (1 + np.exp(-X["x"]))], 1)
    target = np.concatenate([200 * X["x"], scores], 1)
    row = lost_part(model, reference, target)
    assert row.status == (INCONCLUSIVE if found else PASS)
    assert not found or "24 elements, is 0.5 everywhere" in row.reason
    assert [part.size for part in row.slices] == [24, 24]
    assert row.slices[0].sqnr == np.inf > row.slices[1].sqnr > 0


def test_a_part_that_is_one_value_in_the_source_too_is_no_loss() -> None:
    model = built(joined)
    both = np.concatenate([200 * X["x"], np.full((2, 3, 4), 0.25)], 1)
    assert lost_part(model, both, both).status == PASS


def test_parts_that_cannot_be_told_apart_are_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> np.ndarray:
        raise ConvertError("no kernel")

    monkeypatch.setattr("convert.parity.compare.narrow.label_parts", fails)
    assert "no kernel" in lost_part(built(joined), BOTH, BOTH).reason


@pytest.mark.slow
@pytest.mark.not_core
@pytest.mark.parametrize(("factor", "status"), [(200.0, INCONCLUSIVE), (1.0, PASS)])
def test_a_detector_head_in_8_bits(tmp_path: Path, factor: float, status: str) -> None:
    g = Graph(opset=20)
    x = g.input("x", F32, ["n", 3, 8, 8])
    rng = np.random.default_rng(1)
    features = g.Relu(g.Conv(x, rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5, pads=[1, 1, 1, 1]))
    boxes = g.Conv(features, rng.standard_normal((4, 8, 1, 1)).astype(np.float32) / 3)
    scores = g.Sigmoid(g.Conv(features, rng.standard_normal((5, 8, 1, 1)).astype(np.float32) / 3))
    g.output(g.Concat(g.Mul(boxes, np.float32(factor)), scores, axis=1), "y")
    samples = {"x": rng.standard_normal((32, 3, 8, 8)).astype(np.float32)}
    report = convert.convert(
        ir.to_proto(g.model()), "tflite", tmp_path / "m.tflite", quantize="int8", calibrate=samples
    )
    assert report.verdict is not None
    assert report.verdict.status == status, report.verdict.reason
    assert status == PASS or "one scale for all is too coarse" in report.verdict.reason
    mixed = [note for note in report.verdict.notes if note.code == "mixed-ranges"]
    assert len(mixed) == (status != PASS)
    assert all("--keep-float" in note for note in mixed)
    assert "Conv" in {layer.operator for layer in report.verdict.layers}
