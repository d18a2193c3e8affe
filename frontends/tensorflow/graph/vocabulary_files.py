"""Tables filled from a text file among a model's assets, as InitializeTableFromTextFile reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from convert import limits
from convert.errors import Unsupported

from .attributes import dtype_of

_WHOLE_LINE, _LINE_NUMBER = -2, -1
"""Special column numbers in `key_index` and `value_index`."""


def table_from_file(path: Path, filling: Any, handle: Any) -> tuple[ir.TensorProtocol, ir.TensorProtocol]:
    """Return keys and values of a table from the lines of a file; the handle's attributes give the dtypes.

    filling, handle: attributes of the two nodes. Raises `Unsupported` for a file that TensorFlow also rejects.
    """
    if filling["offset"].i if "offset" in filling else 0:
        raise Unsupported("a table that is filled from the middle of a file")
    if path.stat().st_size > limits.TENSORFLOW_TABLE_ELEMENTS:
        raise Unsupported("a table that is filled from a file of more than 100 MB")
    content = path.read_bytes().replace(b"\r", b"")
    if content.count(b"\n") > limits.TENSORFLOW_TABLE_LINES:
        raise Unsupported(f"a table that is filled from a file of more than {limits.TENSORFLOW_TABLE_LINES:,} lines")
    lines = content.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    wanted = filling["vocab_size"].i if "vocab_size" in filling else -1
    if wanted > len(lines) or b"" in lines:
        raise Unsupported("a table that is filled from a file with too few lines, or empty ones")
    lines = lines[:wanted] if wanted >= 0 else lines
    delimiter = filling["delimiter"].s if "delimiter" in filling else b"\t"
    columns = [
        _column(lines, filling[index].i, delimiter or b"\t", dtype_of(handle[dtype].type))
        for index, dtype in (("key_index", "key_dtype"), ("value_index", "value_dtype"))
    ]
    if len({*columns[0]}) != len(lines):
        raise Unsupported("a table that is filled from a file with one key in several lines")
    return _tensor(columns[0], handle["key_dtype"].type), _tensor(columns[1], handle["value_dtype"].type)


def _column(lines: Sequence[bytes], index: int, delimiter: bytes, dtype: ir.DataType | None) -> list[Any]:
    if index == _LINE_NUMBER:
        return list(range(len(lines)))
    try:
        texts = lines if index == _WHOLE_LINE else [line.split(delimiter)[index] for line in lines]
        read: Callable[[bytes], Any] = bytes
        if dtype != ir.DataType.STRING:
            read = float if dtype is not None and dtype.is_floating_point() else int
        return [read(text) for text in texts]
    except (IndexError, ValueError):
        raise Unsupported("a table that is filled from a file whose lines have another form") from None


def _tensor(column: Sequence[Any], kind: int) -> ir.TensorProtocol:
    dtype = dtype_of(kind)
    if dtype is None:
        raise Unsupported("a table of a dtype that no graph has")
    if dtype == ir.DataType.STRING:
        return ir.StringTensor(np.array(column, object), shape=ir.Shape([len(column)]))
    return ir.tensor(np.array(column, dtype.numpy()))
