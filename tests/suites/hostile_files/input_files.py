"""Broken or hostile arrays and pictures, given as inputs or calibration samples of a good model."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tests.suites.hostile_files.archive_files import TRICKS
from tests.suites.hostile_files.case import FIXTURES, Canary, Case, file_name, stored
from tests.support.hostile import pickles

GOOD = FIXTURES / "mnist_cnn.onnx"
SHAPE = (1, 1, 28, 28)


def _array(header: str, data: bytes = b"") -> bytes:
    """Return an `.npy` file of version 1.0 with this header."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _like(descr: str = "'<f4'", shape: str = str(SHAPE), order: str = "False") -> bytes:
    return _array(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}", bytes(4 * 28 * 28))


def _arrays(canary: Canary) -> dict[str, bytes]:
    """Return files of one array each, which is given as the model's input."""
    (evil, _) = pickles(canary.marker)["os.system"]
    return {
        "an array of objects": _array("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", evil),
        "a pickle": evil,
        "a header that calls": _array(f"__import__('os').system('touch {canary.marker}')"),
        "a header of signs": _array("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "-" * 9000 + "1,)}"),
        "a header of brackets": _array("[" * 9000),
        "a header of sums": _array("{'shape': (" + "1j+" * 3000 + "1,)}"),
        "a header of digits": _like(shape="(" + "9" * 5000 + ",)"),
        "a header of another length": b"\x93NUMPY\x03\x00" + struct.pack("<I", 2**32 - 1) + b"{}",
        "a shape of 2^60": _like(shape=f"({2**60},)"),
        "a shape whose product overflows": _like(shape=f"({2**32}, {2**32}, 4)"),
        "a shape below zero": _like(shape="(-1, -784)"),
        "a shape of truths": _like(shape="(True, True, 28, 28)"),
        "a shape of 100 dims": _like(shape="(" + "1, " * 100 + ")"),
        "an order of text": _like(order="'x'"),
        "a dtype of no bytes": _like(descr="'|V0'"),
        "a dtype of 2^31 bytes": _like(descr=f"'|V{2**31 - 1}'"),
        "texts of 2^28 characters": _like(descr=f"'<U{2**28}'"),
        "a dtype of many arrays": _like(descr="[('a', '<f4', (100000, 100000))]"),
        "a dtype of objects within": _like(descr="[('a', [('b', '|O')])]"),
        "a dtype of 500 levels": _like(descr="[('a', " * 500 + "'<f4'" + ")]" * 500),
        "a dtype of control characters": _like(descr="[('\\x1b[31m\u0085', '<f4')]"),
        "a dtype with a title": _like(descr="[(('a', 'b'), '<f4')]"),
        "dates": _like(descr="'<M8[D]'"),
        "cut off": _like()[:60],
        "nothing": b"",
    }


def _named() -> dict[str, dict[str, bytes]]:
    """Return files whose entries have hostile names."""
    good = _like()
    return {
        "a set of another digit": {"image": good, "image@²": good},
        "a set of 5,000 digits": {"image": good, "image@" + "9" * 5000: good},
        "a set far away": {"image": good, "image@99999999999": good},
        "a name of control characters": {"\x1b[31m\u202eimage\n": good},
        "a name that goes up": {"../../image": good},
        "a name of a dtype": {"image:bfloat16": good},
        "20,000 names": {f"x{i}": b"" for i in range(20_000)},
        "no names": {},
    }


