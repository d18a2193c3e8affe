"""The option of `convert inspect` that writes a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from convert.errors import ConvertError

if TYPE_CHECKING:
    from convert.report import Report


@dataclass(frozen=True)
class ModelPage:
    """Where the page goes; None: there is none."""

    path: Path | None

    def check_places(self, read: Sequence[Path]) -> None:
        """Raises `UsageError` where the page would destroy what is `read`, or what this tool has not written."""
        from convert.files.side_files import check_side_file, is_page

        if self.path is not None:
            check_side_file(self.path, is_page, "--report", read)

    def places(self) -> dict[Path, str]:
        """The file to write, and what it is."""
        return {} if self.path is None else {self.path: "report"}

    def write(self, done: Report, error: ConvertError | None = None) -> None:
        """Write the page; after an error it tells that."""
        if self.path is not None:
            from convert.pages.model import write_page

            write_page(done, self.path, error)
