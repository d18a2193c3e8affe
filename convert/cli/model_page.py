"""The option of `convert inspect` that writes an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from convert.errors import ConvertError

if TYPE_CHECKING:
    from convert.outcome.report import Report


@dataclass(frozen=True)
class ModelPage:
    """The path of the page; None if no page is written."""

    path: Path | None

    def check_places(self, read: Sequence[Path]) -> None:
        """Raise `UsageError` if the page would overwrite a file in `read`, or one that this tool has not written."""
        from convert.files.side_files import check_side_file, is_page

        if self.path is not None:
            check_side_file(self.path, is_page, "--report", read)

    def named_files(self) -> list[tuple[str, Path]]:
        """Return the file to write with the option that names it."""
        return [] if self.path is None else [("--report", self.path)]

    def places(self) -> dict[Path, str]:
        """Return the file to write, and what it is."""
        return {} if self.path is None else {self.path: "report"}

    def write(self, done: Report, error: ConvertError | None = None) -> None:
        """Write the page; after an error the page shows the error."""
        if self.path is not None:
            from convert.pages.model import write_page

            write_page(done, self.path, error)