def _packed(name: str, method: int, data: bytes) -> bytes:
    """Return an archive with one entry that claims to be compressed by `method`, but is not."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), data)
    content = bytearray(file.getvalue())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.find(mark) + offset
        content[at : at + 2] = struct.pack("<H", method)
    return bytes(content)


def _bomb() -> bytes:
    """Write three gigabytes of zeros, compressed to three megabytes."""
    file = io.BytesIO()
    header = _array(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({3 << 28}, 1, 1, 1)}}")
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("image.npy", "w", force_zip64=True) as entry,
    ):
        entry.write(header)
        for _ in range(48):
            entry.write(bytes(64 << 20))
    return file.getvalue()


def _files(folder: Path, canary: Canary) -> dict[str, Path]:
    """Return files for --inputs."""
    found: dict[str, Path] = {}

    def save(name: str, content: bytes) -> None:
        path = folder / f"{file_name(name)}.npz"
        path.write_bytes(content)
        found[name] = path

    for name, array in _arrays(canary).items():
        path = folder / f"{file_name(name)}_packed.npz"
        found[f"{name}, packed"] = stored(path, {"image.npy": array})
        save(f"{name}, bare", array)
    for name, arrays in _named().items():
        path = folder / f"{file_name(name)}.npz"
        found[name] = stored(path, {f"{key}.npy": data for key, data in arrays.items()})
    for name, trick in TRICKS.items():
        if "300 MB" not in name:
            path = folder / f"trick_{file_name(name)}.npz"
            trick({"image.npy": _like()}, path)
            found[f"archive: {name}"] = path
    for method in (1, 8, 9, 12, 14, 93, 99):
        save(f"packed by method {method}", _packed("image.npy", method, _like()))
    save("packed by method 14 with a head", _packed("image.npy", 14, b"\x09\x04\x05\x00" + b"\xff" * 300))
    save("a bomb", _bomb())
    (evil, _) = pickles(canary.marker)["eval"]
    save("a pickle of protocol 0", pickle.dumps({"image": np.zeros(SHAPE, "f4")}, 0))
    save("a pickle that executes", evil)
    return found | _odd_places(folder)


def _odd_places(folder: Path) -> dict[str, Path]:
    """Return paths that are not regular files, and folders with such paths."""

    def inside(name: str, make: Callable[[Path], object]) -> Path:
        (folder / name).mkdir()
        make(folder / name / "image.npy")
        return folder / name

    def link(target: str) -> Callable[[Path], object]:
        return lambda path: os.symlink(target, path)

    def holes(path: Path) -> None:
        path.write_bytes(_like(shape=f"({1 << 37}, 1, 1, 1)"))
        os.truncate(path, 1 << 39)

    os.mkfifo(folder / "pipe.npz")
    os.symlink("/dev/zero", folder / "zero.npz")
    os.symlink("loop.npz", folder / "loop.npz")
    (folder / "loose.npz").touch()
    os.truncate(folder / "loose.npz", 1 << 40)
    return {
        "a pipe": folder / "pipe.npz",
        "a device": folder / "zero.npz",
        "a circle": folder / "loop.npz",
        "holes": folder / "loose.npz",
        "a folder of a pipe": inside("of_pipe", os.mkfifo),
        "a folder of a device": inside("of_device", link("/dev/zero")),
        "a folder of a circle": inside("of_circle", link("image.npy")),
        "a folder of a folder": inside("of_folder", Path.mkdir),
        "a folder of holes": inside("of_holes", holes),
        "a folder of nothing": inside("of_nothing", lambda path: None),
    }


def _pictures(folder: Path) -> dict[str, Path]:
    """Return files for --image: PostScript programs, endless and huge images, and files that are not images."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def png(width: int, height: int, data: bytes, *more: bytes) -> bytes:
        head = chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + chunk(b"IDAT", data) + chunk(b"IEND", b"")

    def tiff(next_directory: int) -> bytes:
        tags = [(256, 4, 1, 28), (257, 4, 1, 28), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8),
                (279, 4, 1, 2**31)]  # fmt: skip
        entries = b"".join(struct.pack("<2H2L", *tag) for tag in tags)
        return (
            b"II*\0" + struct.pack("<L", 8) + struct.pack("<H", len(tags)) + entries + struct.pack("<L", next_directory)
        )

    endless = b"a\0\0" + zlib.compress(bytes(1 << 30), 1)
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\n(/tmp/x) (w) file\n%%EOF\n"
    contents = {
        "PostScript": postscript,
        "a huge PostScript": postscript.replace(b"28 28", b"99999 99999"),
        "a picture of 2^31 x 2^31": png(2**31 - 1, 2**31 - 1, b""),
        "a picture of 13,000 x 13,000": png(13_000, 13_000, zlib.compress(bytes(13_001 * 13_000), 1)),
        "a text of a gigabyte": png(28, 28, zlib.compress(bytes(29 * 28)), chunk(b"zTXt", endless)),
        "a TIFF in a circle": tiff(8),
        "a TIFF that ends elsewhere": tiff(2**31),
        "an SVG": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="/etc/passwd"/></svg>',
        "a metafile": b"\xd7\xcd\xc6\x9a" + bytes(18) + b"\x01\x00\x09\x00" + bytes(100),
        "noise": b"\xff\xd8\xff\xe0" + b"\xff" * 1000,
        "nothing": b"",
    }  # fmt: skip
    found = {}
    for name, content in contents.items():
        found[name] = folder / f"{file_name(name)}.png"
        found[name].write_bytes(content)
    os.mkfifo(folder / "pipe.png")
    os.symlink("/dev/zero", folder / "zero.png")
    return found | {"a pipe": folder / "pipe.png", "a device": folder / "zero.png"}


def input_files(folder: Path, canary: Canary) -> Iterator[Case]:
    """Write each file as an input, some also as calibration samples, and each image as an image."""
    for number, (name, path) in enumerate(_files(folder, canary).items()):
        yield Case(f"inputs: {name}", GOOD, ("--inputs", str(path)), GOOD, verbs=("source",))
        if number % 3 == 0:
            words = ("--quantize", "int8", "--calibrate", str(path))
            yield Case(f"calibration: {name}", GOOD, words, GOOD, verbs=("convert",))
    for name, path in _pictures(folder).items():
        words = ("--image", str(path), "--image-as", "28x28,channels=gray")
        yield Case(f"picture: {name}", GOOD, words, GOOD, verbs=("source",))
