"""Keeps TorchScript archives from acting outside of their tensors: `torch.jit.load` runs code that the archive brings.

The pickles of an archive are read by a restricted reader in C++ that builds TorchScript's own types only, and its code
is compiled to TorchScript, not to Python. But a class may have a `__setstate__`, which runs while it is loaded
(`setstate_safety`), and TorchScript has operators that write and map files.
"""

from __future__ import annotations

import ast
import io
import pickletools
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from convert import limits
from convert.errors import BadInput, UnsafeInput
from convert.files.archives import member, open_archive, read_member
from convert.files.pickle_opcodes import read_pickle

from .setstate_safety import setstate_findings

_CALL = re.compile(r"\bops\.(\w+)\.(\w+)")

_CLASS = re.compile(r"\btorch\.classes\.(\w+)")
CLASSES = frozenset(("quantized", "rnn", "sparse", "mkldnn", "xnnpack", "torchtext", "torchaudio", "torchvision"))
"""Of `torch.classes`, whose objects C++ makes: those that hold weights, readers of text or of sound in memory."""

FILES = frozenset(("save", "from_file"))
"""TorchScript's operators that take the name of a file."""

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
"""Of `torch.ops`: those that compute. Others send, receive, open or allocate."""


_BUILTINS = frozenset(("NumToTensor", "RaiseException"))
"""Operators of PyTorch's compiler that programs call by a name with capitals. It dies over some of the others."""


_TABLE = "FORMAT_WITH_STRING_TABLE"
_NUMBERS = frozenset(("BININT", "BININT1", "BININT2", "LONG1"))
_DEBUG_CODES = frozenset((
    "PROTO", "MARK", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "BINPUT", "LONG_BINPUT", "BINGET",
    "LONG_BINGET", "GLOBAL", "APPENDS", "APPEND", "NONE", "STOP",
))  # fmt: skip
"""What PyTorch writes debug information with, besides numbers, texts and lists."""


def refuse_unsafe(path: Path) -> None:
    """Look through the code of a TorchScript archive before it is loaded.

    Raises `UnsafeInput` where it calls an operator on files or one of a namespace that is not known to be harmless,
    cannot be looked through, or does more than put data back while it is loaded.
    """
    with open_archive(path) as archive:
        if member(archive, "model.json") is not None:
            raise _unsafe_error(path, "it is in the format of PyTorch before 1.2, whose code may lie anywhere in it")
        codes = {
            name.partition("code/")[2] or name: read_member(archive, name, limits.TORCHSCRIPT_CODE_BYTES)
            for name in archive.namelist()
            if name.casefold().endswith(".py")  # PyTorch finds entries whatever their case is
        }
        pickles = [name for name in archive.namelist() if name.casefold().endswith(".pkl")]
        pickled = [read_member(archive, name, limits.PICKLE_BYTES) for name in pickles]
    texts = {name: code.decode("utf-8", "replace") for name, code in codes.items()}
    if any("prim.ConstantMKLDNNTensor" in code for code in texts.values()):
        raise BadInput(
            f"{path} was saved after torch.jit.optimize_for_inference, which leaves weights in oneDNN's own layout "
            "out of the file: PyTorch does not load it either",
            hint="save the scripted module as it is before that",
        )
    for name, code in texts.items():
        for found in _unsafe_findings(code):
            raise _unsafe_error(path, f"{name} {found}")
    names = [*texts.values(), *(name for data in pickled for name in read_pickle(data).globals)]
    for library in sorted({found for name in names for found in _CLASS.findall(name)} - CLASSES):
        raise _unsafe_error(path, f"it has an object of torch.classes.{library}")
    for found in setstate_findings(texts.values()):
        raise _unsafe_error(path, f"it {found}")


