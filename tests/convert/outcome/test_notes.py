"""Every note has a code of the table and keeps it everywhere, and every code of the table is used."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from convert.outcome.note_codes import ACTION, CODES, DETAIL, INFO, LEVELS, OTHER
from convert.outcome.notes import Note, note_from_json, prefixed_note, visible_notes
from convert.outcome.part_reports import sum_up
from convert.outcome.report import Report
from convert.outcome.verdict import PASS, Verdict
from convert.pages.from_json import report_from_json
from convert.runtimes.differences import Difference, difference_notes

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("convert", "frontends", "backends")
PASSED_ON = {"note", "prefixed_note"}
"""Arguments that are notes with a code already: a variable, and a function that makes one note from another."""


def noting_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of the product that makes a note (`Note(…)` and `report.note(…)`), with its location."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)) if re.search(r"[nN]ote\(", text) else ():
                if not isinstance(node, ast.Call):
                    continue
                of_report = isinstance(node.func, ast.Attribute) and node.func.attr == "note"
                if of_report and isinstance(node.func, ast.Attribute) and "report" not in ast.unparse(node.func.value):
                    continue
                if of_report or (isinstance(node.func, ast.Name) and node.func.id == "Note"):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def codes_of(call: ast.Call) -> set[str]:
    """Return the codes that a call can give; two for `a if … else b`."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
    given = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
    return {str(each.value) for each in given if isinstance(each, ast.Constant)}


def test_every_note_has_a_code_of_the_table_and_every_code_is_used() -> None:
    used = {OTHER}
    for place, call in noting_calls():
        if place.startswith(("convert/outcome/notes.py", "convert/outcome/report.py")):
            continue
        found = codes_of(call)
        passed_on = ast.unparse(call.args[0]).partition("(")[0] in PASSED_ON
        assert found or passed_on, f"{place} gives no code"
        assert found <= CODES.keys(), f"{place}: {found} is not in convert/outcome/note_codes.py"
        used |= found
    assert sorted(used) == sorted(CODES)


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_a_row_is_complete(row: object) -> None:
    code, level, summary, text = (getattr(row, name) for name in ("code", "level", "summary", "text"))
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert level in LEVELS
    assert summary.endswith(".")
    assert len(summary) <= 110
    assert code in ("training-mode", "recursion-limit", "complex-pairs") or "xample: " in text


def test_levels() -> None:
    notes = [Note("detail", "special-values"), Note("info", "renamed", INFO), Note("shown", "assumed-input"), "plain"]
    assert visible_notes(notes, 0) == ["shown", "plain"]
    assert visible_notes(notes, 1) == ["info", "shown", "plain"]
    assert visible_notes(notes, 2) == visible_notes(notes, 3) == notes
    assert prefixed_note("two.onnx", notes[2], least=INFO).level == INFO
    assert prefixed_note("two.onnx", notes[0], least=INFO).level == DETAIL


@pytest.mark.parametrize("way", [
    lambda note: pickle.loads(pickle.dumps(note)), copy.deepcopy,
    lambda note: note_from_json(json.loads(json.dumps(note.to_dict()))),
])  # fmt: skip
def test_a_note_stays_what_it_is(way: object) -> None:
    note = Note("text", "special-values", INFO, ["Relu"])
    back = way(note)  # type: ignore[operator]
    assert (back, back.code, back.level, back.operators) == ("text", "special-values", INFO, ("Relu",))


def test_notes_of_parts_keep_their_code() -> None:
    notes = [Note("plain"), Note("detail", "special-values")]
    parts = {"encoder": Report("convert", verdict=Verdict(PASS, notes=notes))}
    whole = Report("convert")
    sum_up(whole, parts)
    assert whole.verdict is not None
    found = [(str(n), n.code, n.level) for n in whole.verdict.notes]
    assert found == [("encoder: plain", OTHER, ACTION), ("encoder: detail", "special-values", DETAIL)]


def test_a_plugin_s_plain_text_is_a_note() -> None:
    report = Report("convert")
    report.note("rows are sorted")
    report.note("rows are sorted")
    report.note("x is y", code="renamed")
    assert [(str(n), n.code, n.level) for n in report.notes] == [
        ("rows are sorted", OTHER, ACTION),
        ("x is y", "renamed", ACTION),
    ]
    assert report.to_dict()["notes"][0] == {"code": OTHER, "level": ACTION, "text": "rows are sorted", "operators": []}


def test_a_report_that_comes_back_from_json_has_its_notes() -> None:
    done = Report("convert", verdict=Verdict(PASS, notes=[Note("a", "not-compared")]))
    done.note("b", code="renamed")
    back = report_from_json(json.loads(done.to_json()))
    assert back.verdict is not None
    assert [(n.code, str(n)) for n in (*back.notes, *back.verdict.notes)] == [("renamed", "b"), ("not-compared", "a")]
    assert [str(n) for n in report_from_json({"notes": ["as older versions wrote it"]}).notes] == [
        "as older versions wrote it"
    ]


def test_a_declared_difference_names_its_operators() -> None:
    import onnx_ir as ir

    x = ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Relu", [x])
    model = ir.Model(ir.Graph([x], node.outputs, nodes=[node]), ir_version=10)
    (note,) = difference_notes(model, [Difference(("Relu",), "why")])
    assert (note.code, note.operators) == ("special-values", ("Relu",))
