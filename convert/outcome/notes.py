"""Notes of a report or a verdict: sentences with a code, a level that decides when they are shown, and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from convert.outcome.note_codes import ACTION, CODES, LEVELS, OTHER


class Note(str):
    """A sentence with a code, a level, and the operators of the graph that it is about.

    A note is a `str`. Its level is that of its code in `convert.outcome.note_codes`, unless another one is given.

    >>> from convert.outcome.notes import Note
    >>> note = Note("assuming input: float32[batch,3]", code="assumed-input")
    >>> note.level, note.endswith("3]")
    ('action', True)
    """

    code: str
    level: str
    operators: tuple[str, ...]

    def __new__(cls, text: str, code: str = OTHER, level: str = "", operators: Iterable[str] = ()) -> Note:
        """Make a note. level: empty for the level of the code."""
        note = super().__new__(cls, text)
        note.code = code
        note.level = level or (CODES[code].level if code in CODES else ACTION)
        note.operators = tuple(operators)
        return note

    def to_dict(self) -> dict[str, Any]:
        """Return the note as a dict for JSON: code, level, text and operators."""
        return {"code": self.code, "level": self.level, "text": str(self), "operators": list(self.operators)}


def as_note(text: str) -> Note:
    """Return a `Note` unchanged, and a plain text, such as one from a plugin, as a note with the code `other`."""
    return text if isinstance(text, Note) else Note(text)


def note_from_json(data: str | Mapping[str, Any]) -> Note:
    """Return the note that `to_dict` wrote. Earlier versions wrote the text alone, which is read as well."""
    if isinstance(data, str):
        return Note(data)
    return Note(data["text"], data["code"], data["level"], data.get("operators", ()))


def visible_notes(notes: Iterable[str], verbose: int) -> list[Note]:
    """Return the notes that are shown at this verbosity (the number of `-v` options)."""
    shown = LEVELS[: verbose + 1]
    return [note for note in map(as_note, notes) if note.level in shown]


def prefixed_note(prefix: str, text: str, *, least: str = ACTION) -> Note:
    """Return `prefix: text` as a note with the same code, and with the level of the note or `least`, whichever is shown
    later.
    """
    note = as_note(text)
    return Note(f"{prefix}: {note}", note.code, max(note.level, least, key=LEVELS.index), note.operators)
