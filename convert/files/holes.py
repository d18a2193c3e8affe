"""Files with holes: what was never written reads as zeros, and a file of no bytes can be as long as a disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from convert import limits
from convert.errors import BadInput


def check_holes(path: Path) -> None:
    """Raise `BadInput` for a large file that is made of holes, by the measure of archives that expand.

    Where the file system does not tell its holes a file has none.
    """
    size = path.stat().st_size
    if size <= limits.ARCHIVE_FREE_BYTES or not hasattr(os, "SEEK_DATA"):
        return
    enough = size // limits.ARCHIVE_EXPANSION
    with path.open("rb") as file:
        written, at = 0, 0
        while written < enough:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
                at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:  # which says that there is no more data
                    return
                raise BadInput(
                    f"{path} says that it has {size / 1e9:,.1f} GB, and {written:,} bytes of it were ever written",
                    hint="get the file again; the download or the copy was cut off",
                ) from None
            written += at - start
