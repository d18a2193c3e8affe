"""The printed report: one line for a PASS, notes by their level, files at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convert.cli import render
from convert.outcome.notes import Note
from convert.outcome.report import Report, Tensor
from convert.outcome.text import bytes_text, counted
from convert.outcome.verdict import INCONCLUSIVE, PASS, LayerLoss, OutputVerdict, SetErrors, Verdict


def report(*outputs: OutputVerdict, **more: Any) -> Report:
    verdict = Verdict(PASS, outputs=list(outputs), sets="5 input sets, batch 1–7", limit=4.0)
    done = Report("convert", "mnist.pt", "torch-module", "mnist.savedmodel", "tf", output_bytes=186_123)
    done.inputs = [Tensor("input", "float32", ("batch", 1, 28, 28))]
    done.outputs = [Tensor("output", "float32", ("batch", 10))]
    done.verdict = replace(verdict, **more)
    return done


def row(name: str, error: float, floor: float = 1e-7) -> OutputVerdict:
    return OutputVerdict(name, error=error, floor=floor, sets=[SetErrors(error, floor, error)])


def shown(capsys: pytest.CaptureFixture[str], done: Report, **options: object) -> tuple[list[str], list[str]]:
    """The lines on stdout and on stderr."""
    render.report(done, **{"quiet": False, "verbose": 0, "seconds": 6.52, **options})  # type: ignore[arg-type]
    printed = capsys.readouterr()
    return printed.out.splitlines(), printed.err.splitlines()


def test_a_successful_conversion(capsys: pytest.CaptureFixture[str]) -> None:
    done = report(row("output", 1.31e-7))
    assumed = "assuming input: float32[batch,1,28,28] (from conv1; set it with --input)"
    done.note(assumed, code="assumed-input")
    out, err = shown(capsys, done, written={Path("out.html"): "report"})
    assert err == [assumed]
    assert out == [
        "mnist.pt → mnist.savedmodel  (TensorFlow SavedModel, 186 kB, 6.5 s)",
        "  in   input   float32[batch,1,28,28]",
        "  out  output  float32[batch,10]",
        "PASS  error 1.3e-07 = 1.3× the source's own rounding error (limit 4×); 5 input sets, batch 1–7",
        "report: out.html",
    ]
    out, err = shown(capsys, done, quiet=True)
    assert err == []
    assert out[1] == "  in   input   float32[batch,1,28,28]  (assumed)"


@pytest.mark.parametrize("verbose", [0, 1])
def test_layers_that_lose_most_are_a_table(capsys: pytest.CaptureFixture[str], verbose: int) -> None:
    layers = [
        LayerLoss("n", "aten::conv2d", "head.0", "", 22.5, 48.75),
        LayerLoss("mul", "Mul", "", "", 38, float("inf")),
    ]
    out, _ = shown(capsys, report(row("y", 0.0), layers=layers), verbose=verbose)
    table = [
        "  layers that lose most in 8 bits  operator      SQNR before  behind",
        "  head.0                           aten::conv2d  48.8 dB      22.5 dB",
        "  mul                              Mul           exact        38.0 dB",
    ]
    assert [line for line in out if line in table] == table * verbose


@pytest.mark.parametrize("verbose", [0, 1, 2, 3])
def test_notes_are_shown_from_their_level_on(capsys: pytest.CaptureFixture[str], verbose: int) -> None:
    done = report(row("y", 0.0))
    codes = ("renamed", "loaded-as", "special-values")
    for code in codes:
        done.note(f"of {code}", code=code)
    assert done.verdict is not None
    theirs = [Note(f"about {code}", code) for code in ("special-differs", "limited-sizes", "kernel-numbers")]
    done.verdict = replace(done.verdict, notes=theirs)
    out, err = shown(capsys, done, verbose=verbose)
    count = min(verbose + 1, 3)
    assert [line for line in err if line.startswith("note: ")] == [
        f"note: of {code}" + (f"  [{code}]" if verbose else "") for code in codes[:count]
    ]
    assert sum(line.startswith("  note: about ") for line in out) == count
    out, err = shown(capsys, done, quiet=True)
    assert not [line for line in (*out, *err) if "note: " in line]


@pytest.mark.parametrize(
    ("rows", "more", "line"),
    [
        ([row("y", 0.0)], {}, "PASS  the outputs are equal; 5 input sets, batch 1–7"),
        ([row("y", 4.7e-8)], {}, "PASS  error 4.7e-08 = 0.5× the source's own rounding error (limit 4×); …"),
        ([row("y", 2e-9, 0.0)], {}, "PASS  error 2.0e-09; …"),
        ([row("y", 3e-8), row("z", 2e-7)], {}, "PASS  error 2.0e-07 = 2.0× the source's own rounding error (limit 4×) "
                                               "in z, the worst of 2 outputs; …"),
        ([row("y", 2e-7)], {"limit": 0.0}, "PASS  error 2.0e-07 = 2.0× the source's own rounding error; …"),
        ([row("y", 9e-5, 1e-4)], {"limit": 0.0, "stored": "float16 values"},
         "PASS  error 9.0e-05 = 0.9× the rounding error of float16 values; …"),
    ],
)  # fmt: skip
def test_the_line_of_a_pass(
    capsys: pytest.CaptureFixture[str], rows: list[OutputVerdict], more: dict[str, Any], line: str
) -> None:
    out, _ = shown(capsys, report(*rows, **more))
    assert line.replace("…", "5 input sets, batch 1–7") in out


def test_rounding_that_explains_an_error_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, report(replace(row("y", 9e-7), rounding=4e-7)))
    assert any(
        "= 9.0× the source's own rounding error, of which rounding alone explains 4.0e-07" in line for line in out
    )


def test_other_verdicts_have_a_line_for_each_output(capsys: pytest.CaptureFixture[str]) -> None:
    done = report(row("y", 1e-7), OutputVerdict("z", INCONCLUSIVE, "it is random"), status=INCONCLUSIVE, reason="why")
    out, _ = shown(capsys, done)
    assert "INCONCLUSIVE: why" in out
    assert [line.partition(":")[0] for line in out if line.startswith("  ")][2:] == ["  y", "  z"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9_940, "9.9 kB"), (9_960, "10 kB"), (186_123, "186 kB"),
     (999_600, "1.0 MB"), (12_300_000, "12 MB"), (2_500_000_000, "2.5 GB"), (5 * 10**12, "5000 GB")],
)  # fmt: skip
def test_sizes_are_as_people_write_them(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_one_has_no_plural() -> None:
    assert [counted(n, "set") for n in (0, 1, 2, 1234)] == ["0 sets", "1 set", "2 sets", "1,234 sets"]
