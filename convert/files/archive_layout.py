"""Compares the bytes of a zip archive with its directory: every reader must see the same entries.

Readers differ in where they look for the directory, which of two entries with one name they take, and whether they
trust an entry's own header or the directory. An archive that exploits this shows one content to a checker and another
to a loader. The layout is that of PKWARE's APPNOTE 6.3.10, section 4.3.
"""

from __future__ import annotations

import io
import mmap
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from convert.errors import BadInput, UnsafeInput

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_FOUND_LATER = 1 << 3
"""Flag of an entry whose checksum and sizes follow its data."""
_ZIP64 = 1
"""Id of the extra field with 8-byte sizes."""
_UNICODE_PATH = 0x7075
"""Id of the extra field with a second name for the entry, which some readers use."""
_DIRECTORY = 0x10
"""Flag in an entry's external attributes: PyTorch reads nothing for such an entry, and leaves its memory
uninitialized.
"""
_CHUNK = 16 << 20

HINT = "no framework writes such a file: do not use it"


Content: TypeAlias = "mmap.mmap | bytes"


class _Broken(Exception):
    """A layout error of the archive, with its description."""


def check_layout(archive: zipfile.ZipFile) -> None:
    """Compare the bytes of an open archive with the directory that `zipfile` found.

    Raises `UnsafeInput` unless all of these hold:

    - there is one directory, at the place that the end record names, and it ends where that record begins
    - each entry's own header agrees with the directory
    - entries follow one another without gaps that hold data
    - no two names are equal when case is ignored
    """
    _check_names(archive)
    with _content(archive) as content:
        try:
            end = _check_end(content, archive)
            _check_directory(content, archive, end)
            _check_entries(content, archive)
        except (_Broken, struct.error) as error:
            name = archive.filename or "the archive inside of it"
            raise UnsafeInput(f"{name} is an archive that readers interpret differently: {error}", hint=HINT) from None


