"""Compares the tensors of a PyTorch archive with its storages: none may reach beyond the bytes in the file.

PyTorch takes the length of a storage from the pickle, and its bytes from an entry of the archive. It does not always
compare the two: a tensor longer than its entry exposes the memory after it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import UnsafeInput
from convert.files.archive_names import check_root
from convert.files.archives import is_zip, member, open_archive, open_inner_archive, read_member, record_root
from convert.files.pickle_opcodes import STORAGE, Global, PickledObject, class_name, read_pickle

_BYTES = {"Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1,
          "Bool": 1, "ComplexDouble": 16, "ComplexFloat": 8, "QInt8": 1, "QUInt8": 1, "QInt32": 4, "QUInt4x2": 1,
          "QUInt2x4": 1, "Untyped": 1}  # fmt: skip
"""Bytes per element, by the beginning of the name of a storage's class."""
_PACKED = ("torch.QUInt4x2Storage", "torch.QUInt2x4Storage")
"""Storages with several elements per byte."""
_PICKLES = {"data.pkl": "data", "constants.pkl": "constants"}
"""The folder with the storages of each pickle; storages of traced inputs are left empty."""
_WIDTHS = {"bool": 1, "bfloat16": 2, "complex64": 8, "complex128": 16, "complex32": 4}


def check_storages(path: Path) -> None:
    """Check every pickled tensor of a zip archive of PyTorch, including TorchScript's and those in a `.pt2`.

    Raises `UnsafeInput` if a storage is not as long as its entry, or if a tensor reaches beyond its storage.
    """
    with open_archive(path) as archive:
        _check_tensors(archive, str(path))
        for name in archive.namelist():
            if not name.endswith(".pt"):
                continue
            content = read_member(archive, name, limits.EXPORTED_ARCHIVE_BYTES)
            if is_zip(content[:4]):
                with open_inner_archive(content, f"{path}: {name}") as inner:
                    check_root(inner)
                    _check_tensors(inner, f"{path}: {name}")


def _check_tensors(archive: zipfile.ZipFile, label: str) -> None:
    for pickle, folder in _PICKLES.items():
        name = member(archive, pickle)
        if name is None:
            continue

        def stored_bytes(key: Any, place: str = f"{record_root(archive)}{folder}/") -> int | None:
            entry = f"{place}{key}"
            return archive.getinfo(entry).file_size if entry in archive.NameToInfo else None

        for arguments in read_pickle(read_member(archive, name, limits.PICKLE_BYTES)).tensors:
            if reason := view_error(arguments, stored_bytes):
                raise UnsafeInput(f"{label}: {pickle} {NOT_THERE}: {reason}", hint=HINT)


NOT_THERE, HINT = "has a tensor whose numbers are not in the file", "get the file again, or save it again"


def view_error(arguments: Sequence[Any], stored_bytes: Callable[[Any], int | None]) -> str:
    """Return why a tensor with these arguments of `_rebuild_tensor` reads missing data; "" if it does not.

    `stored_bytes` maps the key of a storage to its bytes in the file, or None.
    """
    if len(arguments) < 4 or class_name(arguments[0]) != STORAGE:
        return "it is made of no storage"
    kind, key, _, length = (*arguments[0].items[1:5], None, None, None, None)[:4]
    sizes, strides = (_integers(a) for a in arguments[2:4])
    (offset,) = _integers([arguments[1]]) or (None,)
    if offset is None or sizes is None or strides is None or len(sizes) != len(strides) or not isinstance(length, int):
        return "its sizes are no numbers"
    unit = element_bytes(kind)
    if unit is None:
        return f"its storage is a {class_name(kind)}"
    stored = stored_bytes(key)
    if stored is not None and (stored < length * unit or (stored > length * unit and class_name(kind) not in _PACKED)):
        return f"the storage {key} has {stored:,} bytes, and should have {length * unit:,}"
    if stored is None and length:
        return f"the storage {key} is missing"
    if len(arguments) > 6 and isinstance(arguments[6], Global):  # a tensor of _rebuild_tensor_v3 has its own dtype
        length = length * unit // max(_dtype_bytes(arguments[6]), 1)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if 0 not in sizes else -1
    if last >= length:
        return f"it reads element {last:,} of a storage of {length:,}"
    return ""


def _integers(value: Any) -> tuple[int, ...] | None:
    """Return the numbers of a tuple if they are non-negative integers, else None."""
    items = value.items if isinstance(value, PickledObject) else value
    whole = isinstance(items, list | tuple) and all(type(i) is int and i >= 0 for i in items)
    return tuple(items) if whole else None


def element_bytes(kind: Any) -> int | None:
    """Return the bytes per element of a storage class; None for any other class."""
    name = class_name(kind).rpartition(".")[2].removesuffix("Storage")
    return _BYTES.get(name) if isinstance(kind, Global) else None


def _dtype_bytes(dtype: Any) -> int:
    """Return the bytes per element of `torch.float32` and the like; 1 if unknown."""
    name = class_name(dtype).removeprefix("torch.")
    bits = re.search(r"\d+", name)
    return _WIDTHS.get(name) or (int(bits[0]) // 8 if bits else 1)
