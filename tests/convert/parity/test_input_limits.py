"""Integer ranges of inputs, lengths of dims, and resampling, at the ends of their ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import PASS, Verdict
from convert.parity import two_artefacts
from convert.parity.inputs.feeds import implied_limits, sized_feed, unlike_steps
from convert.parity.method import VerifyMethod
from convert.request.options import Options
from convert.request.source import Source

T = ir.DataType


def model_of(build: Any, dtype: ir.DataType, shape: Any = ("n",)) -> ir.Model:
    g = Graph()
    g.output(build(g, g.input("x", dtype, shape)), "y")
    return g.model()


@pytest.mark.parametrize(("one", "limits"), [(1, [2]), (0, []), (2, []), (-1, [])])
def test_what_is_taken_from_one_is_a_mask(one: int, limits: list[int]) -> None:
    made = model_of(lambda g, x: g.Sub(np.int64(one), x), T.INT64)
    assert implied_limits(made.graph.inputs[0]) == limits
    other = model_of(lambda g, x: g.Sub(x, np.int64(one)), T.INT64)
    assert implied_limits(other.graph.inputs[0]) == []


@pytest.mark.parametrize("depth", [np.array(7), np.array([7])])
def test_a_depth_is_a_limit(depth: np.ndarray) -> None:
    made = model_of(lambda g, x: g.OneHot(x, depth, np.array([0.0, 1.0], np.float32)), T.INT64)
    assert implied_limits(made.graph.inputs[0]) == [7]


@pytest.mark.parametrize("dtype", [T.INT64, T.FLOAT])
def test_regions_are_of_pictures_that_are_there(dtype: ir.DataType) -> None:
    """PyTorch has the image index of a region in a float column, and torchvision's kernel checks no bounds."""
    pictures, boxes = np.zeros((5, 1, 8, 8), np.float32), np.array([[0, 0, 4, 4]], np.float32)

    def regions(g: Graph, x: ir.Value) -> ir.Value:
        column = x if dtype == T.INT64 else g.Cast(g.Gather(x, np.int64(0), axis=1), to=T.INT64)
        return g.RoiAlign(pictures, g.Expand(boxes, np.array([6, 4])), column)

    made = model_of(regions, dtype, (6,) if dtype == T.INT64 else (6, 5))
    assert implied_limits(made.graph.inputs[0]) == [5]


def test_regions_to_pool_are_of_pictures_that_are_there() -> None:
    pictures = np.zeros((3, 1, 8, 8), np.float32)
    made = model_of(lambda g, x: g.MaxRoiPool(pictures, x, pooled_shape=[2, 2]), T.FLOAT, (4, 5))
    assert implied_limits(made.graph.inputs[0]) == [3]


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("dtype", [T.INT64, T.INT32, T.FLOAT])
def test_of_a_table_of_one_row_only_that_is_taken(dtype: ir.DataType, rows: int) -> None:
    table = np.zeros((rows, 3), np.float32)
    made = model_of(lambda g, x: g.Gather(table, g.Cast(x, to=T.INT64)), dtype)
    for seed in range(4):
        assert set(sized_feed(made, seed, {"n": 60}).arrays["x"].tolist()) == set(range(max(rows, 1)))


@pytest.mark.parametrize("dtype", [T.UINT8, T.INT8, T.UINT16, T.INT16])
def test_pictures_hold_both_ends(dtype: ir.DataType) -> None:
    found = sized_feed(model_of(lambda g, x: g.Cast(x, to=T.FLOAT), dtype), 0, {"n": 2_000_000}).arrays["x"]
    ends = np.iinfo(dtype.numpy())
    assert (found.min(), found.max()) == (ends.min, ends.max)


def test_batches_and_maps_are_of_three_lengths() -> None:
    g = Graph()
    parts = [g.input(f"x{n}", T.FLOAT, [f"b{n}", f"h{n}"]) for n in range(5)]
    for n, part in enumerate(parts):
        g.output(g.Neg(part), f"y{n}")
    steps = unlike_steps(g.model())
    assert [steps[f"b{n}"] for n in range(5)] == [0, 1, 2, 0, 1]
    assert [steps[f"h{n}"] for n in range(5)] == [0, 1, 2, 0, 1]


def test_the_second_artefact_of_two_is_the_callers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong declarations of the user's own artefact are notes instead of a FAIL."""
    asked: list[VerifyMethod] = []

    def verify(left: Any, right: Any, graph: Any, options: Any, method: VerifyMethod) -> Verdict:
        asked.append(method)
        return Verdict(PASS)

    made = model_of(lambda g, x: g.Neg(x), T.FLOAT)
    monkeypatch.setattr(two_artefacts, "verify", verify)
    monkeypatch.setattr(two_artefacts, "_read_right", lambda *arguments: made.clone())
    sides = [Source("onnx", name) for name in ("left.onnx", "right.onnx")]
    two_artefacts.verify_two(*sides, made, Options(), VerifyMethod(), Report("verify"))
    assert [method.theirs for method in asked] == [True]