@contextmanager
def _content(archive: zipfile.ZipFile) -> Iterator[Content]:
    """Yield the bytes of an archive in a file or in memory."""
    if isinstance(archive.fp, io.BytesIO):
        yield archive.fp.getvalue()
        return
    assert archive.fp is not None
    with mmap.mmap(archive.fp.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def check_checksums(path: Path) -> bool:
    """Compare the content of every entry with its CRC-32; return False if the archive was written without checksums.

    PyTorch can be configured to write zeros (`torch.serialization.set_crc32_options(False)`). Raises `BadInput` for
    content that changed since it was written.
    """
    with zipfile.ZipFile(path) as archive:
        entries = [e for e in archive.infolist() if e.file_size]
        if entries and not any(e.CRC for e in entries):
            return False
        for entry in entries:
            try:
                found = _checksum(archive, entry)
            except (zlib.error, struct.error, OSError) as error:
                raise BadInput(
                    f"the entry {entry.filename} of {path} cannot be unpacked: {error}",
                    hint="get the file again and compare its checksum with the source's",
                ) from None
            if found != entry.CRC:
                raise BadInput(
                    f"the entry {entry.filename} of {path} has changed since it was written: "
                    f"its CRC-32 is {found:08x}, the archive says {entry.CRC:08x}",
                    hint="get the file again and compare its checksum with the source's",
                )
    return True


def _checksum(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    assert archive.fp is not None
    start = entry.header_offset
    archive.fp.seek(start)
    header = _LOCAL.unpack(archive.fp.read(_LOCAL.size))
    archive.fp.seek(start + _LOCAL.size + header[-2] + header[-1])
    left, found = entry.compress_size, 0
    unpack = zlib.decompressobj(-15) if entry.compress_type == zipfile.ZIP_DEFLATED else None
    while left:
        part = archive.fp.read(min(left, _CHUNK))
        if not part:
            break
        left -= len(part)
        while unpack is not None and part:
            found = zlib.crc32(unpack.decompress(part, _CHUNK), found)
            part = unpack.unconsumed_tail
        found = zlib.crc32(part, found) if unpack is None else found
    return found


def _check_names(archive: zipfile.ZipFile) -> None:
    seen: dict[str, str] = {}
    for entry in archive.infolist():
        folded = unicodedata.normalize("NFKC", entry.orig_filename).casefold().replace("\\", "/")
        if folded in seen:
            raise UnsafeInput(
                f"{archive.filename} has two entries named {seen[folded]!r} and {entry.filename!r}; "
                "readers take one or the other",
                hint=HINT,
            )
        if entry.orig_filename != entry.filename or "\\" in entry.orig_filename:
            raise UnsafeInput(f"{archive.filename} has an entry named {entry.orig_filename!r}", hint=HINT)
        seen[folded] = entry.filename


def _check_end(content: Content, archive: zipfile.ZipFile) -> int:
    """Return where the directory must end, according to the records after it."""
    place = len(content) - _END.size
    if place < 0 or content[place : place + 4] != b"PK\x05\x06":
        raise _Broken("there is something behind the record that ends it")
    _, disk, first, here, entries, size, start, _ = _END.unpack_from(content, place)
    count, end = len(archive.infolist()), place
    locator = place - _LOCATOR.size
    if locator >= 0 and content[locator : locator + 4] == b"PK\x06\x07":
        _, _, end, disks = _LOCATOR.unpack_from(content, locator)
        if end + _END64.size != locator or content[end : end + 4] != b"PK\x06\x06" or disks > 1:
            raise _Broken("its record of 64 bits is not where it has to be")
        _, _, _, _, disk64, first64, here64, entries64, size64, start64 = _END64.unpack_from(content, end)
        short = [(here, here64, 16), (entries, entries64, 16), (size, size64, 32), (start, start64, 32)]
        if any(a not in (b, 2**bits - 1) for a, b, bits in short) or disk64 or first64:
            raise _Broken("its two end records differ")
        here, entries, size, start = here64, entries64, size64, start64
    if disk or first or here != entries or entries != count:
        raise _Broken(f"its end record counts {entries} entries, its directory has {count}")
    if start + size != end or start != archive.start_dir:
        raise _Broken("its directory is not where the end record says")
    return end


def _check_directory(content: Content, archive: zipfile.ZipFile, end: int) -> None:
    place = archive.start_dir
    for entry in archive.infolist():
        fields = _CENTRAL.unpack_from(content, place)
        if fields[0] != b"PK\x01\x02":
            raise _Broken("its directory is broken")
        name, extra, comment = fields[10:13]
        if (fields[15] & _DIRECTORY or entry.is_dir()) and entry.file_size:
            raise _Broken(f"{entry.filename!r} is a folder with content")
        if fields[13]:
            raise _Broken(f"{entry.filename!r} is said to be on another disk")
        if content[place + _CENTRAL.size : place + _CENTRAL.size + name] != _encoded(entry):
            raise _Broken(f"the name of {entry.filename!r} can be read in two ways")
        place += _CENTRAL.size + name + extra + comment
    if place != end:
        raise _Broken("there is something behind its directory")


def _check_entries(content: Content, archive: zipfile.ZipFile) -> None:
    place = 0
    for entry in sorted(archive.infolist(), key=lambda e: e.header_offset):
        start = entry.header_offset
        _check_gap(content, place, start)
        fields = _LOCAL.unpack_from(content, start)
        signature, _, flags, method, _, _, checksum, packed, size, name, extra = fields
        if signature != b"PK\x03\x04":
            raise _Broken(f"{entry.filename!r} is not where the directory says")
        first = start + _LOCAL.size
        if content[first : first + name] != _encoded(entry):
            raise _Broken(f"{entry.filename!r} has another name in its own header")
        if flags != entry.flag_bits or method != entry.compress_type or method not in (0, 8):
            raise _Broken(f"{entry.filename!r} is packed otherwise than the directory says")
        begin = first + name + extra
        own = content[first + name : begin]
        for extra_fields in (own, entry.extra):
            kinds = [kind for kind, _ in _extra_fields(extra_fields)]
            if _UNICODE_PATH in kinds:
                raise _Broken(f"{entry.filename!r} has a second name")
            if kinds.count(_ZIP64) > 1:
                raise _Broken(f"{entry.filename!r} has its sizes twice")
        known = (checksum, *_sizes(own, packed, size))
        directory = (entry.CRC, entry.compress_size, entry.file_size)
        if known != directory and not (flags & _FOUND_LATER and not any(known)):
            raise _Broken(f"{entry.filename!r} has other sizes or another checksum in its own header")
        if method == 0 and entry.compress_size != entry.file_size:
            raise _Broken(f"{entry.filename!r} has two sizes")
        place = begin + entry.compress_size
        if flags & _FOUND_LATER:
            place += _descriptor_length(content[place : place + 24], directory, entry.filename)
    _check_gap(content, place, archive.start_dir)


def _encoded(entry: zipfile.ZipInfo) -> bytes:
    """Return the name as stored in the file: UTF-8 if its flag is set, else the code page that `zipfile` assumes."""
    return entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437")


def _check_gap(content: Content, place: int, start: int) -> None:
    if start < place:
        raise _Broken("its entries overlap")
    if start > place and any(content[place:start]):
        raise _Broken(f"{start - place} bytes before byte {start} belong to no entry")


def _sizes(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    """Return packed and unpacked size from an entry's own header, or its 8-byte sizes if it refers to them."""
    for kind, data in _extra_fields(extra):
        if kind == _ZIP64:
            wide: Iterator[int] = (n for (n,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]))
            size = next(wide, -1) if size == 2**32 - 1 else size
            packed = next(wide, -1) if packed == 2**32 - 1 else packed
    return packed, size


def _extra_fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, place)
        yield kind, extra[place + 4 : place + 4 + length]
        place += 4 + length


def _descriptor_length(data: bytes, directory: tuple[int, int, int], name: str) -> int:
    """Return the length of the checksum and sizes after an entry's data.

    The sizes have 4 or 8 bytes, and the signature is optional. Raises `_Broken` for other values than the directory's.
    """
    for signature in (b"PK\x07\x08", b""):
        for form in ("<3L", "<L2Q"):
            body = data[len(signature) :][: struct.calcsize(form)]
            fits = len(body) == struct.calcsize(form) and data.startswith(signature)
            if fits and struct.unpack(form, body) == directory:
                return len(signature) + len(body)
    raise _Broken(f"{name!r} has other sizes or another checksum behind its data")
