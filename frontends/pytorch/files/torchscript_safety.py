"""Keeps TorchScript archives from accessing anything but their tensors: `torch.jit.load` runs code of the archive.

A restricted reader in C++ reads the pickles of an archive and creates TorchScript's own types only, and the code is
compiled to TorchScript, not to Python. But a class may have a `__setstate__`, which runs while it is loaded
(`setstate_safety`), and TorchScript has operators that write and map files.
"""

from __future__ import annotations

import ast
import pickletools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from convert import limits
from convert.errors import BadInput, ResourceLimit, UnsafeInput
from convert.files.archives import member, open_archive, read_member, read_members
from convert.files.pickle_opcodes import read_pickle, refuse_unfolding

from .script_tokens import script_tokens
from .setstate_safety import setstate_findings

_CALL = re.compile(r"\bops\.(\w+)\.(\w+)")

_CLASS = re.compile(r"\btorch\.classes\.(\w+)")
CLASSES = frozenset(("quantized", "rnn", "sparse", "mkldnn", "xnnpack", "torchtext", "torchaudio", "torchvision"))
"""Allowed names in `torch.classes`, whose objects C++ creates: holders of weights, and readers of text or audio in
memory.
"""

FILES = frozenset(("save", "from_file"))
"""TorchScript's operators that take a file name."""

NAMESPACES = frozenset(
    (
        "aten",
        "prim",
        "prims",
        "quantized",
        "_quantized",
        "sparse",
        "mkldnn",
        "torchvision",
        "torchaudio",
        "torch_scatter",
        "torch_sparse",
        "torch_cluster",
        "torch_spline_conv",
        "detectron2",
        "mmcv",
    )
)
"""Allowed namespaces in `torch.ops`: those that compute. Others send, receive, open or allocate."""


_LOOKED_AT = FILES | {"ops", "prim", "getattr", "__torch__"}

_BUILTINS = frozenset(("NumToTensor", "RaiseException"))
"""Operators of PyTorch's compiler whose names contain capitals, which programs call. It crashes on some of the
others.
"""


_TABLE = b"FORMAT_WITH_STRING_TABLE"
_NUMBERS = {"BININT": 4, "BININT1": 1, "BININT2": 2}
_DEBUG_CODES = {
    "MARK": 0, "TUPLE": 0, "TUPLE1": 0, "TUPLE2": 0, "TUPLE3": 0, "EMPTY_TUPLE": 0, "APPENDS": 0, "APPEND": 0,
    "NONE": 0, "STOP": 0, "EMPTY_LIST": 0, "REDUCE": 0, "PROTO": 1, "BINPUT": 1, "BINGET": 1, "LONG_BINPUT": 4,
    "LONG_BINGET": 4, "BINUNICODE": 4, "LONG1": 1, "GLOBAL": 0,
}  # fmt: skip
"""Opcodes in PyTorch's debug information, with the number of bytes after them; for the last three, the bytes of a
length field.
"""
_OPCODES = {op.name: ord(op.code) for op in pickletools.opcodes}
_FOLLOWING = {_OPCODES[name]: size for name, size in (_DEBUG_CODES | _NUMBERS).items()}
_INTEGERS = {_OPCODES[name]: size for name, size in _NUMBERS.items()}
_TEXT, _LONG, _GLOBAL, _LIST, _REDUCE, _STOP = (
    _OPCODES[name] for name in ("BINUNICODE", "LONG1", "GLOBAL", "EMPTY_LIST", "REDUCE", "STOP")
)


def refuse_unsafe(path: Path) -> None:
    """Check the code of a TorchScript archive before it is loaded.

    Raises `UnsafeInput` if the code cannot be analysed, if it calls an operator on files or from a namespace that is
    not known to be harmless, or if it does more than restore data during loading.
    """
    with open_archive(path) as archive:
        if member(archive, "model.json") is not None:
            raise _unsafe_error(path, "it is in the format of PyTorch before 1.2, whose code may lie anywhere in it")
        texts = _codes(archive)
        pickles = [name for name in archive.namelist() if name.casefold().endswith(".pkl")]
        pickled = [read_member(archive, name, limits.PICKLE_BYTES) for name in pickles]
    if any("prim.ConstantMKLDNNTensor" in code for code in texts.values()):
        raise BadInput(
            f"{path} was saved after torch.jit.optimize_for_inference, which leaves weights in oneDNN's own layout "
            "out of the file: PyTorch does not load it either",
            hint="save the scripted module as it is before that",
        )
    for name, code in texts.items():
        for found in _unsafe_findings(code):
            raise _unsafe_error(path, f"{name.partition('code/')[2] or name} {found}")
    seen = [read_pickle(data) for data in pickled]
    for data in seen:
        refuse_unfolding(data.top)
    names = [name for data in seen for name in data.globals]
    for library in sorted({found for name in names for found in _CLASS.findall(name)} - CLASSES):
        raise _unsafe_error(path, f"it has an object of torch.classes.{library}")
    for found in setstate_findings(texts.values()):
        raise _unsafe_error(path, f"it {found}")


