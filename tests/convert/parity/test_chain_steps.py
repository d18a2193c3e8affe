"""Test chains with a replaced judge of the steps: the judge's arguments, and the use of its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convert.errors import BadInput, ConvertError, UsageError
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, Verdict
from convert.parity.locate.chain import Artifact, parse_artifacts, parse_pairs, verify_chain
from convert.parity.method import VerifyMethod


class Judge:
    """Returns a preset verdict for each pair, and records the calls."""

    def __init__(self, *answers: str | ConvertError) -> None:
        self.answers, self.asked = list(answers), list[dict[str, Any]]()

    def __call__(self, left: Path, right: Path, *, report: Report, method: VerifyMethod, **options: Any) -> Report:
        number = len(self.asked)
        self.asked.append({"pair": (left.name, right.name), "method": method, **options})
        answer = self.answers[number]
        if isinstance(answer, ConvertError):
            raise answer
        report.source, report.kind, report.format, report.operators = f"s{number}", f"k{number}", f"f{number}", number
        report.inputs, report.outputs = [f"in{number}"], [f"out{number}"]  # type: ignore[list-item]
        report.parameters, report.weight_bytes = 10 + number, 20 + number
        report.seconds = {"read": 0.5 + number}
        report.note(f"note {number}")
        report.verdict = Verdict(answer, reason=f"why {number}")
        return report


def chain(count: int) -> list[Artifact]:
    return [Artifact(Path(f"{chr(97 + i)}.onnx"), f"f{i}" if i % 2 else "") for i in range(count)]


def run(judge: Judge, count: int, method: VerifyMethod | None = None, **options: Any) -> Report:
    return verify_chain(chain(count), judge, Report("verify"), method or VerifyMethod(), inputs="given", **options)


OPTIONS: dict[str, Any] = {
    "model": "m", "outputs": ("o",), "signature": "s", "trace": True, "layout": "nhwc", "trust": True,
}  # fmt: skip


def test_options_are_of_the_first_artefact() -> None:
    judge = Judge(PASS, PASS, PASS)
    run(judge, 4, **OPTIONS)
    first, second, third = judge.asked
    assert [a["pair"] for a in judge.asked] == [("a.onnx", "b.onnx"), ("b.onnx", "c.onnx"), ("c.onnx", "d.onnx")]
    assert {k: first[k] for k in OPTIONS} == OPTIONS
    assert first["inputs"] == "given"
    plain = {"outputs": (), "signature": "", "trace": False, "layout": "", "trust": True, "inputs": None}
    assert {k: second[k] for k in plain} == {k: third[k] for k in plain} == plain
    # Each artefact is built by the factory before it.
    assert [a["model"] for a in judge.asked] == ["m", "f1", ""]
    assert [a["method"].target.model for a in judge.asked] == ["f1", "", "f3"]
    assert all(a["method"].target.trust is True for a in judge.asked)
    run(judge := Judge(PASS, PASS), 3)
    assert all(a["method"].target.trust is False for a in judge.asked)
    assert judge.asked[0]["model"] == ""


def test_of_the_first_the_whole_is_told() -> None:
    report = run(Judge(PASS, PASS), 3)
    assert (report.source, report.kind, report.operators) == ("s0", "k0", 0)
    assert (report.inputs, report.outputs) == (["in0"], ["out0"])
    assert (report.parameters, report.weight_bytes) == (10, 20)
    assert (report.target, report.format) == ("c.onnx", "f1")
    assert report.notes == ["note 0", "note 1"]
    assert report.seconds == {"read": 2.0}
    assert [(s.source, s.target) for s in report.steps] == [("a.onnx", "b.onnx"), ("b.onnx", "c.onnx")]


@pytest.mark.parametrize(
    ("answers", "at"),
    [
        ((PASS, PASS, PASS), 2),
        ((PASS, FAIL, PASS), 1),
        ((INCONCLUSIVE, FAIL, PASS), 0),
        ((PASS, PASS, FAIL), 2),
        ((FAIL, FAIL, FAIL), 0),
    ],
)
def test_the_verdict_is_that_of_the_first_break(answers: tuple[str, ...], at: int) -> None:
    report = run(Judge(*answers), 4)
    assert report.verdict is not None
    assert report.verdict.reason == f"why {at}"
    assert [s.status for s in report.steps] == list(answers)


def test_a_step_that_fails_to_run_is_a_row() -> None:
    report = run(Judge(PASS, BadInput("no file"), PASS), 4)
    assert [s.status for s in report.steps] == [PASS, "ERROR", PASS]
    assert (report.steps[1].error, report.steps[1].error_code) == ("no file", BadInput("").exit_code)
    assert report.verdict is None
    # With two artefacts this is the error of the whole call.
    with pytest.raises(BadInput, match="no file"):
        run(Judge(BadInput("no file")), 2)


def test_two_artefacts_are_one_verification() -> None:
    judge = Judge(FAIL)
    report = run(judge, 2, VerifyMethod(pairs={"a": "b"}, profile=True, save=Path("x.npz")), **OPTIONS)
    assert (report.steps, report.source, report.format) == ([], "s0", "f0")
    assert report.verdict is not None
    (asked,) = judge.asked
    assert (asked["method"].pairs, asked["method"].profile, asked["method"].save) == ({"a": "b"}, True, Path("x.npz"))


def test_page_and_inputs_are_those_of_the_first_break() -> None:
    judge = Judge(PASS, FAIL, PASS)
    run(judge, 4, VerifyMethod(profile=True, save=Path("x.npz")))
    assert [a["method"].profile for a in judge.asked] == [True, True, False]
    assert [a["method"].save for a in judge.asked] == [Path("x.npz"), Path("x.npz"), None]
    judge = Judge(PASS, PASS)
    run(judge, 3)
    assert [a["method"].profile for a in judge.asked] == [False, False]


def test_pairs_of_names_are_for_two() -> None:
    with pytest.raises(UsageError, match="--map is for two artefacts"):
        run(Judge(), 3, VerifyMethod(pairs={"a": "b"}))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], {}),
        (["a=b", "c=d"], {"a": "b", "c": "d"}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (["a"], None),
        (["=a"], None),
        (["a=b", "a=c"], None),
    ],
)
def test_pairs_are_name_is_name(texts: list[str], found: dict[str, str] | None) -> None:
    if found is not None:
        assert parse_pairs(texts) == found
        return
    with pytest.raises(UsageError, match="is not NAME=NAME, each left name once"):
        parse_pairs(texts)


@pytest.mark.parametrize(
    ("words", "models"),
    [
        (["a.onnx", "b.onnx"], ["", ""]),
        (["net.py:Net", "w.pt", "b.onnx"], ["net.py:Net", ""]),
        (["a.onnx", "pkg.module:make.net", "w.pt"], ["", "pkg.module:make.net"]),
        (["a.onnx", "b:c/d"], ["", ""]),
        (["a.onnx", "b c:d"], ["", ""]),
        (["a.onnx", ":d"], ["", ""]),
    ],
)
def test_a_factory_is_a_place_and_a_name(words: list[str], models: list[str]) -> None:
    assert [a.model for a in parse_artifacts(words)] == models


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["a.py:Net", "b.py:Net", "w.pt"], "a.py:Net is followed by another factory"),
        (["a.onnx", "b.onnx", "b.py:Net"], "b.py:Net builds a module, whose weights have to follow"),
        (["a.py:Net", "w.pt"], "two artefacts or more are compared"),
    ],
)
def test_a_factory_has_weights(words: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_artifacts(words)


def test_a_file_whose_name_has_a_colon_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "net.py:Net"
    file.touch()
    assert [a.model for a in parse_artifacts([str(file), "b.onnx"])] == ["", ""]
