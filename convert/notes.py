"""The sentences of a report and of a verdict: each has a code, a level from which it is shown, and operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from convert.note_codes import ACTION, CODES, LEVELS, OTHER


class Note(str):
    """A sentence, with the code of what it is about, its level, and the operators of the graph that it concerns.

    It is a `str`, its text, wherever one is wanted. The level is that of the code (`convert.note_codes`).

    >>> from convert.notes import Note
    >>> note = Note("assuming input: float32[batch,3]", code="assumed-input")
    >>> note.level, note.endswith("3]")
    ('action', True)
    """

    code: str
    level: str
    operators: tuple[str, ...]

    def __new__(cls, text: str, code: str = OTHER, level: str = "", operators: Iterable[str] = ()) -> Note:
        """level: another one than the code has."""
        note = super().__new__(cls, text)
        note.code = code
        note.level = level or (CODES[code].level if code in CODES else ACTION)
        note.operators = tuple(operators)
        return note

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"code": self.code, "level": self.level, "text": str(self), "operators": list(self.operators)}


def as_note(text: str) -> Note:
    """A plain text, such as one of a plugin, as a note of the code `other`; a note as it is."""
    return text if isinstance(text, Note) else Note(text)


def note_from_json(data: str | Mapping[str, Any]) -> Note:
    """The note whose `to_dict` this is, or the text that older versions wrote in its place."""
    if isinstance(data, str):
        return Note(data)
    return Note(data["text"], data["code"], data["level"], data.get("operators", ()))


def visible_notes(notes: Iterable[str], verbose: int) -> list[Note]:
    """Return the notes that are shown at this verbosity (the number of `-v` options)."""
    shown = LEVELS[: verbose + 1]
    return [note for note in map(as_note, notes) if note.level in shown]


def prefixed_note(prefix: str, text: str, *, least: str = ACTION) -> Note:
    """Return `prefix: text` with the code of the note, and its level unless `least` shows it later."""
    note = as_note(text)
    return Note(f"{prefix}: {note}", note.code, max(note.level, least, key=LEVELS.index), note.operators)
