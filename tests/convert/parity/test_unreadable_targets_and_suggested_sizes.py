"""Unreadable targets, missing files, and sizes that constants suggest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.errors import BadInput, ConvertError, UnsafeInput, Unsupported, UsageError
from convert.graph import Graph
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Verdict
from convert.parity import parts as verify_parts
from convert.parity import two_artefacts
from convert.parity.compare.distribution import judge_distributions, varies_between_runs
from convert.parity.generation.encoders import STEMS
from convert.parity.inputs.size_search import suggested_sizes
from convert.parity.method import VerifyMethod
from convert.parity.parts import Parts, parts_in
from convert.parity.two_artefacts import _read_right
from convert.request.options import Options
from convert.request.source import Source

F = ir.DataType.FLOAT


@pytest.mark.parametrize(
    ("error", "pairs", "trust", "raised"),
    [
        (Unsupported("not read"), {}, False, False),
        (Unsupported("not read"), {"x": "y"}, False, True),
        (BadInput("not read"), {}, False, True),
        (BadInput("not read"), {}, True, True),
        (BadInput("not read", doubtful=True), {}, False, False),
        (BadInput("not read", doubtful=True), {"x": "y"}, False, True),
        (UnsafeInput("not read"), {}, False, True),
        (UnsafeInput("not read"), {}, True, False),
        (UnsafeInput("not read"), {"x": "y"}, True, True),
    ],
)
def test_a_target_that_cannot_be_read_is_run_unless_it_is_broken(
    error: ConvertError, pairs: dict[str, str], trust: bool, raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(two_artefacts, "read_model", read)
    report, method = Report("verify"), VerifyMethod(pairs=pairs, target=Options(trust=trust))
    if raised:
        with pytest.raises(type(error), match="not read"):
            _read_right(Source("onnx"), method, Options(), "b", report)
        assert report.notes == []
    else:
        assert _read_right(Source("onnx"), method, Options(), "b", report) is error
        assert report.notes == ["b is taken to have the same names and weights, because it cannot be read: not read"]


@pytest.mark.parametrize(
    ("own", "theirs", "used"),
    [({}, {}, {}), ({"a": 1}, {}, {"a": 1}), ({}, {"b": 2}, {"b": 2}), ({"a": 1}, {"b": 2}, {"b": 2})],
)
def test_the_rules_of_the_target_come_before_those_of_the_source(
    own: Any, theirs: Any, used: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(two_artefacts, "read_model", lambda right, options, report: asked.append(options.rules))
    method = VerifyMethod(target=Options(rules=theirs))
    _read_right(Source("onnx"), method, Options(rules=own), "b", Report("verify"))
    assert asked == [used]


# -- several files ----------------------------------------------------------------------------------------------------


def folder(path: Path, *stems: str, suffix: str = ".onnx") -> Parts:
    path.mkdir()
    for stem in stems:
        (path / f"{stem}{suffix}").write_bytes(b"model")
    found = parts_in(path)
    assert found is not None
    return found


@pytest.mark.parametrize("lacking", ["left", "right"])
def test_both_sides_have_the_same_files(lacking: str, tmp_path: Path) -> None:
    some, every = folder(tmp_path / "some", *STEMS[:2]), folder(tmp_path / "every", *STEMS)
    sides = (some, every) if lacking == "left" else (every, some)
    with pytest.raises(BadInput, match=rf"some lacks {STEMS[2]}\.onnx, which belongs"):
        verify_parts._options_of_parts(*sides, Options())
    assert verify_parts._options_of_parts(some, some, Options()) == {stem: {} for stem in STEMS[:2]}


def test_several_files_are_the_target_of_one_model_and_not_the_other_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, one = folder(tmp_path / "some", *STEMS[:2]), Source("onnx")
    for known, hint in (({"encoder_model": {}}, "the source comes first: convert verify"), ({}, "name one of them")):
        monkeypatch.setattr(plugin, "parts_of", lambda side, chosen, known=known: known)
        with pytest.raises(UsageError) as raised:
            verify_parts._options_of_parts(parts, one, Options())
        assert str(raised.value.hint).startswith(hint)
    monkeypatch.setattr(plugin, "parts_of", lambda side, chosen: {})
    with pytest.raises(UsageError, match=r"is several files, and .* is one model") as raised:
        verify_parts._options_of_parts(one, parts, Options())
    assert "encoder_model.onnx" in str(raised.value.hint)
    monkeypatch.setattr(plugin, "parts_of", lambda side, chosen: {"encoder_model": {"part": "e"}})
    assert verify_parts._options_of_parts(one, parts, Options()) == {"encoder_model": {"part": "e"}}


@pytest.mark.parametrize(
    ("method", "chosen", "name"),
    [
        (VerifyMethod(arrays={"x": np.ones(1)}), Options(), "--inputs"),
        (VerifyMethod(pairs={"x": "y"}), Options(), "--map"),
        (VerifyMethod(save=Path("a.npz")), Options(), "--save-inputs"),
        (VerifyMethod(), Options(examples={"x": np.ones(1)}), "--input"),
    ],
)
def test_what_describes_one_model_is_refused_for_several(
    method: VerifyMethod, chosen: Options, name: str, tmp_path: Path
) -> None:
    parts = folder(tmp_path / "some", *STEMS[:2])
    with pytest.raises(UsageError, match=f"^{name} is for one model"):
        verify_parts.verify_parts(lambda *_: None, Source("onnx"), parts, chosen, {}, method, Report("verify"))


# -- sizes ------------------------------------------------------------------------------------------------------------


def zeros(*dims: int) -> np.ndarray:
    return np.zeros(dims, np.float32)


def test_sides_and_lengths_of_what_was_flattened() -> None:
    """98 may be two channels of 7 x 7, or a length of 49; strides of 2 to 32 make maps larger."""
    g = Graph()
    x = g.input("x", F, ["n", 3, "h", "w"])
    g.output(g.MatMul(g.Flatten(g.Conv(x, zeros(2, 3, 1, 1))), zeros(98, 10)), "y")
    found = suggested_sizes(g.model())
    assert found == [98, 10, 7, 14, 28, 56, 112, 224, 49, 5, 196, 20, 392, 40, 784, 80, 160]
    assert {type(size) for size in found} == {int}


def test_what_channels_do_not_divide_has_no_side() -> None:
    """50 is not three channels of 4 x 4, and 10 is not three lines of 3."""
    g = Graph()
    x = g.input("x", F, ["n", 3, "h", "w"])
    g.output(g.MatMul(g.Flatten(g.Conv(x, zeros(3, 3, 1, 1))), zeros(50, 10)), "y")
    assert suggested_sizes(g.model()) == [50, 10]


def test_targets_of_reshapes_and_lengths_of_tables() -> None:
    g = Graph()
    x = g.input("x", F, ["n", "t"])
    y = g.Reshape(x, np.array([-1, 0, 6, 7]))
    g.output(g.Add(y, zeros(11, 1, 1, 7)), "y")
    g.output(g.Expand(x, g.Shape(x)), "z")
    # The numbers, their product, and the table's length; 6 and 7 are no squares times channels, and there is one
    # channel.
    assert suggested_sizes(g.model()) == [6, 7, 42, 11]
    g = Graph()
    x = g.input("x", F, ["n", "t"])
    g.output(g.Add(x, zeros(1, 1025)), "y")
    g.output(g.Mul(x, zeros(1, 1024)), "z")
    assert suggested_sizes(g.model()) == [1024]


def test_forty_sizes_are_suggested() -> None:
    g = Graph()
    x = g.input("x", F, ["n", "t"])
    for number in range(2, 60):
        g.output(g.Add(x, zeros(1, number)), f"y{number}")
    assert suggested_sizes(g.model()) == list(range(2, 42))


# -- draws ------------------------------------------------------------------------------------------------------------


def random_graph() -> ir.Model:
    g = Graph()
    x = g.input("x", F, [4])
    g.output(g.Neg(x), "plain")
    g.output(g.Add(x, g.RandomNormal(shape=[4])), "noise")
    return g.model()


def drawn(seed: int, center: float = 0.0, spread: float = 1.0) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"plain": np.ones(4), "noise": center + spread * rng.standard_normal(4)} for _ in range(256)]


@pytest.mark.parametrize(
    ("theirs", "status", "text"),
    [
        (drawn(1), INCONCLUSIVE, "output 'noise': 256 draws of source and target have one mean and spread"),
        (drawn(1, center=1.0), FAIL, "noise: the mean of 256 draws differs, by "),
        (drawn(1, spread=2.0), FAIL, "noise: the spread of 256 draws differs, by "),
        (drawn(1)[:1] * 256, INCONCLUSIVE, "output 'noise': in 256 runs only the source gives other numbers"),
    ],
)
def test_draws_of_both_sides(theirs: list[dict[str, np.ndarray]], status: str, text: str) -> None:
    rows = [OutputVerdict("plain"), OutputVerdict("noise", INCONCLUSIVE, "random")]
    verdict = Verdict(INCONCLUSIVE, "random", outputs=rows)
    verdict = judge_distributions(verdict, random_graph(), drawn(0), theirs)
    assert [verdict.status, *(row.status for row in verdict.outputs)] == [status, PASS, status]
    assert (verdict.reason if status == FAIL else verdict.notes[0]).startswith(text)
    assert len(verdict.notes) == (status != FAIL)
    again = Verdict(FAIL, "before", outputs=[OutputVerdict("plain"), OutputVerdict("noise", INCONCLUSIVE, "random")])
    again = judge_distributions(again, random_graph(), drawn(0), theirs)
    assert (again.status, again.reason) == (FAIL, "before")


def test_runs_that_are_the_same_draw_nothing() -> None:
    one, other = np.array([1.0, np.nan]), np.array([1.0, 2.0])
    assert not varies_between_runs([one] * 4)
    assert varies_between_runs([one, one, other])
    assert not varies_between_runs([np.ones(2), np.ones(3)]), "of another shape nothing is told"
    assert varies_between_runs([np.ones(2, int), np.zeros(2, int)])
