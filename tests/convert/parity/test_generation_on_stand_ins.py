"""The inputs and the verdict of a generation by stand-in models, compared with numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import Unsupported
from convert.graph import Graph
from convert.outcome.report import Report, Tensor
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, GenerationVerdict, OutputVerdict, Verdict
from convert.parity.generation import decoders
from convert.parity.generation import encoders as encoder_generation
from convert.parity.generation.decoders import compare_generation, generation_of, judge_generation
from convert.parity.generation.encoders import STEMS, encoder_prompt, verify_encoder_generation
from convert.parity.method import VerifyMethod
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.generation import CachePart, EncoderGeneration, Generation

F, I = ir.DataType.FLOAT, ir.DataType.INT64  # noqa: E741
INF = np.inf
PAST = ["rows", 3, "past", 4]


def side(tokens: Any, scores: Any) -> dict[str, np.ndarray]:
    return {"tokens": np.array(tokens), "scores": np.array(scores, np.float64)}


def pair(scores: list[float], others: list[float]) -> list[dict[str, np.ndarray]]:
    """Return one row of one step, in which the source picks token 0 and the target token 1."""
    return [side([[0]], [[scores]]), side([[1]], [[others]])]


@pytest.mark.parametrize(
    ("noise", "status"),
    [(0.0625, INCONCLUSIVE), (0.0624, FAIL), (0.07, INCONCLUSIVE)],
)
def test_a_tie_is_as_near_as_two_elements_may_be_off(noise: float, status: str) -> None:
    """The bound is 2 · 16 · noise · 1, where 1 is the root mean square of 1 and -1; infinite elements are ignored."""
    told = compare_generation(*pair([1.0, -1.0, -INF], [1.5, -1.25, -INF]), noise)
    assert (told.status, told.tokens, told.rows, told.same) == (status, 1, 1, 0)
    assert (told.margin, told.difference) == (2.0, 0.5)
    start = (
        "token 1 of 1 of row 0 is 1 where the source has 0: its scores of the two are 2.00e+00 apart, and those of "
        "the target up to 5.00e-01 off"
    )
    rest = "; that is a tie within rounding, and the rest was not compared" if status == INCONCLUSIVE else ""
    assert told.reason == start + rest


@pytest.mark.parametrize(("gap", "status"), [(0.99, INCONCLUSIVE), (1.01, FAIL)])
def test_a_source_that_is_exact_rounds_all_the_same(gap: float, status: str) -> None:
    """2 · 16 · 4 · 2⁻²⁴ of a size of 1."""
    told = compare_generation(*pair([1.0, 1.0 - gap * 2.0**-17, -1.0, 1.0], [1.0, 1.0, -1.0, 1.0]), 0.0)
    assert told.status == status


def test_the_first_step_counts_before_the_first_row() -> None:
    scores = np.random.default_rng(0).normal(size=(2, 3, 5))
    wanted, got = side([[0, 1, 2], [0, 1, 2]], scores), side([[0, 1, 3], [0, 4, 2]], scores)
    told = compare_generation(wanted, got, 0.0)
    assert told.same == 1
    assert told.margin == scores[1, 1, 1] - scores[1, 1, 4]
    assert told.reason.startswith("token 2 of 3 of row 1 is 4 where the source has 1")
    assert compare_generation(wanted, wanted, 0.0) == GenerationVerdict(PASS, 3, 2, 3)


def decoder(
    cache: Any = PAST,
    rest: tuple[str, ...] = ("input_ids", "attention_mask", "position_ids"),
    after: str = "present.0.key",
    logits: str = "logits",
    words: Any = 9,
) -> ir.Model:
    g = Graph()
    ids = [g.input(name, I, ["rows", "steps"]) for name in rest]
    if cache is not None:
        g.output(g.Neg(g.input("past_key_values.0.key", F, cache)), after)
    g.output(g.facts(g.Cast(ids[0], to=F), shape=["rows", "steps", words]), logits)
    return g.model()


GENERATION = Generation(32, "input_ids", "logits", (CachePart("past_key_values.0.key", "present.0.key", (3, 0, 4)),),
                 "attention_mask", "position_ids")  # fmt: skip


def test_what_a_decoder_is_generated_with() -> None:
    assert generation_of(decoder()) == GENERATION
    alone = generation_of(decoder(rest=("input_ids",)))
    assert alone is not None
    assert (alone.mask, alone.positions) == ("", "")


@pytest.mark.parametrize(
    "model",
    [
        decoder(cache=None),
        decoder(cache=["rows", 3, "past"]),
        decoder(cache=["rows", "heads", "past", 4]),
        decoder(cache=["rows", 3, "past", "size"]),
        decoder(after="present.1.key"),
        decoder(logits="scores"),
        decoder(rest=("attention_mask",)),
        decoder(rest=("input_ids", "token_type_ids")),
    ],
    ids=["no cache", "rank 3", "any heads", "any size", "no next", "no logits", "no words", "one more input"],
)
def test_what_is_no_decoder_with_a_cache_does_not_generate(model: ir.Model) -> None:
    assert generation_of(model) is None


def able(monkeypatch: pytest.MonkeyPatch, unable: str = "") -> None:
    runner = SimpleNamespace(generate=None)
    monkeypatch.setattr(plugin, "runner_for", lambda kind: None if kind == unable else runner)


def held(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], model: ir.Model, status: str = PASS, output: str = "logits"
) -> tuple[Verdict, list[Any]]:
    """Return the verdict after generating with stand-ins, and the recorded calls."""
    asked: list[Any] = []

    def generate_with(model: Source, who: str, how: Any, prompt: Any, options: Options, method: Any) -> Any:
        asked.append((model.kind, who, how, prompt, options))
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(decoders, "generate_with", generate_with)
    verdict = Verdict(status, outputs=[OutputVerdict(output, floor=1e-7)])
    names = Names({"input_ids": "ids_0", "past_key_values.0.key": "past_0"}, {"present.0.key": "present_0"})
    method = VerifyMethod(names=names, target=Options(trust=True))
    verdict = judge_generation(verdict, Source("onnx"), Source("keras"), model, Options(), method)
    return verdict, asked


def test_both_sides_get_one_prompt_and_the_target_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch)
    same = side([[1], [2]], np.eye(3)[[[1], [2]]])
    verdict, asked = held(monkeypatch, [same, same], decoder())
    assert verdict.generation == GenerationVerdict(PASS, 1, 2, 1)
    (ours, theirs) = asked
    assert ours[:3] == ("onnx", "source", GENERATION)
    assert theirs[:2] == ("keras", "target")
    assert (ours[4].trust, theirs[4].trust) == (False, True)
    assert theirs[2] == Generation(32, "ids_0", "logits", (CachePart("past_0", "present_0", (3, 0, 4)),),
                                   "attention_mask", "position_ids")  # fmt: skip
    words, mask = ours[3]["words"], ours[3]["mask"]
    assert theirs[3] is ours[3]
    np.testing.assert_array_equal(mask, [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    assert (words[mask == 0] == 0).all()
    assert set(np.unique(words[mask == 1])) <= set(range(1, 9))
    assert len(np.unique(words)) > 4


@pytest.mark.parametrize(("words", "most"), [(2, 1), ("any", 1), (1, 1), (3, 2)])
def test_words_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch, words: Any, most: int) -> None:
    able(monkeypatch)
    same = side([[1], [2]], np.eye(3)[[[1], [2]]])
    _, asked = held(monkeypatch, [same, same], decoder(rest=("input_ids",), words=words))
    assert asked[0][3]["words"].max() == most
    assert asked[0][3]["words"].min() == 1
    assert asked[0][3]["mask"].all()


def test_another_token_is_a_failure_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch)
    verdict, _ = held(monkeypatch, pair([1.0, -1.0], [-1.0, 1.0]), decoder())
    assert verdict.generation is not None
    assert (verdict.status, verdict.at_fault, verdict.reason) == (FAIL, "backend", verdict.generation.reason)
    verdict, _ = held(monkeypatch, pair([1.0, 1.0], [1.0, 1.0]), decoder())
    assert verdict.generation is not None
    assert (verdict.status, verdict.at_fault, verdict.generation.status) == (PASS, "", INCONCLUSIVE)


def test_a_side_that_does_not_generate_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch)
    for answers in ([Unsupported("no cache")], [side([[0]], [[[1.0]]]), Unsupported("no cache")]):
        verdict, _ = held(monkeypatch, answers, decoder())
        assert (verdict.status, verdict.generation) == (PASS, None)
        assert verdict.notes == ["generation was not compared: no cache"]


def test_what_cannot_generate_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch)
    assert held(monkeypatch, [], decoder(cache=None))[1] == []
    assert held(monkeypatch, [], decoder(), status=FAIL)[1] == []
    assert held(monkeypatch, [], decoder(), output="scores")[1] == []
    for kind in ("onnx", "keras"):
        able(monkeypatch, unable=kind)
        assert held(monkeypatch, [], decoder())[1] == []


# -- an encoder with a decoder ----------------------------------------------------------------------------------------


def test_a_prompt_of_words_ends_early_in_its_first_row() -> None:
    found = encoder_prompt([Tensor("input_ids", "int64", ("b", "s")), Tensor("attention_mask", "int32", ("b", "s"))], 3)
    np.testing.assert_array_equal(found["attention_mask"], [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    assert {n: a.dtype.name for n, a in found.items()} == {"input_ids": "int64", "attention_mask": "int32"}
    assert (found["input_ids"][0, 4:] == 0).all()
    assert set(np.unique(found["input_ids"][found["attention_mask"] == 1])) == {1, 2}


def test_a_prompt_of_features_is_drawn_and_has_the_sizes_that_are_known() -> None:
    found = encoder_prompt([Tensor("input_features", "float32", ("b", 5, None)), Tensor("free", "float16", None)], 9)
    assert found["input_features"].shape == (2, 5, 6)
    assert found["input_features"].dtype == np.float32
    assert found["input_features"].std() > 0.5
    assert found["free"].shape == (2,)
    masked = encoder_prompt([Tensor("input_features", "float32", (2, 3)), Tensor("attention_mask", "int64", (2, 6))], 9)
    assert masked["input_features"].all()
    assert set(encoder_prompt([Tensor("input_ids", "int64", (2, 40))], 3)["input_ids"].ravel()) == {1, 2}


def parts_of(**changes: Any) -> dict[str, Report]:
    parts = {stem: Report("convert") for stem in STEMS}
    for stem, part in parts.items():
        part.inputs = [Tensor(f"{stem}_in", "int64", ("b", "s"))]
        part.outputs = [Tensor("logits", "float32", ("b", "s", changes.get("words", 9)))]
        part.renamed = {"inputs": {f"{stem}_in": "0_in"}} if stem == STEMS[0] else {"outputs": {"logits": "scores"}}
        part.verdict = Verdict(PASS, outputs=[OutputVerdict(changes.get("output", "logits"), floor=1e-7)])
    if "verdict" in changes:
        parts[STEMS[0]].verdict = changes["verdict"]
    if "last" in changes:
        parts[STEMS[2]].verdict = changes["last"]
    return parts


def verified(monkeypatch: pytest.MonkeyPatch, answers: list[Any], parts: dict[str, Report]) -> tuple[Any, list[Any]]:
    asked: list[Any] = []

    def generate_with(model: Source, who: str, how: Any, prompt: Any, options: Options, method: Any) -> Any:
        asked.append((model, who, how, dict(prompt), options))
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    monkeypatch.setattr(encoder_generation, "generate_with", generate_with)
    files = {stem: Path("out") / f"{stem}.keras" for stem in STEMS}
    method = VerifyMethod(target=Options(trust=True))
    return verify_encoder_generation(Source("hf-folder"), files, "keras", parts, Options(), method), asked


def test_the_target_begins_with_the_source_s_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    able(monkeypatch)
    same = side([[1], [2]], np.eye(3)[[[1], [2]]])
    found, asked = verified(monkeypatch, [same | {"first": np.array([7])}, same], parts_of())
    assert found == GenerationVerdict(PASS, 1, 2, 1)
    ours, theirs = asked
    how = ours[2]
    assert isinstance(how, EncoderGeneration)
    assert how is theirs[2]
    assert (how.tokens, how.encoder.file, how.encoder.inputs) == (
        32,
        "encoder_model.keras",
        {"encoder_model_in": "0_in"},
    )
    assert (how.encoder.outputs, how.first.outputs) == ({"logits": "logits"}, {"logits": "scores"})
    assert (how.further.file, how.first.inputs) == (
        "decoder_with_past_model.keras", {"decoder_model_in": "decoder_model_in"}
    )  # fmt: skip
    assert (ours[1], theirs[1], ours[4].trust, theirs[4].trust) == ("source", "target", False, True)
    assert (theirs[0].kind, theirs[0].path) == ("keras", Path("out") / "decoder_with_past_model.keras")
    assert "first" not in ours[3]
    assert theirs[3]["first"] == [7]


@pytest.mark.parametrize(
    "changes",
    [
        {"words": "any"},
        {"output": "scores"},
        {"verdict": None},
        {"verdict": Verdict(FAIL)},
        {"verdict": Verdict(FAIL, outputs=[OutputVerdict("logits", FAIL)])},
        {"verdict": Verdict(PASS)},
        {"last": Verdict(PASS, outputs=[OutputVerdict("scores")])},
    ],
    ids=[
        "any words",
        "no logits",
        "not verified",
        "does not run",
        "fails",
        "nothing compared",
        "no logits of the last",
    ],
)
def test_parts_that_are_not_right_are_not_tried(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    able(monkeypatch)
    why = "generation was not compared: a part was not found to be right"
    assert verified(monkeypatch, [], parts_of(**changes)) == (why, [])


def test_why_an_encoder_with_a_decoder_was_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("hf-folder", "keras"):
        able(monkeypatch, unable=kind)
        why = "generation was not compared: what runs the artefact does not generate"
        assert verified(monkeypatch, [], parts_of()) == (why, [])
    able(monkeypatch)
    found, asked = verified(monkeypatch, [Unsupported("no cache")], parts_of())
    assert (found, len(asked)) == ("generation was not compared: no cache", 1)
