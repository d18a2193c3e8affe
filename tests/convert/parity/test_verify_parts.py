"""A folder of several files is compared file by file, and by what the files generate together; the models are
stand-ins.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from convert import plugin
from convert.errors import BadInput, ConvertError, UsageError
from convert.files.part_names import MERGED
from convert.outcome.report import Report, Tensor
from convert.outcome.verdict import FAIL, PASS, GenerationVerdict, OutputVerdict, Verdict
from convert.parity import parts as verify_parts
from convert.parity.generation import encoders as encoder_generation
from convert.parity.generation.encoders import STEMS, verify_encoder_generation
from convert.parity.method import VerifyMethod
from convert.parity.parts import Parts, open_side, parts_in
from convert.request.options import Options
from convert.request.source import Source
from convert.runtimes.generation import EncoderGeneration

SOURCE = Source("hf-folder", Path("t5"))


def folder_of(path: Path, stems: Any = STEMS, suffix: str = ".onnx") -> Path:
    path.mkdir(exist_ok=True)
    for stem in stems:
        (path / f"{stem}{suffix}").write_bytes(b"model")
    return path


def parts_of(path: Path, stems: Any = STEMS) -> Parts:
    found = parts_in(folder_of(path, stems))
    assert found is not None
    return found


def test_parts_are_told_by_their_names_and_are_of_one_format(tmp_path: Path) -> None:
    assert parts_in(tmp_path) is parts_in(tmp_path / "nowhere") is parts_in(3) is None
    for stem in STEMS[1:]:
        (tmp_path / f"{stem}.savedmodel").mkdir()
    (tmp_path / "encoder_model.onnx").mkdir()  # a folder instead of a file
    found = parts_in(str(tmp_path))
    assert found is not None
    assert (found.label, found.kind, list(found.files)) == (str(tmp_path), "savedmodel", [*STEMS[1:]])
    (tmp_path / "decoder_model.onnx").write_bytes(b"model")
    with pytest.raises(UsageError, match=r"of several formats: onnx \(decoder_model.onnx\), tf \(decoder_model.saved"):
        parts_in(tmp_path)


def test_what_is_a_model_is_no_parts(tmp_path: Path) -> None:
    def opened(thing: Any) -> Source:
        if thing == "broken":
            raise BadInput("no model")
        return SOURCE

    assert open_side(folder_of(tmp_path), opened) is SOURCE
    with pytest.raises(BadInput, match="no model"):
        open_side("broken", opened)


def verified(
    monkeypatch: pytest.MonkeyPatch,
    source: Any,
    target: Any,
    statuses: Any = (PASS, PASS, PASS),
    generated: Any = "",
    wanted: Any = STEMS,
    method: VerifyMethod | None = None,
) -> tuple[Report, list[Any]]:
    """Return the report and the compared pairs with their `part`; the last are the source's own parts if it
    generated.
    """
    calls: list[Any] = []

    def verify(left: Any, right: Path, *, method: Any, report: Report, **given: Any) -> Report:
        report.verdict = Verdict(statuses[len(calls)], "told", outputs=[OutputVerdict("logits", floor=1e-7)])
        report.inputs = [Tensor("ids", "int64", ("rows",))]
        report.seconds = {"verify": 1.0}
        calls.append((left, right.name, given))
        return report

    def generate(source: Source, files: Any, kind: str, found: Any, options: Any, method: Any, beside: Any) -> Any:
        calls.append((source.path, beside))
        return generated

    monkeypatch.setattr(plugin, "parts_of", lambda *_: {stem: {"part": stem[:7]} for stem in wanted})
    monkeypatch.setattr(verify_parts, "verify_encoder_generation", generate)
    report = Report("verify")
    verify_parts.verify_parts(verify, source, target, Options(), {"trust": True}, method, report)
    return report, calls


def test_each_file_is_compared_and_then_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = parts_of(tmp_path / "out", (*STEMS, MERGED))
    (tmp_path / "out" / "another.onnx").write_bytes(b"model")
    same = GenerationVerdict(PASS, 32, 2, 32)
    report, calls = verified(monkeypatch, SOURCE, target, generated=same)
    assert calls == [
        *((SOURCE, f"{stem}.onnx", {"trust": True, "part": stem[:7]}) for stem in STEMS),
        (Path("t5"), None),
    ]
    assert (report.source, report.target, report.format) == ("t5", target.label, "onnx")
    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.generation) == (PASS, same)
    assert [row.name for row in report.verdict.outputs] == [f"{stem}: logits" for stem in STEMS]
    assert report.inputs[0].name == "encoder_model: ids"
    assert report.seconds["verify"] >= 3
    assert report.notes == ["not compared: another.onnx"]


def test_other_tokens_are_a_failure_and_a_broken_part_generates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = parts_of(tmp_path / "out")
    other = GenerationVerdict(FAIL, 32, 2, 3, "token 4 differs")
    verdict = verified(monkeypatch, SOURCE, target, generated=other)[0].verdict
    assert verdict is not None
    assert (verdict.status, verdict.reason, verdict.generation) == (FAIL, "token 4 differs", other)
    report, calls = verified(monkeypatch, SOURCE, target, (PASS, FAIL, PASS))
    assert report.verdict is not None
    assert (report.verdict.status, report.verdict.reason, len(calls)) == (FAIL, "decoder_model: told", 3)
    report, _ = verified(monkeypatch, SOURCE, target, generated="generation was not compared: why")
    assert "generation was not compared: why" in report.notes


def test_both_sides_may_be_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = parts_of(tmp_path / "one"), parts_of(tmp_path / "two")
    _, calls = verified(monkeypatch, source, target)
    assert calls[0] == (source.files[STEMS[0]], "encoder_model.onnx", {"trust": True})
    assert calls[3] == (source.files[STEMS[2]], source.files)


def test_a_decoder_without_a_cache_does_not_generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, calls = verified(monkeypatch, SOURCE, parts_of(tmp_path / "out"), wanted=STEMS[:2])
    assert len(calls) == 2
    assert report.notes == ["not compared: decoder_with_past_model.onnx"]


@pytest.mark.parametrize(
    ("left", "right", "wanted", "error"),
    [
        (None, STEMS[:2], STEMS, "two lacks decoder_with_past_model.onnx"),
        (STEMS[1:], STEMS, STEMS, "one lacks encoder_model.onnx"),
        (STEMS, None, STEMS, "one is several files, and t5 is one model\nhint: the source comes first"),
        (STEMS, None, (), "one is several files, and t5 is one model\nhint: name one of them"),
        (None, STEMS, (), "two is several files, and t5 is one model\nhint: name one of them"),
    ],
)
def test_sides_that_do_not_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: Any, right: Any, wanted: Any, error: str
) -> None:
    sides = [SOURCE if stems is None else parts_of(tmp_path / n, stems) for n, stems in (("one", left), ("two", right))]
    with pytest.raises(ConvertError, match=error):
        verified(monkeypatch, *sides, wanted=wanted)


@pytest.mark.parametrize("asked", [{"arrays": {"x": np.zeros(1)}}, {"pairs": {"x": "y"}}, {"save": Path("x.npz")}])
def test_what_is_for_one_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any) -> None:
    with pytest.raises(UsageError, match=r"is for one model, and .*out is several files"):
        verified(monkeypatch, SOURCE, parts_of(tmp_path / "out"), method=VerifyMethod(**asked))


@pytest.mark.parametrize("past", ["past_key_values.0.key", "cache_0"])
def test_files_on_both_sides_begin_with_one_token_and_have_names_of_their_own(
    monkeypatch: pytest.MonkeyPatch, past: str
) -> None:
    asked: list[Any] = []

    def generate_with(model: Source, who: str, how: EncoderGeneration, prompt: Any, *rest: Any) -> Any:
        asked.append((how.further.inputs, prompt["first"].tolist()))
        return {"tokens": np.zeros((2, 1), int), "scores": np.zeros((2, 1, 9))}

    monkeypatch.setattr(plugin, "runner_for", lambda kind: SimpleNamespace(generate=None))
    monkeypatch.setattr(encoder_generation, "generate_with", generate_with)
    parts = {stem: Report("verify") for stem in STEMS}
    for part in parts.values():
        part.inputs = [Tensor("input_ids", "int64", ("b", "s")), Tensor(past, "float32", ("b", 2, "p", 4))]
        part.outputs = [Tensor("logits", "float32", ("b", "s", 9))]
        part.renamed = {"inputs": {past: "theirs"}}
        part.verdict = Verdict(PASS, outputs=[OutputVerdict("logits", floor=1e-7)])
    files = {stem: Path(f"{stem}.onnx") for stem in STEMS}
    found = verify_encoder_generation(SOURCE, files, "tf", parts, Options(), VerifyMethod(), files)
    if past == "cache_0":
        assert found == "generation was not compared: the source's parts call their inputs otherwise"
        return
    assert found == GenerationVerdict(PASS, 1, 2, 1)
    assert asked == [({"input_ids": "input_ids", past: name}, [[0], [0]]) for name in (past, "theirs")]
