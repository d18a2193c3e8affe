"""A model as the user named it: a path with the kind that sniffing found, or an object in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Source:
    """`kind` is one of `sniff.KINDS` for a path, or the kind that a frontend's `claims` gave to the object `model`."""

    kind: str
    path: Path | None = None
    model: Any = None
    own: bool = False
    """Whether this very run has written what is at the path, out of data: code in it is ours."""

    @property
    def label(self) -> str:
        """How messages call it."""
        return str(self.path) if self.path is not None else f"a {type(self.model).__name__} in memory"

    @property
    def file(self) -> Path:
        """The path; raises ValueError for an object in memory."""
        if self.path is None:
            raise ValueError(f"{self.label} has no path")
        return self.path
