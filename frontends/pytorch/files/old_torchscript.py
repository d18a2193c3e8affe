"""Rewrites TorchScript archives of PyTorch 1.0 to 1.2 in the layout that current releases of PyTorch load.

The old layout has a tree of modules in `model.json`, a raw file for each tensor, and the methods of a module as text.
The layout since PyTorch 1.3 has the modules in a pickle, and their methods in classes. The code of a method is the same
in both. PyTorch's own upgraders deal with operators whose meaning has changed since.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert import limits
from convert.errors import BadInput
from convert.files.archives import copy_member, member, open_archive, read_member, record_root
from convert.files.counted_json import parse_json

STORAGES = {
    "FLOAT": ("FloatStorage", 4), "DOUBLE": ("DoubleStorage", 8), "FLOAT16": ("HalfStorage", 2),
    "INT64": ("LongStorage", 8), "INT32": ("IntStorage", 4), "INT16": ("ShortStorage", 2),
    "INT8": ("CharStorage", 1), "UINT8": ("ByteStorage", 1), "BYTE": ("ByteStorage", 1), "BOOL": ("BoolStorage", 1),
}  # fmt: skip
"""Kinds of storages by the `dataType` of a tensor, and the bytes of an element."""

_CONSTANT = re.compile(r"\bCONSTANTS\.c(\d+)")
_VERSION = re.compile(r"\A\s*op_version_set\s*=\s*\d+[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_]+")
_FIELDS = {"name", "submodules", "parameters", "torchscriptArena", "torchscriptDebugArena", "optimize"}
_HINT = "load it with torch.jit.load in an older release, and save it again"


def is_old(path: Path) -> bool:
    """Return whether a TorchScript archive has the layout of PyTorch 1.0 to 1.2."""
    with open_archive(path) as archive:
        return member(archive, "model.json") is not None and member(archive, "data.pkl") is None


def rewritten(path: Path, folder: Path) -> Path:
    """Return the path of a new archive in `folder` with the modules, tensors and code of the old archive at `path`.

    Raises `BadInput` for a damaged archive, or content that the new one has no place for, and `ResourceLimit`.
    """
    with open_archive(path) as archive:
        root = record_root(archive)
        try:
            model = parse_json(read_member(archive, root + "model.json", limits.PICKLE_BYTES), "model.json")
            modules = _Modules(path, archive, root)
            modules.add(model["mainModule"])
            return _write(modules, model.get("tensors", []), folder / path.name)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BadInput(
                f"{path} has a damaged model.json: {type(error).__name__}: {error}", hint="get the file again"
            ) from None


@dataclass(frozen=True)
class _Module:
    """A module by its place in the list of all: tensors by their index, modules in it, and the text of its methods."""

    index: int
    tensors: dict[str, int]
    buffers: list[str]
    parts: dict[str, _Module]
    code: str


class _Modules:
    """The modules of an old archive, each after the modules in it."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, root: str) -> None:
        self.path, self.archive, self.root = path, archive, root
        self.found: list[_Module] = []

    def add(self, definition: Mapping[str, Any]) -> _Module:
        """Add a module and those in it, and return it."""
        if unknown := sorted(definition.keys() - _FIELDS):
            raise BadInput(
                f"{self.path} is TorchScript of PyTorch 1.1 or 1.2 whose modules have {', '.join(unknown)}, "
                "which current releases of PyTorch do not load",
                hint=_HINT,
            )
        parts = {self._name(part["name"]): self.add(part) for part in definition.get("submodules", ())}
        tensors = {self._name(entry["name"]): entry for entry in definition.get("parameters", ())}
        key = definition.get("torchscriptArena", {}).get("key")
        module = _Module(
            len(self.found),
            {name: int(entry["tensorId"]) for name, entry in tensors.items()},
            [name for name, entry in tensors.items() if entry.get("isBuffer")],
            parts,
            self._methods(key) if key else "",
        )
        self.found.append(module)
        return module

    def _methods(self, key: str) -> str:
        code = read_member(self.archive, self.root + key, limits.TORCHSCRIPT_CODE_BYTES)
        return _VERSION.sub("", code.decode(), count=1)

    def _name(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise BadInput(f"{self.path} has a module or tensor called {name[:100]!r}", hint="get the file again")
        return name


# -- the new archive --------------------------------------------------------------------------------------------------


def _write(modules: _Modules, tensors: list[Mapping[str, Any]], target: Path) -> Path:
    """Write the new archive: the classes, a pickle of the modules, a pickle of the constants, and their storages."""
    code = "".join(map(_class_text, modules.found))
    used = {int(number) for number in _CONSTANT.findall(code)}
    kept = _Storages(modules, tensors)
    constants = b"".join(kept.pickled("constants", i) if i in used else b"N" for i in range(max(used, default=-1) + 1))
    entries = {
        "version": b"1\n",
        "code/__torch__.py": code.encode(),
        "data.pkl": b"\x80\x02" + _pickled_module(modules.found[-1], kept) + b".",
        "constants.pkl": b"\x80\x02(" + constants + b"t.",
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(f"archive/{name}", content)
        for folder, key in kept.used:
            copy_member(modules.archive, modules.root + key, archive, f"archive/{folder}/{key}")
    return target


def _class_text(module: _Module) -> str:
    """Return the class of a module. `__annotations__` takes names that are no identifiers, such as "0"."""
    types = dict.fromkeys(module.tensors, "Tensor") | {"training": "bool"}
    types |= {name: f"__torch__.Module{part.index}" for name, part in module.parts.items()}
    parameters = [name for name in module.tensors if name not in module.buffers]
    lines = [f"class Module{module.index}(Module):"]
    for kind, names in {"parameters": parameters, "buffers": module.buffers}.items():
        lines += [f"  __{kind}__ = [" + "".join(f'"{name}", ' for name in names) + "]"]
    lines += ["  __annotations__ = []"]
    lines += [f'  __annotations__["{name}"] = {kind}' for name, kind in types.items()]
    return "\n".join([*lines, *(f"  {line}" for line in module.code.splitlines() if line.strip())]) + "\n"


class _Storages:
    """The tensors of an old archive, and the storages that the new one needs, by folder and key."""

    def __init__(self, modules: _Modules, tensors: list[Mapping[str, Any]]) -> None:
        self._modules, self._tensors = modules, tensors
        self.used: dict[tuple[str, str], None] = {}

    def pickled(self, folder: str, index: int) -> bytes:
        """Return the opcodes that build a tensor."""
        tensor = self._tensors[index]
        key, kind = tensor["data"]["key"], tensor["dataType"]
        if kind not in STORAGES:
            raise BadInput(f"{self._modules.path} has a tensor of the dtype {kind}", hint=_HINT)
        storage, width = STORAGES[kind]
        count = self._modules.archive.getinfo(self._modules.root + key).file_size // width
        self.used[folder, key] = None
        dims, strides = ([int(n) for n in tensor.get(name, ())] for name in ("dims", "strides"))
        return b"".join(
            (
                b"ctorch._utils\n_rebuild_tensor_v2\n(",
                b"(" + _text("storage") + f"ctorch\n{storage}\n".encode(),
                _text(key) + _text("cpu") + _integer(count) + b"tQ",
                _integer(int(tensor.get("offset", 0))),
                *(b"(" + b"".join(map(_integer, numbers)) + b"t" for numbers in (dims, strides)),
                b"\x88" if tensor.get("requiresGrad") else b"\x89",
                b"ccollections\nOrderedDict\n)RtR",
            )
        )


def _pickled_module(module: _Module, kept: _Storages) -> bytes:
    """Return the opcodes that build a module from its class."""
    members = {name: kept.pickled("data", index) for name, index in module.tensors.items()}
    members |= {"training": b"\x89"} | {name: _pickled_module(part, kept) for name, part in module.parts.items()}
    state = b"".join(_text(name) + value for name, value in members.items())
    return f"c__torch__\nModule{module.index}\n".encode() + b")\x81}(" + state + b"ub"


def _text(text: str) -> bytes:
    content = text.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def _integer(number: int) -> bytes:
    if -(2**31) <= number < 2**31:
        return b"J" + struct.pack("<i", number)
    return b"\x8a\x08" + struct.pack("<q", number)
