"""Loads whole modules from non-zip files of torch.save, with PyTorch's own restricted unpickler.

The file names each class of a module by a persistent id that includes the class's source code. The restricted unpickler
accepts persistent ids of weights only, so the ids are replaced by the named classes in a copy of the file. The
allow-list still applies, because the restricted unpickler reads the copy.
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
    """Return whether a file is not a zip archive."""
    with path.open("rb") as file:
        return file.read(2) != b"PK"


def load_legacy(path: Path) -> Any:
    """Return the content of a file, by `torch.load(weights_only=True)` with the classes allowed at the moment.

    Raises what `torch.load` raises. The copy is a temporary file, so that weights are not in memory twice.
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
    """Return begin and end of the object's pickle: after the magic number, the protocol and the system's sizes."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
        for _ in range(3):
            read_pickle(content)
        begin = content.tell()
        read_pickle(content)
        return begin, content.tell()


def strip_sources(data: bytes) -> bytes:
    """Return a pickle with each persistent id of a layer's class (`("module", class, file, source)`) replaced by the
    class.

    Strings that the ids memoize may be referenced later (a submodule called "module", for example). So they come first,
    at the bottom of the stack.
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
    """Return the bytes of an opcode and of the PUT after it."""
    last = i + 1 if "PUT" in codes[i + 1][0] else i
    return data[codes[i][2] : ends[last]]
