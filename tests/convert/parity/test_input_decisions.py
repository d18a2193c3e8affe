"""Decisions about inputs that depend on one comparison, on both sides of it, with values worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import UsageError
from convert.graph import Graph
from convert.graph.metadata import DIMS_KEY
from convert.outcome.report import Report, Tensor
from convert.outcome.verdict import FAIL, PASS, OutputVerdict, Verdict
from convert.parity.generation import encoders as encoder_generation
from convert.parity.generation.encoders import STEMS, verify_encoder_generation
from convert.parity.inputs.boundary_values import boundary_values
from convert.parity.inputs.feeds import Feed, given_feed, implied_limits, sized_feed, unlike_steps
from convert.parity.inputs.uneven import far_feed, uneven_feed, with_unusual_rows
from convert.parity.method import VerifyMethod
from convert.parity.verify import verify
from convert.request import stored as stored_as
from convert.request.options import Options
from convert.request.source import Source
from tests.convert.parity.input_models import plain
from tests.support.sides import SOURCE, TARGET, Side, Sides, graph, scaled

F, I64, U8, I8 = ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.UINT8, ir.DataType.INT8


def test_complex_numbers_are_given_as_pairs_to_real_inputs_alone() -> None:
    given = np.array([[1 + 2j, 3 - 4j]], np.complex64)
    pairs = given_feed(plain(shape=("n", 2, 2)), {"x": given}).arrays["x"]
    assert (pairs.tolist(), pairs.dtype) == ([[[1, 2], [3, -4]]], np.float32)
    kept = given_feed(plain(ir.DataType.COMPLEX64, ("n", 2)), {"x": given}).arrays["x"]
    assert kept is given
    flags = np.array([[True, False]])
    assert given_feed(plain(ir.DataType.BOOL, ("n", 2)), {"x": flags}).arrays["x"] is flags
    with pytest.raises(UsageError, match="is bool"):
        given_feed(plain(shape=("n", 2)), {"x": flags})


def test_what_is_read_twice_hides_no_other_use() -> None:
    g = Graph()
    x = g.input("x", F, ["n"])
    g.output(g.Equal(g.Identity(x), np.float32(5)), "y")
    g.output(g.Concat(x, x, axis=0), "z")
    assert boundary_values(g.model().graph.inputs[0], beside=False) == [5.0]


@pytest.mark.parametrize(("dtype", "least", "most"), [(U8, 0, 255), (I8, -128, 127), (I64, 0, 9)])
def test_integers_are_drawn_up_to_the_ends_of_small_dtypes(dtype: ir.DataType, least: int, most: int) -> None:
    array = sized_feed(plain(dtype, ("n",)), 0, {"n": 20_000}).arrays["x"]
    assert (int(array.min()), int(array.max())) == (least, most)
    middle, width = (least + most) / 2, most - least
    assert abs(array.astype(float).mean() - middle) < width / 50, "each as often"


@pytest.mark.parametrize(("number", "limits"), [(1.0, [2]), (0.0, []), (2.0, []), ([1.0, 1.0], [])])
def test_the_opposite_of_a_mask_is_one_minus_it(number: Any, limits: list[int]) -> None:
    g = Graph()
    x = g.input("x", I64, ["n", 2])
    g.output(g.Sub(np.asarray(number, np.int64), x), "y")
    assert implied_limits(g.model().graph.inputs[0]) == limits


def test_of_four_batches_the_fourth_is_as_long_as_the_first() -> None:
    g = Graph()
    for name in "abcd":
        g.output(g.Identity(g.input(name, F, [f"n{name}", 2])), f"y{name}")
    assert unlike_steps(g.model()) == {"na": 0, "nb": 1, "nc": 2, "nd": 0}


# -- beyond the usual sizes and numbers -------------------------------------------------------------------------------


def test_few_rows_of_the_longest_size_have_to_be_cheap_too() -> None:
    """3 x 300 elements times 600,000 weights are more than 2^29 products; 9 x 65 times as many weights are fewer."""
    g = Graph()
    g.output(g.Abs(g.input("x", F, ["n", "t"])), "y")
    g.output(g.Neg(np.zeros(600_000, np.float32)), "z")
    made = g.model()
    made.metadata_props[DIMS_KEY] = json.dumps({"t": [1, 300]})
    feed = uneven_feed(made, 4)
    assert feed is not None
    assert feed.arrays["x"].shape == (9, 65)
    g = Graph()
    g.output(g.Abs(g.input("x", F, ["n", "t"])), "y")
    cheap = g.model()
    cheap.metadata_props.update(made.metadata_props)
    feed = uneven_feed(cheap, 4)
    assert feed is not None
    assert feed.arrays["x"].shape == (3, 300)


def test_rows_of_negative_integers_are_the_last_and_the_one_before_in_turn() -> None:
    g = Graph()
    for name in "abc":
        g.output(g.Mul(g.input(name, I64, ["n", 2]), np.int64(3)), f"y{name}")
    made = g.model()
    feeds = [Feed(str(n), {name: np.full((4, 2), 7) for name in "abc"}) for n in range(3)]
    arrays = with_unusual_rows(made, feeds)[2].arrays
    assert {name: array[:, 0].tolist() for name, array in arrays.items()} == {
        "a": [7, 7, 7, -7],
        "b": [7, 7, -7, 7],
        "c": [7, 7, 7, -7],
    }


@pytest.mark.parametrize(
    ("rows", "first", "second"),
    [(1, [7], [7]), (2, [7, -7], [-7, 7]), (3, [7, 7, -7], [7, -7, 7]), (0, [], [])],
)
def test_of_one_row_of_integers_none_is_negative(rows: int, first: list[int], second: list[int]) -> None:
    g = Graph()
    for name in "ab":
        g.output(g.Mul(g.input(name, I64, ["n"]), np.int64(3)), f"y{name}")
    feeds = [Feed(str(n), {name: np.full(rows, 7) for name in "ab"}) for n in range(3)]
    arrays = with_unusual_rows(g.model(), feeds)[2].arrays
    assert (arrays["a"].tolist(), arrays["b"].tolist()) == (first, second)


def test_features_that_were_one_row_have_thresholds_too() -> None:
    """A tree reads the third of three numbers, after a Reshape."""
    g = Graph()
    x = g.input("x", F, [3])
    y = g.TreeEnsembleRegressor(g.Reshape(x, np.array([1, 3])), domain="ai.onnx.ml", nodes_featureids=[2, 0, 0],
                                nodes_values=[5e4, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"])  # fmt: skip
    g.output(y, "y")
    drawn = np.array([sized_feed(g.model(), seed, {}).arrays["x"] for seed in range(1, 9)])
    assert np.abs(drawn[:, :2]).max() < 10
    assert (drawn[:, 2] > 1e4).any()


def test_thresholds_are_looked_for_behind_other_uses() -> None:
    g = Graph()
    x = g.input("x", F, ["n", 2])
    g.output(g.Neg(x), "before")
    y = g.TreeEnsembleRegressor(x, domain="ai.onnx.ml", nodes_featureids=[1, 0, 0],
                                nodes_values=[5e4, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"])  # fmt: skip
    g.output(y, "y")
    g.output(g.Abs(x), "behind")
    array = sized_feed(g.model(), 1, {"n": 40}).arrays["x"]
    assert np.abs(array[:, 0]).max() < 10
    assert 8 <= (array[:, 1] > 1e4).sum() <= 32, "half of them"


def test_only_numbers_have_larger_ones() -> None:
    for dtype in (ir.DataType.BOOL, ir.DataType.STRING, I64):
        assert far_feed(plain(dtype), 1) is None
    feed = far_feed(plain(ir.DataType.COMPLEX64), 1)
    assert feed is not None
    assert np.array_equal(feed.arrays["x"], 2048 * sized_feed(plain(ir.DataType.COMPLEX64), 1, {"n": 1}).arrays["x"])


# -- half precision, generation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stored", "status"), [("", FAIL), (stored_as.WEIGHTS, FAIL), (stored_as.HALF_VALUES, PASS)])
def test_outputs_of_half_precision_are_widened_where_the_file_says_it_holds_such(
    stored: str, status: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "net"
    path.touch()
    target = replace(TARGET, path=path)
    monkeypatch.setattr(plugin, "runner_for", lambda kind: SimpleNamespace(stored=lambda source: stored))
    sides = Sides(
        monkeypatch,
        Side(float32=scaled(2.0), float64=scaled(2.0, np.float64)),
        Side(float32=scaled(2.0, np.float16)),
    )
    sides.of[id(target)] = sides.of[id(TARGET)]
    verdict = verify(SOURCE, target, graph(), Options())
    assert verdict.status == status
    if status == FAIL:
        assert "float16" in verdict.reason


def test_the_number_of_words_is_that_of_the_decoders_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder may have an output that is called scores, with another meaning."""
    asked: list[Any] = []
    monkeypatch.setattr(plugin, "runner_for", lambda kind: SimpleNamespace(generate=None))
    same = {"tokens": np.zeros((2, 1), int), "scores": np.ones((2, 1, 3))}

    def generate_with(model: Any, side: str, how: Any, prompt: Any, options: Any, method: Any) -> Any:
        asked.append(prompt["input_ids"])
        return same | ({"first": np.zeros(1)} if side == "source" else {})

    monkeypatch.setattr(encoder_generation, "generate_with", generate_with)
    parts = {stem: Report("convert") for stem in STEMS}
    for stem, part in parts.items():
        part.inputs = [Tensor("input_ids", "int64", ("b", 40))]
        words = dict(zip(STEMS, (900, 3, 700), strict=True))[stem]
        sizes = {"zeta": 700, "attention": 800, "logits": words}
        part.outputs = [Tensor(name, "float32", ("b", "s", size)) for name, size in sizes.items()]
        part.verdict = Verdict(PASS, outputs=[OutputVerdict("logits", floor=1e-7)])
    files = {stem: Path(f"{stem}.keras") for stem in STEMS}
    found = verify_encoder_generation(Source("hf-folder"), files, "keras", parts, Options(), VerifyMethod())
    assert not isinstance(found, str)
    assert set(asked[0].ravel()) == {1, 2}
