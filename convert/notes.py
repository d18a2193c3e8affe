"""The sentences of a report and of a verdict, each with the verbosity from which the command line shows it."""

from __future__ import annotations

from collections.abc import Iterable

ALWAYS, VERBOSE = 0, 1
"""Levels: shown by default, and shown with `-v`. Reports in JSON and pages have the notes of every level."""


class Note(str):
    """A note of a level other than `ALWAYS`; a plain `str` among notes is shown by default."""

    level: int

    def __new__(cls, text: str, level: int = VERBOSE) -> Note:
        note = super().__new__(cls, text)
        note.level = level
        return note


def note_level(note: str) -> int:
    """Return the verbosity from which a note is shown."""
    return note.level if isinstance(note, Note) else ALWAYS


def visible_notes(notes: Iterable[str], verbose: int) -> list[str]:
    """Return the notes that are shown at this verbosity (the number of `-v` options)."""
    return [note for note in notes if note_level(note) <= verbose]


def prefixed_note(prefix: str, note: str) -> Note:
    """Return `prefix: note` with the level of `note`."""
    return Note(f"{prefix}: {note}", note_level(note))
