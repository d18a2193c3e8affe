"""Rewrites exported programs of schema 5 (PyTorch 2.4) in the schema that the installed PyTorch reads.

PyTorch loads only programs whose schema has the same first number as its own. The definitions of schema 5.3 and 8.20
(torch/_export/serde/schema.py) differ in three points:

- Schema 8 has more fields, all with defaults, and more values of enumerations.
- It lacks `dialect`.
- `as_none` is true instead of an empty list.

So a program of schema 5 means the same in schema 8. Programs of schema 1 (PyTorch 2.1) have another structure.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from convert import limits
from convert.errors import BadInput
from convert.files.archives import copy_member, member, open_archive, read_member
from convert.files.counted_json import parse_json

from ..torch_internals import export_schema

READ = 5
"""The old schema that is read."""
CURRENT = 8
"""The schema with which `READ` was compared."""

_PROGRAM = "serialized_exported_program.json"
_VERSION = re.compile(r"(\d+)(\.\d+)?\s*", re.ASCII)


def old_schema(path: Path) -> int | None:
    """Return the first number of an exported program's schema if the installed PyTorch does not read it, else None."""
    with open_archive(path) as archive:
        if member(archive, _PROGRAM) is None or (name := member(archive, "version")) is None:
            return None
        text = read_member(archive, name, limits.ARCHIVE_FORMAT_BYTES).decode("ascii", "replace")
    found = _VERSION.fullmatch(text)
    return int(found[1]) if found and int(found[1]) != export_schema()[0] else None


def rewritten(path: Path, schema: int, folder: Path) -> Path:
    """Return the path of a copy in `folder` with the installed PyTorch's schema.

    Raises `BadInput` for a program of another schema than `READ`.
    """
    current = export_schema()
    if (schema, current[0]) != (READ, CURRENT):
        raise BadInput(
            f"{path} is an exported program of schema {schema}, which PyTorch {torch.__version__} does not load: it "
            f"loads schema {current[0]}",
            hint="export the model again with a current release, or load the file in the release that saved it and "
            "write program.module() with torch.jit.trace or torch.onnx.export",
        )
    target = folder / path.name
    with open_archive(path) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        program, version = member(archive, _PROGRAM), member(archive, "version")
        for name in archive.namelist():
            if name == version:
                new.writestr(name, ".".join(map(str, current)))
            elif name == program:
                text = read_member(archive, name, limits.EXPORTED_JSON_BYTES)
                new.writestr(name, _rewritten_program(path, text, current))
            else:
                copy_member(archive, name, new)
    return target


def _rewritten_program(path: Path, text: bytes, current: tuple[int, int]) -> bytes:
    try:
        program = parse_json(text, f"{path}: {_PROGRAM}")
        program["schema_version"] = dict(zip(("major", "minor"), current, strict=True))
        del program["dialect"]
        _mark_none(program)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} has a damaged {_PROGRAM}: {error}", hint="get the file again") from None
    return json.dumps(program).encode()


def _mark_none(program: Any) -> None:
    """Replace the empty lists under `as_none`."""
    pending = [program]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if item.get("as_none") == []:
                item["as_none"] = True
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