def refuse_damaged_debug_info(path: Path) -> None:
    """Hold the places that source ranges point to against the table of texts, which PyTorch reads without a look.

    Each `.debug_pkl` is a format's name, the texts, and ranges whose texts are lists of places in that table
    (torch/csrc/jit/serialization/source_range_serialization.cpp). Raises `BadInput` for a place that there is not.
    """
    with open_archive(path) as archive:
        for name in archive.namelist():
            if name.endswith(".debug_pkl"):
                content = read_member(archive, name, limits.PICKLE_BYTES)
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
    """What is wrong with a `.debug_pkl`, or nothing. Only its lists hold places, and no other form writes them."""
    texts, listing, first = 0, False, ""
    for code, argument, _ in pickletools.genops(content):
        if code.name == "BINUNICODE":
            texts, first = texts + 1, first or str(argument)
        elif code.name == "EMPTY_LIST":
            listing = True
        elif code.name == "REDUCE":
            listing = False
        elif listing and isinstance(argument, int) and code.name in _NUMBERS:
            if first == _TABLE and not 0 <= argument < texts - 1:
                return f"a source range begins in text {argument} of {texts - 1}"
        elif first == _TABLE and code.name not in _DEBUG_CODES and not (code.name in _NUMBERS and not listing):
            return f"it has the opcode {code.name}"
    return ""


def custom_operators(path: Path) -> set[str]:
    """The operators of `torch.ops` that the code of an archive calls, as "namespace::name"."""
    found: set[str] = set()
    with open_archive(path) as archive:
        for name in archive.namelist():
            if name.casefold().endswith(".py"):
                code = read_member(archive, name, limits.TORCHSCRIPT_CODE_BYTES).decode("utf-8", "replace")
                found |= {f"{m[1]}::{m[2]}" for m in _CALL.finditer(code)}
    return found


def _unsafe_error(path: Path, why: str) -> UnsafeInput:
    return UnsafeInput(
        f"{path} could act on files or the network while it is loaded or run: {why}",
        hint="if you trust the file, add --trust",
    )


def _unsafe_findings(code: str) -> Iterator[str]:
    """What is wrong with one source file, in words."""
    try:
        tokens = [
            t
            for t in tokenize.generate_tokens(io.StringIO(code).readline)
            if t.type in (tokenize.NAME, tokenize.OP, tokenize.STRING, tokenize.NUMBER, tokenize.ERRORTOKEN)
        ]
    except (tokenize.TokenError, SyntaxError, ValueError) as error:
        yield f"cannot be looked through ({str(error)[:80]})"
        return
    texts = [t.string for t in tokens]
    for i, text in enumerate(texts):
        if text in FILES and i and texts[i - 1] == ".":
            yield f"calls {text}"
        if text == "ops" and texts[i - 1 : i] != ["."] and not _is_call(texts[i : i + 6]):
            yield f"takes operators from {''.join(texts[i : i + 5])[:80]!r}, which is no call of a known one"
        if texts[i - 1 : i + 2] == [".", "prim", "."] and (name := "".join(texts[i + 2 : i + 3])) and _is_odd(name):
            yield f"calls prim.{name}, which no program of PyTorch's does"
        if text == "getattr" and not _is_plain_getattr(texts[i : i + 8]):
            yield "takes an attribute by a name that is not plain"


def _is_call(texts: list[str]) -> bool:
    """`ops.namespace.name(`, of a known namespace; a part of it may not go by another name."""
    return texts[1:4:2] == [".", "."] and texts[5:6] == ["("] and texts[2] in NAMESPACES


def _is_odd(builtin: str) -> bool:
    """Whether it is one that PyTorch puts into graphs itself, or that calls another machine."""
    return (not builtin.islower() and builtin not in _BUILTINS) or builtin.startswith("rpc")


def _is_plain_getattr(texts: list[str]) -> bool:
    """`getattr(self, "0")`, which is how a submodule with a number for a name is written."""
    if texts[1:2] != ["("] or "," not in texts:
        return False
    place = texts.index(",")
    if {"ops", "torch"} & set(texts[:place]):  # whose parts go by their own names
        return False
    if texts[place + 2 : place + 3] != [")"]:
        return False
    try:
        name = ast.literal_eval(texts[place + 1])
    except (ValueError, SyntaxError):
        return False
    return isinstance(name, str) and name not in FILES | {"ops"}
