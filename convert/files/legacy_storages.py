"""Compares the tensors of a legacy (non-zip) torch.save file with the bytes after its pickles.

PyTorch allocates each storage as the pickle says, and fills those that a list after it names: a storage that the list
omits contains uninitialized memory. A tensor that reaches beyond its storage makes it grow.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from convert.errors import BadInput, UnsafeInput
from convert.files.pickle_opcodes import STORAGE, Pickle, PickledObject, class_name, read_pickle
from convert.files.storages import HINT, NOT_THERE, element_bytes, view_error

_LENGTH = struct.Struct("<q")


def check_legacy_storages(path: Path) -> None:
    """Check every pickled tensor of a legacy file.

    Raises `UnsafeInput` if a storage is missing after the pickles, or if a tensor reaches beyond its storage, and
    `BadInput` if the file is truncated.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            # magic number, protocol, system, object, keys
            *_, pickle, keys = [read_pickle(content) for _ in range(5)]
        except BadInput as error:
            raise BadInput(f"{path}: {error.message}", hint=error.hint) from None
        listed = list(keys.top.items) if class_name(keys.top) == "list" else []
        sizes = _storage_sizes(content, pickle, listed, path)
    for arguments in pickle.tensors:
        if reason := view_error(arguments, sizes.get) or _part_error(arguments):
            raise UnsafeInput(f"{path} {NOT_THERE}: {reason}", hint=HINT)


def _part_error(arguments: Sequence[Any]) -> str:
    """Return why a tensor of a part of a storage reads beyond that part; "" if it does not.

    PyTorch before 0.4 wrote such parts: a name, an offset and a length after the storage's own.
    """
    _, kind, _, device, length, part = (*arguments[0].items, None)[:6]
    if part is None:
        return ""
    name, start, count = (*(part.items if isinstance(part, PickledObject) else ()), None, None, None)[:3]
    if not (type(start) is int and type(count) is int and 0 <= start <= start + count <= length):
        return f"it is made of a part of a storage of {length:,} that is not there"
    storage = PickledObject(STORAGE, items=["storage", kind, name, device, count])
    return view_error((storage, *arguments[1:]), lambda _: count * (element_bytes(kind) or 0))


def _storage_sizes(content: mmap.mmap, pickle: Pickle, keys: list[Any], path: Path) -> dict[Any, int]:
    """Return the size of each storage in bytes.

    Storages follow the pickles in the order of the keys, each preceded by its length.
    """
    units: dict[Any, int] = {}
    for storage in pickle.storages:
        kind, key = (*storage.items[1:3], None, None)[:2]
        unit = element_bytes(kind)
        if not isinstance(key, str) or unit is None or units.setdefault(key, unit) != unit:
            raise UnsafeInput(f"{path} has a storage of {class_name(kind)} that has another class too", hint=HINT)
    sizes: dict[Any, int] = {}
    place = content.tell()
    for key in keys:
        if not isinstance(key, str) or key not in units or key in sizes:
            raise UnsafeInput(f"{path} lists a storage that its tensors do not have, or have once: {key!r}", hint=HINT)
        if place + _LENGTH.size > len(content):
            raise BadInput(f"{path} breaks off before the storage {key!r}", hint=HINT)
        (count,) = _LENGTH.unpack_from(content, place)
        place += _LENGTH.size + count * units[key]
        if count < 0 or place > len(content):
            raise BadInput(f"{path} breaks off in the storage {key!r} of {count:,} elements", hint=HINT)
        sizes[key] = count * units[key]
    return sizes
