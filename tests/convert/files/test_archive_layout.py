"""Archives that show one content to a checker and another to PyTorch are all rejected."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from convert.errors import BadInput, ConvertError, UnsafeInput
from convert.files.archive_layout import check_checksums
from convert.files.archives import open_archive
from convert.files.sniff import sniff

ENTRIES = {"m/data.pkl": b"\x80\x02}.", "m/data/0": bytes(range(64)), "m/version": b"3\n"}


def written(entries: dict[str, bytes], packed: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content, packed)
    return file.getvalue()


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return entries, directory and end record."""
    end = data.rfind(b"PK\x05\x06")
    (size, start) = struct.unpack_from("<2L", data, end + 12)
    return data[:start], data[start : start + size], data[end:]


def end_record(count: int, size: int, start: int, comment: bytes = b"") -> bytes:
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, start, len(comment)) + comment


def two_directories() -> bytes:
    """The end record names the first directory; the second lies right before it, where Python looks."""
    good, evil = written(ENTRIES), written({**ENTRIES, "m/version": b"9\n"})
    entries, directory, _ = parts(good)
    other, hidden, _ = parts(evil)
    return entries + directory + other + hidden + end_record(3, len(directory), len(entries))


def changed(old: bytes, new: bytes, last: bool = False) -> bytes:
    data = written(ENTRIES)
    place = data.rfind(old) if last else data.find(old)
    assert place >= 0
    return data[:place] + new + data[place + len(old) :]


def local(offset: int, value: bytes, entry: int = 1) -> bytes:
    """Return the header before the data of an entry, with other bytes from `offset` on."""
    data = bytearray(written(ENTRIES))
    place = -1
    for _ in range(entry + 1):
        place = data.find(b"PK\x03\x04", place + 1)
    data[place + offset : place + offset + len(value)] = value
    return bytes(data)


def gap() -> bytes:
    entries, directory, _ = parts(written(ENTRIES))
    hidden = b"PK\x03\x04 something"
    return entries + hidden + directory + end_record(3, len(directory), len(entries) + len(hidden))


def wrong_locator() -> bytes:
    """The 64-bit record, which PyTorch uses, names another directory than the end record."""
    entries, directory, end = parts(written(ENTRIES))
    start = len(entries)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 3, 3, len(directory), start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + 4, 1)
    return entries + directory + record + locator + end


def second_name() -> bytes:
    """Return an extra field with another name, which some readers use (APPNOTE 4.6.9)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in ENTRIES.items():
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<2HBL", 0x7075, 5 + 6, 1, 0) + b"m/evil" if name == "m/version" else b""
            archive.writestr(info, content)
    return file.getvalue()


def sizes_twice() -> bytes:
    """Python uses the sizes of both fields in turn, other readers those of the first."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in ENTRIES.items():
            info = zipfile.ZipInfo(name)
            info.extra = struct.pack("<2HQ", 1, 8, 3) * 2 if name == "m/version" else b""
            archive.writestr(info, content)
    return file.getvalue()


def folder_with_content() -> bytes:
    """PyTorch treats an entry with the attribute of a folder as empty, and returns uninitialized memory."""
    data = bytearray(written(ENTRIES))
    data[data.rfind(b"PK\x01\x02") + 38] = 0x10
    return bytes(data)


