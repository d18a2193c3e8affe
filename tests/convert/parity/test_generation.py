"""Generation is compared token by token: the first token that differs is a tie within rounding, or a failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from convert.graph import Graph
from convert.graph.metadata import RANGE_KEY
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS
from convert.parity.generation.decoders import _prompt, compare_generation, generation_of
from convert.runtimes.generation import Generation, generation_from_json, greedy
from tests.support.onnx_support import info, model, read

NOISE = 1e-7
SCORES = np.random.default_rng(0).normal(size=(2, 5, 9))


def generated(scores: np.ndarray) -> dict[str, np.ndarray]:
    return {"tokens": scores.argmax(-1), "scores": scores.astype(np.float64)}


def test_the_same_tokens_pass_whatever_the_scores_are() -> None:
    told = compare_generation(generated(SCORES), generated(SCORES * 1.01), NOISE)
    assert (told.status, told.same, told.rows) == (PASS, 5, 2)
    assert "the same 5 tokens" in str(told)


@pytest.mark.parametrize(("gap", "status"), [(1e-6, INCONCLUSIVE), (1e-2, FAIL)])
def test_the_first_step_that_departs_is_named_and_judged_by_its_scores(gap: float, status: str) -> None:
    wanted, got = SCORES.copy(), SCORES.copy()
    wanted[1, 3, [2, 7]] = 4 + gap, 4
    got[1, 3, [2, 7]] = 4, 4 + gap
    got[0, 4] = -got[0, 4]  # after the first difference, beyond which nothing is comparable
    told = compare_generation(generated(wanted), generated(got), NOISE)
    assert (told.status, told.same) == (status, 3)
    assert "token 4 of 5 of row 1 is 7 where the source has 2" in told.reason
    assert told.margin == pytest.approx(gap)
    assert told.difference == pytest.approx(gap)


def test_a_step_feeds_what_the_step_before_has_left() -> None:
    fed: list[Any] = []

    def step(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed.append(feed)
        length = feed["past_key_values.0.key"].shape[2] + feed["input_ids"].shape[1]
        cache = {f"present.0.{half}": np.ones((2, 3, length, 4), np.float32) for half in ("key", "value")}
        return {"logits": np.eye(9)[(feed["input_ids"] + 1) % 9], **cache}

    how = generation_of(read(decoder()))
    assert how is not None
    how = generation_from_json(how.to_json())
    assert isinstance(how, Generation)
    words, mask = np.array([[0, 1, 5], [2, 3, 7]]), np.array([[0, 1, 1], [1, 1, 1]])
    found = greedy(step, {}, how, words, mask)
    np.testing.assert_array_equal(found["tokens"][:, :3], [[6, 7, 8], [8, 0, 1]])
    assert [f["past_key_values.0.key"].shape[2] for f in fed[:3]] == [0, 3, 4]
    assert [f["attention_mask"].shape[1] for f in fed[:3]] == [3, 4, 5]
    np.testing.assert_array_equal(fed[1]["position_ids"], [[2], [3]])


def decoder(**more: Any) -> Any:
    """Return the inputs and outputs of a decoder of one layer."""
    past, after = ["b", 3, "past", 4], ["b", 3, None, 4]
    ends = {"input_ids": ["b", "s"], "attention_mask": ["b", None], "position_ids": ["b", "s"], **more}
    halves = [f"0.{half}" for half in ("key", "value")]
    nodes = [helper.make_node("Identity", [f"past_key_values.{h}"], [f"present.{h}"]) for h in halves]
    nodes += [
        helper.make_node("Cast", ["input_ids"], ["a"], to=1),
        helper.make_node("Unsqueeze", ["a", "last"], ["logits"]),
    ]
    inputs = [info(n, d, 7) for n, d in ends.items()] + [info(f"past_key_values.{h}", past) for h in halves]
    outputs = [info("logits", ["b", "s", 1]), *(info(f"present.{h}", after) for h in halves)]
    return model(nodes, inputs, outputs, [helper.make_tensor("last", 7, [1], [-1])])


@pytest.mark.parametrize(("noted", "padded"), [(None, True), ("[0, 1]", True), ("[1, 1]", False)])
def test_a_row_is_padded_if_the_mask_may_have_zeros(noted: str | None, padded: bool) -> None:
    graph = read(decoder())
    mask = next(v for v in graph.graph.inputs if v.name == "attention_mask")
    if noted is not None:
        mask.metadata_props[RANGE_KEY] = noted
    how = generation_of(graph)
    assert how is not None
    assert (_prompt(graph, how)[1].min() == 0) == padded


def test_only_decoders_with_a_cache_generate() -> None:
    assert generation_of(read(decoder(pixel_values=["b", 3]))) is None


@pytest.mark.parametrize(("dtype", "shapes"), [(ir.DataType.FLOAT, [(3,)]), (ir.DataType.INT64, None)])
def test_a_state_of_any_name_is_a_part_of_the_cache(dtype: ir.DataType, shapes: list[tuple[int, ...]] | None) -> None:
    """A count of tokens is none: it begins with a number that is not known."""
    g = Graph()
    ids = g.input("input_ids", ir.DataType.INT64, ["rows", "steps"])
    state = g.input("past_linear_cache.1", dtype, ["rows", 3])
    g.output(g.Neg(state), "present_linear_cache.1")
    g.output(g.Cast(ids, to=ir.DataType.FLOAT), "logits")
    how = generation_of(g.model())
    assert (how and [part.shape for part in how.cache]) == shapes


@pytest.mark.parametrize("least", [-1e9, np.finfo(np.float32).min])
@pytest.mark.parametrize(("gap", "status"), [(1e-6, INCONCLUSIVE), (1e-2, FAIL), (1.0, FAIL)])
def test_words_that_are_masked_hide_no_wrong_token(gap: float, status: str, least: float) -> None:
    """Scores of masked tokens set no scale: relative to -1e9, a token that is 1 behind would be a tie."""
    wanted, got = SCORES.copy(), SCORES.copy()
    wanted[..., 5] = got[..., 5] = least
    wanted[1, 3, [2, 7]] = 4 + gap, 4
    got[1, 3, [2, 7]] = 4, 4 + gap
    told = compare_generation(generated(wanted), generated(got), NOISE)
    assert (told.status, told.same) == (status, 3)
    rough = compare_generation(generated(wanted), generated(got), NOISE, 1e-3)
    assert rough.status == (INCONCLUSIVE if gap < 0.1 else FAIL)
    wanted[1, 3, 5], got[1, 3, 5] = least, 5.0
    assert compare_generation(generated(wanted), generated(got), NOISE).status == FAIL