def _codes(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the code files of an archive; PyTorch finds entries case-insensitively. Raises `ResourceLimit`."""
    contents = read_members(archive, ".py", limits.TORCHSCRIPT_CODE_BYTES, "of code")
    return {name: content.decode("utf-8", "replace") for name, content in contents.items()}


def refuse_damaged_debug_info(path: Path) -> None:
    """Check the string indices in source ranges against the string table, because PyTorch does not check them.

    Each `.debug_pkl` has a format name, the strings, and ranges whose texts are lists of indices into them
    (torch/csrc/jit/serialization/source_range_serialization.cpp). Raises `BadInput` for an index out of range, and
    `ResourceLimit`.
    """
    with open_archive(path) as archive:
        contents = read_members(archive, ".debug_pkl", limits.TORCHSCRIPT_DEBUG_BYTES, "of debug information")
    for name, content in contents.items():
        try:
            reason = _debug_fault(content) if content else ""
        except (ValueError, AttributeError, IndexError) as error:
            reason = str(error)
        if reason:
            raise BadInput(
                f"{path}: the debug information {name} is damaged: {reason}",
                hint="get the file again and compare its checksum with the source's",
            )


def _debug_fault(content: bytes) -> str:
    """Return the defect of a `.debug_pkl`, or "". Only its lists have indices, and they have no other form."""
    if _TABLE not in content:  # from a PyTorch release that wrote the text into each range
        for count, _ in enumerate(pickletools.genops(content)):
            if count > limits.PICKLE_OPCODES:
                raise ResourceLimit(f"debug information has more than {limits.PICKLE_OPCODES:,} opcodes")
        return ""
    texts, listing, place = 0, False, 0
    while (code := content[place]) != _STOP:
        following = _FOLLOWING.get(code)
        place += 1
        if following is None:
            return f"it has the opcode {content[place - 1 : place]!r}"
        if listing and code in _INTEGERS:
            index = int.from_bytes(content[place : place + following], "little", signed=following == 4)
            if not 0 <= index < texts - 1:
                return f"a source range begins in text {index} of {texts - 1}"
        elif code == _LIST:
            listing = True
        elif code == _REDUCE:
            listing = False
        elif code == _TEXT:
            size = int.from_bytes(content[place : place + 4], "little")
            if not texts and content[place + 4 : place + 4 + size] != _TABLE:
                return "it has a table of texts that does not stand at its beginning"
            texts, place = texts + 1, place + size
        elif code == _LONG:
            if listing:
                return "a source range begins in a text of a large number"
            place += content[place]
        elif code == _GLOBAL:
            place = content.index(b"\n", content.index(b"\n", place) + 1) + 1
        place += following
    return ""


def custom_operators(path: Path) -> set[str]:
    """Return the operators of `torch.ops` that the code of an archive calls, as "namespace::name"."""
    with open_archive(path) as archive:
        return {f"{m[1]}::{m[2]}" for code in _codes(archive).values() for m in _CALL.finditer(code)}


def _unsafe_error(path: Path, why: str) -> UnsafeInput:
    return UnsafeInput(
        f"{path} could act on files or the network while it is loaded or run: {why}",
        hint="if you trust the file, add --trust",
    )


def _unsafe_findings(code: str) -> Iterator[str]:
    """Yield what is wrong with one source file."""
    try:
        texts = script_tokens(code)
    except ValueError as error:
        yield f"cannot be looked through ({error})"
        return
    for i in [i for i, text in enumerate(texts) if text in _LOOKED_AT]:
        text = texts[i]
        if text in FILES and i and texts[i - 1] == ".":
            yield f"calls {text}"
        if text == "ops" and not _is_attribute(texts, i) and not _is_call(texts[i : i + 6]):
            yield f"takes operators from {''.join(texts[i : i + 5])[:80]!r}, which is no call of a known one"
        if text == "__torch__" and (found := _foreign_type(texts, i)):
            yield found
        if text == "prim" and texts[i - 1] == "." == "".join(texts[i + 1 : i + 2]):
            name = "".join(texts[i + 2 : i + 3])
            if name and _is_odd(name):
                yield f"calls prim.{name}, which no program of PyTorch's does"
        if text == "getattr" and not _is_plain_getattr(texts[i : i + 8]):
            yield "takes an attribute by a name that is not plain"


def _foreign_type(texts: list[str], i: int) -> str:
    """Return the defect in the name of a type or function that begins at index `i`, or "".

    A name that ends before it is complete could have aliases.
    """
    names = []
    while texts[i + 1 : i + 2] == ["."] and (name := "".join(texts[i + 2 : i + 3])).isidentifier():
        names.append(name)
        i += 2
    if names[:2] == ["torch", "classes"]:
        library = "".join(names[2:3])
        return "" if library in CLASSES else f"has an object of torch.classes.{library}"
    return "takes types by a name that is not whole" if names in ([], ["torch"]) else ""


def _is_attribute(texts: list[str], i: int) -> bool:
    """Return whether a token follows a dot that is not the end of a number."""
    return i > 1 and texts[i - 1] == "." and (texts[i - 2] in ")]" or texts[i - 2].isidentifier())


def _is_call(texts: list[str]) -> bool:
    """Return whether tokens are `ops.namespace.name(` with a known namespace; a part of it must not be aliased."""
    return texts[1:4:2] == [".", "."] and texts[5:6] == ["("] and texts[2] in NAMESPACES


def _is_odd(builtin: str) -> bool:
    """Return whether a builtin is one that PyTorch itself inserts into graphs, or that calls another machine."""
    return (not builtin.islower() and builtin not in _BUILTINS) or builtin.startswith("rpc")


def _is_plain_getattr(texts: list[str]) -> bool:
    """Return whether tokens are `getattr(self, "0")`, the form for a submodule with a number as its name."""
    if texts[1:2] != ["("] or "," not in texts:
        return False
    place = texts.index(",")
    if {"ops", "torch"} & set(texts[:place]):  # its parts have names of their own
        return False
    if texts[place + 2 : place + 3] != [")"]:
        return False
    try:
        name = ast.literal_eval(texts[place + 1])
    except (ValueError, SyntaxError):
        return False
    return isinstance(name, str) and name not in FILES | {"ops"}