LAYOUTS: dict[str, Callable[[], bytes]] = {
    "two directories": two_directories,
    "something before it": lambda: b"PK\x03\x04" + b"\0" * 60 + written(ENTRIES),
    "something behind it": lambda: written(ENTRIES) + b"more",
    "a comment": lambda: (
        b"".join(parts(written(ENTRIES))[:2])
        + end_record(3, len(parts(written(ENTRIES))[1]), len(parts(written(ENTRIES))[0]), b"PK\x05\x06")
    ),
    "data between the entries": gap,
    "another name in the entry": lambda: local(30, b"m/data/1"),
    "another checksum in the entry": lambda: local(14, b"\1\2\3\4"),
    "another size in the entry": lambda: local(18, struct.pack("<2L", 32, 32)),
    "another method in the entry": lambda: local(8, b"\x08\x00"),
    "other flags in the entry": lambda: local(6, b"\x08\x00"),
    "more entries counted": lambda: changed(b"\x03\x00\x03\x00", b"\x04\x00\x04\x00", last=True),
    "a record of 64 bits elsewhere": wrong_locator,
    "a second name": second_name,
    "one name in two cases": lambda: written({**ENTRIES, "m/DATA.pkl": b"\x80\x02]."}),
    "one name in two spellings": lambda: written({**ENTRIES, "m/code/\ufb01.py": b"", "m/code/fi.py": b""}),
    "one name with two slashes": lambda: written({**ENTRIES, "m\\version": b"4\n"}),
    "code in capitals": lambda: written({**ENTRIES, "m/constants.pkl": b"\x80\x02).", "m/code/A.PY": b"x"}),
    "a name of no form": lambda: written({**ENTRIES, "m/run.sh": b"x"}),
    "a folder with content": folder_with_content,
    "sizes twice": sizes_twice,
    "a folder that PyTorch takes for all": lambda: written(
        {
            **{f"extra/{n.partition('/')[2]}": c for n, c in ENTRIES.items()},
            "data.pkl": b"\x80\x02).",
            "version": b"3\n",
        }
    ),
    "two roots": lambda: written({**ENTRIES, "n/data.pkl": b"\x80\x02)."}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_archive_that_can_be_read_in_two_ways_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(LAYOUTS[name]())
    with pytest.raises((UnsafeInput, BadInput)) as caught:
        sniff(path)
    assert caught.value.exit_code == 5
    assert caught.value.hint


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_plain_archives_are_taken(tmp_path: Path, packed: int) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(written(ENTRIES, packed))
    with open_archive(path) as archive:
        assert archive.read("m/data/0") == ENTRIES["m/data/0"]
    assert check_checksums(path)


class _Stream(io.RawIOBase):
    """A file that cannot seek: in an archive written to it, sizes and checksums follow the data."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += bytes(data)
        return len(data)


@pytest.mark.parametrize("packed", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zip64", [False, True])
def test_archives_that_were_streamed_are_taken(tmp_path: Path, packed: int, zip64: bool) -> None:
    stream = _Stream()
    with zipfile.ZipFile(stream, "w", packed) as archive:  # type: ignore[arg-type]
        for name, content in ENTRIES.items():
            with archive.open(name, "w", force_zip64=zip64) as entry:
                entry.write(content)
    path = tmp_path / "m.pt"
    path.write_bytes(stream.data)
    with open_archive(path) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == ENTRIES


def test_a_flipped_bit_of_a_weight_is_noticed(tmp_path: Path) -> None:
    data = bytearray(written(ENTRIES))
    data[data.find(ENTRIES["m/data/0"]) + 5] ^= 1
    path = tmp_path / "m.pt"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"m/data/0 .* has changed since it was written: its CRC-32 is "):
        check_checksums(path)


@pytest.mark.parametrize("entries", [ENTRIES, {"config.json": b"{}", "metadata.json": b"{}", "model.weights.h5": b"x"}])
def test_only_pytorch_leaves_checksums_out(tmp_path: Path, entries: dict[str, bytes]) -> None:
    path = tmp_path / "m"
    data = bytearray(written(entries))
    for signature, place in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        start = data.find(signature)
        while start >= 0:
            data[start + place : start + place + 4] = bytes(4)
            start = data.find(signature, start + 1)
    path.write_bytes(data)
    with open_archive(path) as archive:
        if entries is ENTRIES:
            assert archive.read("m/data/0") == ENTRIES["m/data/0"]
        else:
            with pytest.raises(zipfile.BadZipFile, match="Bad CRC-32"):
                archive.read("config.json")


@pytest.mark.not_core
def test_pytorch_sees_in_what_is_taken_what_python_sees(tmp_path: Path, fixtures: Path) -> None:
    """Bytes outside the entries' data are changed at random: what is accepted is the same for both readers."""
    torch = pytest.importorskip("torch", reason="its reader is the other one")
    original = (fixtures / "mnist_cnn_scripted.pt").read_bytes()
    entries, _, _ = parts(original)
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        heads = [i for e in archive.infolist() for i in range(e.header_offset, e.header_offset + 30 + len(e.filename))]
    places = [*heads, *range(len(entries), len(original))]
    chance, path, taken = random.Random(0), tmp_path / "m.pt", 0
    for _ in range(600):
        data = bytearray(original)
        for _ in range(chance.choice([1, 1, 2])):
            data[chance.choice(places)] = chance.choice([0, 1, 0x20, 0x50, 0xFF, chance.randrange(256)])
        path.write_bytes(data)
        try:
            with open_archive(path) as archive:
                names = archive.namelist()
                content = {n: archive.read(n) for n in names}
        except (ConvertError, zipfile.BadZipFile):
            continue
        taken += 1
        try:
            reader = torch._C.PyTorchFileReader(str(path))
        except (RuntimeError, UnicodeDecodeError):  # its message quotes the file
            continue
        root = names[0].partition("/")[0] + "/"
        assert sorted(root + n for n in reader.get_all_records()) == sorted(names)
        assert {n: reader.get_record(n.removeprefix(root)) for n in names} == content
    assert 10 < taken < 550
