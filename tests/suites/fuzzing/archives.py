"""Mutate zip archives: their own records, bytes under a checksum, and members whose checksums are made to match."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable

from tests.suites.fuzzing.numbers import changed_bytes, changed_json, changed_text, changed_word, number
from tests.suites.fuzzing.pickles import changed_pickle

Change = Callable[[random.Random, bytes], bytes]


def member_change(name: str) -> Change:
    """Return the mutation for a member of this name."""
    from tests.suites.fuzzing.hdf5 import changed_hdf5

    ends: dict[str, Change] = {".pkl": changed_pickle, ".json": changed_json, ".py": changed_text, ".h5": changed_hdf5}
    return next((change for end, change in ends.items() if name.endswith(end)), changed_bytes)


def members(data: bytes) -> dict[str, bytes]:
    """Return the content of each member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(content: dict[str, bytes]) -> bytes:
    """Return an archive as PyTorch and Keras write it: uncompressed, with right checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in content.items():
            archive.writestr(zipfile.ZipInfo(name), part)
    return file.getvalue()


def changed_member(rng: random.Random, data: bytes) -> bytes:
    """Mutate one member in its own format, drop it, duplicate it under another name, or swap it with another one."""
    content = members(data)
    names = list(content)
    named = [n for n in names if n.endswith((".pkl", ".json", ".py", ".h5"))]
    name = rng.choice(named) if named and rng.random() < 0.7 else rng.choice(names)
    kind = rng.randrange(20)
    if kind == 0:
        del content[name]
    elif kind == 1:
        content[name] = content[rng.choice(names)]
    elif kind == 2:
        content[name + rng.choice(("x", "/x", ".PY"))] = content[name]
    else:
        content[name] = member_change(name)(rng, content[name])
    return archive_of(content)


def damaged_archive(rng: random.Random, data: bytes) -> bytes:
    """Change bytes or records of the archive, and keep its checksums."""
    if rng.random() < 0.5:
        return changed_bytes(rng, data) if rng.random() < 0.5 else changed_word(rng, data)
    places = [at for mark in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06") for at in _all(data, mark)]
    out = bytearray(data)
    at = rng.choice(places) + rng.randrange(4, 46)
    size = rng.choice((1, 2, 4))
    old = int.from_bytes(out[at : at + size], "little")
    out[at : at + size] = struct.pack("<Q", number(rng, old) % 2**64)[:size]
    return bytes(out)


def _all(data: bytes, mark: bytes) -> list[int]:
    found, at = [], data.find(mark)
    while at >= 0:
        found.append(at)
        at = data.find(mark, at + 1)
    return found
