"""Notes keep their level on their way into a report of parts, and through a pickle, as a batch's worker sends them."""

from __future__ import annotations

import pickle

from convert.notes import ALWAYS, VERBOSE, Note, note_level, prefixed_note, visible_notes
from convert.part_reports import sum_up
from convert.report import Report
from convert.verdict import PASS, Verdict


def test_levels() -> None:
    notes = ["plain", Note("detail"), Note("shown", ALWAYS)]
    assert visible_notes(notes, 0) == ["plain", "shown"]
    assert visible_notes(notes, 1) == notes
    assert note_level(pickle.loads(pickle.dumps(notes[1]))) == VERBOSE
    assert note_level(prefixed_note("encoder", "plain")) == ALWAYS


def test_notes_of_parts_keep_their_level() -> None:
    parts = {"encoder": Report("convert", verdict=Verdict(PASS, notes=["plain", Note("detail")]))}
    whole = Report("convert")
    sum_up(whole, parts)
    assert whole.verdict is not None
    assert [(str(n), note_level(n)) for n in whole.verdict.notes] == [("encoder: plain", 0), ("encoder: detail", 1)]
