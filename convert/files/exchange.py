"""Renames that replace a whole folder, or nothing, in one step (Linux), with fallbacks for other systems."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_CURRENT = -100
_NO_REPLACE, _EXCHANGE = 1, 2
"""Flags of renameat2(2)."""

_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""Errors of kernels and file systems that do not support the call."""


def rename_new(new: Path, place: Path) -> None:
    """Move `new` to `place`. Raises `FileExistsError` if something exists there, which is left unchanged."""
    if not _renameat2(new, place, _NO_REPLACE):
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(place))
        os.rename(new, place)


def rename_over(new: Path, place: Path, aside: Path) -> None:
    """Move `new` to `place`, and the old content of `place` to `new` or `aside`.

    At every moment, the old or the new content is in place. If the system cannot exchange two names, the old content is
    moved to `aside` first, from where `undo` (`replacement.py`) brings it back.
    """
    if not os.path.lexists(place):
        os.rename(new, place)
    elif not (_is_folder(new) or _is_folder(place)):
        os.replace(new, place)
    elif not _renameat2(new, place, _EXCHANGE):
        os.rename(place, aside)
        try:
            os.rename(new, place)
        except OSError:
            os.rename(aside, place)
            raise


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _renameat2(old: Path, new: Path, flag: int) -> bool:
    """Return True if the call succeeded, False if it is unsupported here. Raises `OSError` if it failed."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        return False
    if not call(_AT_CURRENT, os.fsencode(old), _AT_CURRENT, os.fsencode(new), flag):
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(new))
