"""Samples and their number: a verdict is reproducible from its seeds, and limits are as documented."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert.errors import BadInput
from convert.graph import Graph
from convert.outcome.report import Tensor
from convert.parity.generation.decoders import _prompt, generation_of
from convert.parity.generation.encoders import encoder_prompt
from convert.parity.inputs import size_search
from convert.parity.inputs.boundary_values import _mix_thresholds, mix_boundary_values
from convert.parity.inputs.feeds import Feed, _random_array
from convert.parity.inputs.size_search import _candidates
from convert.parity.method import VerifyMethod
from convert.parity.pairing import counterparts
from convert.parity.pairing.counterparts import _by_place
from convert.parity.runs import repeats
from convert.request.given_arrays import load_inputs
from convert.request.options import Options
from convert.runtimes.generation import PAST
from tests.convert.parity.input_models import plain
from tests.support.sides import SOURCE, TARGET

F, I64 = ir.DataType.FLOAT, ir.DataType.INT64
X = np.array([0.3, -1.7, 5.5, 1e-3, 7.25, -0.125], np.float32)


def test_rows_of_a_mask_are_chosen_by_the_seed() -> None:
    """A tenth of the rows is true everywhere, and the next tenth nowhere."""
    array = np.tile(np.array([True, False]), (40, 8))
    for seed in (1, 2):
        order = np.random.default_rng([17, seed]).permutation(40)
        found = mix_boundary_values(ir.Value(name="x"), array, seed)
        assert set(np.flatnonzero(found.all(axis=1))) == set(order[:4])
        assert set(np.flatnonzero(~found.any(axis=1))) == set(order[4:8])


def test_prompts_are_those_of_the_first_seed() -> None:
    words = np.random.default_rng(0).integers(1, 900, (2, 6))
    np.testing.assert_array_equal(encoder_prompt([Tensor("input_ids", "int64", ("b", "s"))], 900)["input_ids"], words)
    g = Graph()
    ids = g.input("input_ids", I64, ["rows", "steps"])
    g.output(g.Neg(g.input(f"{PAST}0.key", F, ["rows", 3, "past", 4])), "present.0.key")
    g.output(g.facts(g.Cast(ids, to=F), shape=["rows", "steps", 900]), "logits")
    how = generation_of(made := g.model())
    assert how is not None
    np.testing.assert_array_equal(_prompt(made, how)[0], words)


class Drawn:
    """A stand-in for a random generator that returns the given numbers in turn."""

    def __init__(self, *uniform: list[float]) -> None:
        self.left = list(uniform)

    def random(self, shape: Any) -> np.ndarray:
        return np.array(self.left.pop(0)).reshape(shape)

    def choice(self, of: np.ndarray, shape: Any) -> np.ndarray:
        return np.full(shape, of[0])

    def standard_normal(self, shape: Any) -> np.ndarray:
        return np.ones(shape)


def test_what_is_drawn_below_a_half_is_true() -> None:
    drawn: Any = Drawn([0.0, 0.25, 0.5, 0.75])
    found = _random_array(ir.Value(name="x", type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([4])), {}, drawn,
                          True, (), None)  # fmt: skip
    assert found.tolist() == [True, True, False, False]


def test_below_a_half_a_number_is_taken_and_lies_beside_its_threshold() -> None:
    """An eighth of the 80 numbers lie next to the threshold. Some of the others lie on it, and half are unchanged."""
    g = Graph()
    x = g.input("x", F, ["n", 1])
    g.output(g.TreeEnsembleRegressor(x, domain="ai.onnx.ml", nodes_featureids=[0], nodes_values=[80.0],
                                     nodes_modes=["BRANCH_LEQ"]), "y")  # fmt: skip
    array = np.full((4, 1), 2.0)
    beside, taken = [0.25, 0.75, 0.5, 0.0], [0.25, 0.25, 0.0, 0.5]
    drawn: Any = Drawn(beside, taken)
    _mix_thresholds(x, array, drawn)
    assert array[:, 0].tolist() == [90.0, 80.0, 80.0, 2.0]


SETS = [Feed(str(n), {"x": X}) for n in range(9)]
SEEDS = [1000 * seed + place for seed in range(3) for place in range(9)]
"""Seeds of three moves of nine sets; all of them differ."""


def test_two_runs_are_enough_to_tell_who_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(repeats, "_repeated_runs", lambda *given: asked.append(given[4]) or {})
    assert repeats.unrepeatable_sides(SOURCE, TARGET, plain(), SETS[0], Options(), VerifyMethod()) == []
    assert asked == [2]


@pytest.mark.parametrize(("most", "paired"), [(250_000, True), (250_001, False)])
def test_a_quarter_of_a_million_pairs_are_held_against_each_other(
    most: int, paired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last output of the right side matches."""
    monkeypatch.setattr(counterparts, "_fits", lambda left, right, moved: right.name == "b")
    right: Any = [SimpleNamespace(name="other")] * (most - 1) + [SimpleNamespace(name="b")]
    left: Any = [SimpleNamespace(name="a")]
    assert _by_place(left, right, {}) == (({"a": "b"}, "dtype and shape") if paired else ({}, ""))


def test_of_two_dims_each_pair_of_the_first_six_sizes_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_search, "suggested_sizes", lambda graph: [11, 12, 13, 14, 15, 16, 17, 18])
    found = [(s["h"], s["w"]) for s in _candidates(plain(shape=("n", "h", "w")), {"n": 2, "h": 9, "w": 9})]
    unlike = {(h, w) for h, w in found if 9 not in (h, w) and h != w}
    assert unlike == {(h, w) for h in range(11, 17) for w in range(11, 17) if h != w}


def test_a_long_name_is_told_up_to_200_characters(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("a" * 300, b"")
    with pytest.raises(BadInput, match=rf"inputs: '{'a' * 200}' is not an array"):
        load_inputs(tmp_path / "in.npz")
