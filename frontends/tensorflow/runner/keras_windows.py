"""Reads Keras archives written on Windows by Keras 2.12 and later, with `\\` between the parts of names."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

from convert.files.archives import open_archive


def with_slashes(path: Path) -> io.BytesIO | Path:
    """Return an archive in memory with `/` for each `\\` in the names of weights, or the path if there is none.

    Raises `ValueError` if two names become equal.
    """
    with open_archive(path) as archive:
        members = {name: archive.open(name) for name in archive.namelist() if name.endswith(".h5")}
        renamed = {name: content for name, member in members.items() if (content := _weights(member)) is not None}
        if not renamed:
            return path
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as rewritten:
            for name in archive.namelist():
                rewritten.writestr(name, renamed[name] if name in renamed else archive.read(name))
        whole.seek(0)
        return whole


def _weights(member: Any) -> bytes | None:
    """Return the HDF5 file with `/` for each `\\` in the names, which creates groups; None if no name has a `\\`."""
    import h5py

    with h5py.File(member, "r") as file:
        names: list[str] = []
        file.visit(names.append)
        if not any("\\" in name for name in names):
            return None
        content = io.BytesIO()
        with h5py.File(content, "w") as rewritten:
            for name in names:
                item, new = file[name], name.replace("\\", "/")
                if isinstance(item, h5py.Dataset):
                    file.copy(item, rewritten, name=new)
                else:
                    rewritten.require_group(new).attrs.update(item.attrs)
        return content.getvalue()
