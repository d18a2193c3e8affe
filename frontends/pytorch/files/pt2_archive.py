"""Reads `.pt2` archives with torch.export, after checking that nothing in them would be executed.

`torch.export.load` may execute code in four ways:

- it unpickles whatever it cannot read otherwise
- it calls `sympy.sympify` (hence `eval`) on the sizes in the archive's JSON
- it resolves names inside the torch package
- it loads (or compiles) what AOTInductor left for each model

So the parts of the archive are checked first, and every `torch.load` inside is restricted to weights. The load runs in
a thread that cannot write, connect or start programs.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from convert import limits
from convert.errors import BadInput, ResourceLimit, UnsafeInput
from convert.files.archives import open_archive, read_member
from convert.files.counted_json import parse_json
from convert.files.scratch import place_of_temporary_files
from convert.processes.sandbox import in_confined_thread

from . import exported_names
from .custom_operators import declare_operators
from .expressions import TooLarge, check_cost
from .old_exported import old_schema, rewritten
from .unregistered_classes import stand_in_classes

_TARGET = re.compile(
    r"torch\.ops\.[a-z_]\w*\.\w+(\.\w+)?|_operator\.\w+|math\.\w+|torch\.sym_\w+|torch\._sym_\w+", re.ASCII
)
_CUSTOM = re.compile(r"torch\.ops\.(?!aten\.|prim\.|higher_order\.)([a-z_]\w*)\.(\w+)(?:\.\w+)?", re.ASCII)
_COMPILED = "data/aotinductor/"
"""The folder of an archive with libraries and C++ (AOTINDUCTOR_DIR in torch/export/pt2_archive/constants.py)."""
_CODE = re.compile(r"torch|math|_operator")
"""The prefixes of targets that PyTorch resolves to a Python function; others name weights."""

_FUNCTIONS = frozenset(
    (  # noqa: SIM905
        "Symbol Integer Rational Float Add Mul Pow Max Min Mod PythonMod Abs Eq Ne Le Lt Ge Gt And Or Not Equality "
        "Unequality LessThan StrictLessThan GreaterThan StrictGreaterThan FloorDiv ModularIndexing Where CleanDiv "
        "CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv TruncToFloat "
        "TruncToInt RoundToInt RoundDecimal ToFloat Identity IsNonOverlappingAndDenseIndicator floor ceiling sqrt log "
        "exp Piecewise ExprCondPair oo int_oo true false True False zoo nan pi E I"
    ).split()
)
"""The functions that PyTorch writes sizes with."""
_SYMBOL = re.compile(r"[a-z]{1,3}f?\d+|[A-Za-z]\w{0,40}", re.ASCII)
_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.keyword,
    ast.Load,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.Tuple,
)


def read_exported(path: Path, trust: bool = False) -> ExportedProgram:
    """Return the program in a `.pt2` file. Raises `BadInput` if it is broken, `UnsafeInput` if reading it could run
    code.
    """
    if (schema := old_schema(path)) is None:
        return _read_current(path, trust)
    with tempfile.TemporaryDirectory(dir=place_of_temporary_files()) as folder:
        return _read_current(rewritten(path, schema, Path(folder)), trust)


def _read_current(path: Path, trust: bool) -> ExportedProgram:
    named = _operators(path, trust)
    unknown = declare_operators(named)
    if unknown:
        raise BadInput(
            f"{path} calls operators that no library here has registered: {', '.join(unknown)}",
            hint="import the library that defines them in a file of rules, and give that with --rules FILE",
        )
    from ..export.patch_table import Stage, patched  # its import takes as long as the import of the program reader

    try:
        with _weights_only(not trust), _no_log(), stand_in_classes(), patched(Stage.LOAD):
            return torch.export.load(path) if trust else in_confined_thread(partial(torch.export.load, path))
    except Exception as error:
        text = " ".join(str(error).split())[:400]
        raise BadInput(
            f"{path} could not be read as an exported program: {type(error).__name__}: {text}",
            hint="save it again with torch.export.save of the PyTorch version installed here",
        ) from error


@contextmanager
def _no_log() -> Iterator[None]:
    """Suppress warnings, and the traceback that PyTorch logs for an error that it also raises."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _weights_only(on: bool) -> Iterator[None]:
    """Restrict `torch.load` to weights, whatever its caller requests; PyTorch reads that from the environment."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    if on:
        os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def _operators(path: Path, trust: bool) -> set[str]:
    """Return the custom operators that the program calls. Raises `UnsafeInput` if reading the file could run code."""
    found: set[str] = set()
    with open_archive(path) as archive:
        for name in archive.namelist():
            if not trust and _COMPILED in name:
                raise UnsafeInput(
                    f"{path} holds code that AOTInductor compiled ({name[:200]}), which would be executed",
                    hint="save the program itself with torch.export.save; if you trust the file, add --trust",
                )
            if name.endswith(".json"):
                text = read_member(archive, name, limits.EXPORTED_JSON_BYTES)
                try:
                    content = parse_json(text, f"{path}: {name[:200]}")
                except (ValueError, RecursionError) as error:
                    raise BadInput(f"{path}: {name} is not JSON: {error}", hint="get the file again") from None
                if not trust:
                    _check_json(path, name, content)
                if name.endswith("_config.json"):
                    _check_weights_are_there(path, name, content, archive)
                found |= {
                    f"{m[1]}::{m[2]}"
                    for key, v in _json_entries(content)
                    if key == "target" and (m := _match_custom_operator(v))
                }
    return found


def _check_weights_are_there(path: Path, name: str, content: Any, archive: zipfile.ZipFile) -> None:
    """Raise `BadInput` for a non-empty tensor whose entry has no bytes: PyTorch would use zeros."""
    entries = content.get("config") if isinstance(content, dict) else None
    for tensor, config in entries.items() if isinstance(entries, dict) else ():
        meta = config.get("tensor_meta") if isinstance(config, dict) else None
        sizes = meta.get("sizes") if isinstance(meta, dict) else None
        if not isinstance(sizes, list) or {"as_int": 0} in sizes:
            continue
        entry = f"{name.rpartition('/')[0]}/{config.get('path_name')}"
        if entry in archive.NameToInfo and not archive.getinfo(entry).file_size:
            raise BadInput(f"{path}: the values of {tensor[:200]} are not in it: {entry} is empty",
                           hint="get the file again")  # fmt: skip


def _match_custom_operator(target: Any) -> re.Match[str] | None:
    """Return the namespace and name of a custom operator."""
    return _CUSTOM.fullmatch(target) if isinstance(target, str) else None


def _check_json(path: Path, name: str, content: Any) -> None:
    """Raise `UnsafeInput` for sizes beyond arithmetic, targets that are no operators, names of code, and pickled
    objects.
    """
    for found in exported_names.findings(content):
        raise _unsafe_error(path, f"{name} {found}")
    for key, value in _json_entries(content):
        if key == "expr_str":
            _check_size(path, name, value)
        if key == "target" and isinstance(value, str) and _CODE.match(value) and not _TARGET.fullmatch(value):
            raise _unsafe_error(path, f"{name} calls {value!r}, which is not an operator")
        if key == "path_name" and isinstance(value, str) and re.match(r"(custom_obj|opaque_obj)", Path(value).name):
            raise _unsafe_error(path, f"{name} names the pickled object {value!r}")


def _check_size(path: Path, name: str, text: Any) -> None:
    if not _is_arithmetic(text):
        raise _unsafe_error(path, f"{name} holds {str(text)[:200]!r} where a size should be")
    try:
        check_cost(ast.parse(text, mode="eval"))
    except TooLarge:
        raise ResourceLimit(
            f"{path} holds a size that takes too long to compute: {text[:200]!r} in {name}",
            hint="was the file made by torch.export.save?",
        ) from None


def _unsafe_error(path: Path, why: str) -> UnsafeInput:
    return UnsafeInput(
        f"{path} would have to execute code to be read: {why}", hint="if you trust the file, add --trust"
    )


def _json_entries(content: Any) -> Iterator[tuple[str, Any]]:
    pending = [content]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield from item.items()
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _is_arithmetic(text: Any) -> bool:
    """Return whether a text is an expression of numbers, symbols and the functions that PyTorch writes sizes with."""
    if not isinstance(text, str) or len(text) > limits.EXPORTED_EXPRESSION_CHARACTERS:
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            return False
        if (
            isinstance(node, ast.Name)
            and node.id not in _FUNCTIONS
            and (id(node) in called or not _SYMBOL.fullmatch(node.id))
        ):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _SYMBOL.fullmatch(node.value):
            return False
    return True
