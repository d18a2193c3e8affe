"""Zip archives of PyTorch and Keras that readers interpret differently, that leave their folder, or that blow up."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, members, stored
from tests.support.hostile import hostile_zip

SOURCES = ("mnist_cnn.pt", "mnist_cnn_scripted.pt", "mnist_cnn.pt2", "mnist_cnn.keras")
KINDS = ("parent", "absolute", "backslash", "drive", "twice", "link", "bomb", "overlap")

Trick = Callable[[dict[str, bytes], Path], None]


def _root(content: dict[str, bytes]) -> str:
    name = next(iter(content))
    return name.partition("/")[0] + "/" if "/" in name and not name.startswith("model") else ""


def _with(more: Callable[[str], dict[str, bytes]]) -> Trick:
    return lambda content, path: _store(path, content | more(_root(content)))


def _store(path: Path, content: dict[str, bytes]) -> None:
    stored(path, content)


def _two_cases(content: dict[str, bytes], path: Path) -> None:
    stored(path, content | {name.upper(): part for name, part in content.items()})


def _parts(path: Path) -> tuple[bytes, bytes, bytes]:
    data = path.read_bytes()
    end = data.rfind(b"PK\x05\x06")
    size, start = struct.unpack_from("<2L", data, end + 12)
    return data[:start], data[start : start + size], data[end:]


def _end(count: int, size: int, start: int, comment: bytes = b"") -> bytes:
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, start, len(comment)) + comment


def _two_directories(content: dict[str, bytes], path: Path) -> None:
    """Write two central directories: the end record names the first; the second lies right before it, where Python
    looks.
    """
    other = {name: part[::-1] if name.endswith((".py", ".json")) else part for name, part in content.items()}
    good, bad, _ = *_parts(stored(path, content))[:2], b""
    hidden = _parts(stored(path, other))
    path.write_bytes(good + bad + hidden[0] + hidden[1] + _end(len(content), len(bad), len(good)))


def _gap(content: dict[str, bytes], path: Path) -> None:
    entries, directory, _ = _parts(stored(path, content))
    path.write_bytes(entries + b"PK\x03\x04 hidden" + directory + _end(len(content), len(directory), len(entries) + 11))


def _record_of_64_bits(content: dict[str, bytes], path: Path) -> None:
    entries, directory, end = _parts(stored(path, content))
    count, start = len(content), len(entries)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), start + 8)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(directory), 1)
    path.write_bytes(entries + directory + record + locator + end)


def _changed(mark: bytes, offset: int, value: bytes) -> Trick:
    def change(content: dict[str, bytes], path: Path) -> None:
        data = bytearray(stored(path, content).read_bytes())
        at = data.rfind(mark) + offset
        data[at : at + len(value)] = value
        path.write_bytes(data)

    return change


def _around(before: bytes, after: bytes) -> Trick:
    def surround(content: dict[str, bytes], path: Path) -> None:
        path.write_bytes(before + stored(path, content).read_bytes() + after)

    return surround


def _many(content: dict[str, bytes], path: Path) -> None:
    stored(path, content | {f"{_root(content)}data/x{i}": b"" for i in range(30_000)})


def _deep_bomb(content: dict[str, bytes], path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in content.items():
            archive.writestr(name, part + bytes(300 << 20) if name.endswith((".pkl", ".json", ".h5")) else part)


LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
TRICKS: dict[str, Trick] = {
    "two directories": _two_directories,
    "a gap": _gap,
    "a record of 64 bits elsewhere": _record_of_64_bits,
    "one name in two cases": _two_cases,
    "code in capitals": _with(lambda root: {f"{root}code/__torch__/evil.PY": b"x = 1"}),
    "a program": _with(lambda root: {f"{root}run.sh": b"touch x", f"{root}evil.so": b"\x7fELF"}),
    "another size in the entry": _changed(LOCAL, 18, struct.pack("<2L", 7, 7)),
    "another size in the directory": _changed(CENTRAL, 20, struct.pack("<2L", 2**31, 2**31)),
    "a size of 2^32 - 1": _changed(CENTRAL, 24, b"\xff\xff\xff\xff"),
    "sizes behind the data": _changed(CENTRAL, 8, b"\x08\x00"),
    "encryption": _changed(CENTRAL, 8, b"\x01\x00"),
    "an unknown method": _changed(CENTRAL, 10, b"\x63\x00"),
    "an entry that is a folder": _changed(CENTRAL, 38, b"\x10"),
    "an entry on another disk": _changed(CENTRAL, 34, b"\x05\x00"),
    "an entry beyond the end": _changed(CENTRAL, 42, b"\xf0\xff\xff\x7f"),
    "more entries than there are": _changed(END, 8, b"\xff\xff\xff\xff"),
    "a directory beyond the end": _changed(END, 16, b"\xff\xff\xff\x7f"),
    "something before it": _around(b"PK\x03\x04" + bytes(60), b""),
    "something behind it": _around(b"", b"more"),
    "30,000 entries": _many,
    "members of 300 MB of zeros": _deep_bomb,
}


def archive_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Every trick for every kind of archive."""
    for source in SOURCES:
        good = FIXTURES / source
        content = members(good)
        for name, trick in TRICKS.items():
            path = folder / f"{file_name(name)}_{source}"
            trick(content, path)
            yield Case(f"{source}: {name}", path, good=good)
        for kind in KINDS:
            made = hostile_zip(kind, folder, list(content.items()))
            yield Case(f"{source}: {kind}", made.rename(folder / f"{kind}_{source}"), good=good)
