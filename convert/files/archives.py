"""Opens zip archives safely: no entry may escape, hide behind another one or be a bomb."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path

from convert import limits
from convert.errors import BadInput, ResourceLimit, UnsafeInput
from convert.files.archive_layout import HINT, check_layout

BROKEN = (zipfile.BadZipFile, struct.error, zlib.error, ValueError, LookupError, OverflowError, EOFError,
          NotImplementedError, RuntimeError)  # fmt: skip
"""Exceptions that Python raises for a damaged archive, or damaged content in one."""
_PART = 1 << 20
"""Bytes of an entry that are copied at a time."""


def is_zip(head: bytes) -> bool:
    """Return whether a file that begins with `head` (4 bytes) is a zip archive; archives with data before the first
    entry are excluded.
    """
    return head in (b"PK\x03\x04", b"PK\x05\x06")


def open_archive(path: Path) -> zipfile.ZipFile:
    """Return the zip archive at `path`, checked by `check_archive`; use it in a `with`.

    Raises `BadInput` if it is broken.
    """
    try:
        archive = zipfile.ZipFile(path)
    except BROKEN as error:
        size = path.stat().st_size
        raise BadInput(
            f"{path} begins like a zip archive, but is truncated or corrupt: {_sentence(error)}; it has {size:,} bytes",
            hint="get the file again and compare its size and checksum with the source's",
        ) from None
    try:
        check_archive(archive)
    except BaseException:
        archive.close()
        raise
    return archive


def open_inner_archive(content: bytes, label: str) -> zipfile.ZipFile:
    """Return the checked archive that is an entry of another archive, as `open_archive` does, from its bytes."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except BROKEN as error:
        raise BadInput(
            f"{label} begins like a zip archive, but is truncated or corrupt: {_sentence(error)}",
            hint="get the file again, or save it again",
        ) from None
    check_archive(archive)
    return archive


def check_archive(archive: zipfile.ZipFile) -> None:
    """Reject features that no model needs but attackers use.

    Raises `UnsafeInput` for absolute paths, `..` and control characters in names, for links, for bombs, and for a
    layout that readers interpret differently (`check_layout`). Raises `BadInput` for encrypted entries and
    `ResourceLimit` for too many entries.
    """
    entries = archive.infolist()
    name = archive.filename or "the archive"
    most = limits.ARCHIVE_ENTRIES
    if len(entries) > most:
        raise ResourceLimit(f"{name} has {len(entries):,} entries; more than {most:,} are not read")
    hint = HINT
    for entry in entries:
        if _is_unsafe_path(entry.orig_filename):
            raise UnsafeInput(f"{name} has an entry named {entry.orig_filename!r}, outside of the archive", hint=hint)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise UnsafeInput(f"{name} has a link for an entry: {entry.filename!r}", hint=hint)
        if entry.flag_bits & 1:
            raise BadInput(f"{name} is encrypted", hint="unpack it and convert what is inside")
    _check_sizes(archive, entries, name)
    check_layout(archive)
    # PyTorch can be configured to write no checksums
    if not any(entry.CRC for entry in entries) and _is_pytorch(archive):
        for entry in entries:
            entry.CRC = None  # type: ignore[assignment]  # makes zipfile skip the comparison


_PYTORCH = ("data.pkl", "constants.pkl", "archive_format", "serialized_exported_program.json")


def _is_pytorch(archive: zipfile.ZipFile) -> bool:
    """Return whether an archive is PyTorch's, whose checksums `torch.serialization.set_crc32_options` may leave out."""
    return any(member(archive, name) is not None for name in _PYTORCH)


def _check_sizes(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], name: str) -> None:
    expanded = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    assert archive.fp is not None
    inner = isinstance(archive.fp, io.BytesIO)
    size = packed if inner else os.fstat(archive.fp.fileno()).st_size
    if packed > size:
        raise UnsafeInput(
            f"{name} has {size:,} bytes, its entries {packed:,}: they overlap",
            hint=HINT,
        )
    for what, before, after in [(name, size, expanded), *((e.filename, e.compress_size, e.file_size) for e in entries)]:
        if after > limits.ARCHIVE_FREE_BYTES and after > limits.ARCHIVE_EXPANSION * max(before, 1):
            raise UnsafeInput(
                f"{what} would expand from {before:,} to {after:,} bytes, like a zip bomb",
                hint="if it is genuine, unpack it and zip it again without compression",
            )


def record_root(archive: zipfile.ZipFile) -> str:
    """Return the common top folder of a torch archive (`mnist_cnn/`), or "" if there is none."""
    tops = {name.split("/", 1)[0] if "/" in name else "" for name in archive.namelist()}
    return tops.pop() + "/" if len(tops) == 1 and tops != {""} else ""


def member(archive: zipfile.ZipFile, name: str) -> str | None:
    """Return the full name of the entry `name`, at the top or in the common top folder; None if there is none."""
    full = record_root(archive) + name
    return full if full in archive.NameToInfo else None


def read_member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return the content of an entry.

    Raises `ResourceLimit` if it has more than `most` bytes, and `BadInput` if it is corrupt.
    """
    size = archive.getinfo(name).file_size
    if size > most:
        raise ResourceLimit(f"{name} in {archive.filename} has {size:,} bytes; no more than {most:,} are read")
    try:
        return archive.read(name)
    except (*BROKEN, OSError) as error:
        raise _corrupt(archive, name, error) from None


def copy_member(archive: zipfile.ZipFile, name: str, target: zipfile.ZipFile, new_name: str = "") -> None:
    """Copy an entry to another archive, a part at a time. Raises `BadInput` if it is corrupt."""
    entry = zipfile.ZipInfo(new_name or name)
    entry.file_size = archive.getinfo(name).file_size  # decides whether the header has room for large sizes
    try:
        with archive.open(name) as source, target.open(entry, "w") as copy:
            shutil.copyfileobj(source, copy, _PART)
    except BROKEN as error:
        raise _corrupt(archive, name, error) from None


def read_members(archive: zipfile.ZipFile, end: str, most: int, what: str) -> dict[str, bytes]:
    """Return the entries whose names end with `end`, in any case.

    Raises `ResourceLimit` if they have more than `most` bytes in total.
    """
    names = [name for name in archive.namelist() if name.casefold().endswith(end)]
    size = sum(archive.getinfo(name).file_size for name in names)
    if size > most:
        raise ResourceLimit(f"{archive.filename} has {size:,} bytes {what}; no more than {most:,} are looked through")
    return {name: read_member(archive, name, most) for name in names}


def _corrupt(archive: zipfile.ZipFile, name: str, error: Exception) -> BadInput:
    return BadInput(
        f"the entry {name} of {archive.filename} is corrupt ({_sentence(error)})",
        hint="get the file again and compare its checksum with the source's",
    )


def _is_unsafe_path(name: str) -> bool:
    parts = re.split(r"[/\\]", name)
    drive = re.match(r"[A-Za-z]:[/\\]", name)
    return ".." in parts or parts[0] == "" or drive is not None or any(c < " " for c in name)


def _sentence(error: Exception) -> str:
    text = str(error).split("\n")[0].strip()
    return text[:1].lower() + text[1:200] if text else type(error).__name__
