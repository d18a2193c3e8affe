"""Loads whole modules from files of torch.save without zip, with PyTorch's own restricted unpickler.

Such a file names each class of a module by a persistent id that carries the class's source code, and the restricted
unpickler takes persistent ids of weights only. So the ids are replaced by the classes that they name, in a copy of the
file: whatever that gives is still held to the allow-list, because the restricted unpickler reads it.
"""

from __future__ import annotations

import mmap
import pickletools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from convert.files import pickle_scan
from convert.files.pickle_opcodes import read_pickle
from convert.files.scratch import place_of_temporary_files

_CHUNK = 16 << 20


def is_legacy(path: Path) -> bool:
    """True for a file that is no zip archive."""
    with path.open("rb") as file:
        return file.read(2) != b"PK"


def load_legacy(path: Path) -> Any:
    """What the file holds, by `torch.load(weights_only=True)` under the classes allowed at the moment.

    Raises what `torch.load` raises. The copy is a temporary file, so that no weights are held twice in memory.
    """
    with path.open("rb") as file, tempfile.TemporaryFile(dir=place_of_temporary_files()) as copy:
        begin, end = _pickle_range(file.fileno())
        file.seek(begin)
        plain = strip_sources(file.read(end - begin))
        file.seek(0)
        copy.write(file.read(begin) + plain)
        file.seek(end)
        shutil.copyfileobj(file, copy, _CHUNK)
        copy.seek(0)
        return torch.load(copy, map_location="cpu", weights_only=True)


def _pickle_range(descriptor: int) -> tuple[int, int]:
    """Where the object's pickle begins and ends: behind the magic number, the protocol and the system's sizes."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
        for _ in range(3):
            read_pickle(content)
        begin = content.tell()
        read_pickle(content)
        return begin, content.tell()


def strip_sources(data: bytes) -> bytes:
    """A pickle with each persistent id of a layer's class (`("module", class, file, source)`) replaced by the class.

    What the ids memoize may be referred to later (a submodule called "module", say), so their strings come first,
    where they stay at the bottom of the stack.
    """
    codes = [(code.name, argument, int(at or 0)) for code, argument, at in pickletools.genops(data)]
    ends = [at for _, _, at in codes[1:]] + [len(data)]
    strings: list[bytes] = []
    parts: list[bytes] = []
    done = ends[0]
    mark, place = 0, -1
    for i, (name, argument, _) in enumerate(codes):
        if name == "MARK":
            mark, place = i, -1
        elif name == "GLOBAL" and pickle_scan.is_layer(str(argument).replace(" ", ".")):
            place = i
        elif name == "BINPERSID" and place >= 0:
            parts += [data[done : codes[mark][2]], _memoized_bytes(data, codes, ends, place)]
            strings += [_memoized_bytes(data, codes, ends, k) for k in range(mark, i) if "UNICODE" in codes[k][0]]
            done, place = ends[i], -1
    return b"".join([data[: ends[0]], *strings, *parts, data[done:]])


def _memoized_bytes(data: bytes, codes: list[tuple[str, Any, int]], ends: list[int], i: int) -> bytes:
    """The bytes of an opcode, with those of the PUT behind it."""
    last = i + 1 if "PUT" in codes[i + 1][0] else i
    return data[codes[i][2] : ends[last]]
